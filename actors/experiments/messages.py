"""What is asked of the assigner and of the desk, and what they answer: frozen values made for the crossing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cluster.records.experiment import Variant
from cluster.store.ports.interactions import BrowserWriter

LifecycleStep = Literal["start", "pause", "complete", "archive"]
"A step of an experiment's life that needs nothing but its name."


@dataclass(frozen=True, slots=True)
class ExperimentEvent:
    """Somebody met an experiment, or is about to."""

    app_id: str
    named: str
    "Id or slug of the experiment."
    user_id: str = ""
    anonymous_id: str = ""
    variant_name: str | None = None
    "Forces this variant; none: the reader's own."
    at_ms: int | None = None
    "When it happened; none: now."
    device: str = ""
    writer: BrowserWriter | None = None
    "Of a caller without proof: how many new readers they may add."

    @property
    def readers(self) -> tuple[str, ...]:
        """The reader ids it names, the user's first."""
        user = ("u:" + self.user_id,) if self.user_id else ()
        return user + (("a:" + self.anonymous_id,) if self.anonymous_id else ())


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the reader gets."""

    in_experiment: bool
    "Does the experiment run, and is the reader in it?"
    variant: Variant


@dataclass(frozen=True, slots=True)
class ExperimentTreatment:
    """A variant that a reader of ours met while we served them."""

    app_id: str
    experiment_id: str
    variant: Variant


@dataclass(frozen=True, slots=True)
class ExperimentUpdate:
    """What is to be changed; None or empty: nothing of that kind."""

    name: str | None = None
    traffic: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    "Variant, by id, slug or name -> its weight; 0 takes nobody new."
    ends_at: int | None = None
    "Milliseconds since 1970."
    goal: tuple[str, ...] | None = None
    layer: str | None = None
    slice: tuple[float, float] | None = None
