"""Requests and replies of the assigner and of experiment administration: frozen values that cross processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from cluster.errors import Refusal
from cluster.message_codec import MessageCodec
from cluster.records.experiment import Experiment, Variant
from cluster.store.data.append_plan import BrowserWriteLimits

LifecycleStep = Literal["start", "pause", "complete", "archive"]
"A step of the life cycle that needs only the name of the experiment."


@dataclass(frozen=True, slots=True)
class ExperimentEvent:
    """A user meets an experiment, or is about to."""

    app_id: str
    named: str
    "Id or slug of the experiment."
    user_id: str = ""
    anonymous_id: str = ""
    variant_name: str | None = None
    "Forces this variant; none: the user's assigned variant."
    at_ms: int | None = None
    "Time of the event; none: now."
    device: str = ""
    writer: BrowserWriteLimits | None = None
    "For a caller without proof: how many new users the event may add."

    @property
    def user_keys(self) -> tuple[str, ...]:
        """Return the user ids of the event, the one with `u:` first."""
        user = ("u:" + self.user_id,) if self.user_id else ()
        return user + (("a:" + self.anonymous_id,) if self.anonymous_id else ())


@dataclass(frozen=True, slots=True)
class Assignment:
    """The variant of a user."""

    in_experiment: bool
    "Whether the experiment runs and the user takes part."
    variant: Variant


BOTH_VARIANTS: Final = Variant(variant_id="both", name="both sides", slug="both")
"What a user of an interleaving gets, in counters and in the served log."


@dataclass(frozen=True, slots=True)
class ExperimentTreatment:
    """A variant that a user met through a request that we served."""

    app_id: str
    experiment_id: str
    variant: Variant
    forced: bool = False
    "An event of the client forced the variant."
    is_guarded: bool = False
    "The experiment has guardrails, so that the moments of its latency are counted."
    client: str = ""
    "The user, or the address of an unproven one: guardrails count a few requests of each."
    interleaved: Experiment | None = None
    "The experiment that interleaves its variants; the variant is then `BOTH_VARIANTS`."


EXPERIMENT_MESSAGES: Final = MessageCodec(
    {
        "ExperimentEvent": ExperimentEvent,
        "BrowserWriter": BrowserWriteLimits,
        "Assignment": Assignment,
        "Variant": Variant,
        "Refusal": Refusal,
    }
)
"Messages to the assigner and back; see `engine_messages` for the rule of the names."
