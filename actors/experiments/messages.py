"""What is asked of the assigner and what it answers: frozen values made for the crossing."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.records.experiment import Variant


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
class Treatment:
    """A variant that a reader of ours met while we served them."""

    app_id: str
    experiment_id: str
    variant: Variant
