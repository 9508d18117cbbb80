"""Who gets which variant: forced, remembered, or by hash. Plain rules; remembering is somebody else's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.experiments.assignment import takes_part, variant_for
from cluster.errors import NotFound, messages
from cluster.records.experiment import Experiment, Variant


@dataclass(frozen=True, slots=True)
class Choice:
    """What a reader gets, and what has to be remembered for next time."""

    in_experiment: bool
    variant: Variant
    remember: Mapping[str, str]
    "Reader id -> variant id: everybody this person is known as."
    forced: bool = False


def choose(
    experiment: Experiment,
    readers: tuple[str, ...],
    remembered: Mapping[str, str],
    *,
    now_ms: int,
    variant_name: str | None = None,
) -> Choice:
    """Choose for a person known under one or two reader ids, the user's first (`u:...`, then `a:...`).

    A variant once given stays, whatever happens to weights and traffic; when an anonymous visitor turns out to be a
    user, the user's own variant wins over the visitor's, and the visitor's over a fresh one.

    Errors:
        NotFound: there is no variant of that name
    """
    running = experiment.runs(now_ms)
    if variant_name is not None:
        named = experiment.variant(variant_name)
        if named is None:
            raise NotFound(messages.VARIANT_NOT_FOUND)
        return Choice(
            running, named, dict.fromkeys(readers, named.variant_id) if running else {}, forced=True
        )
    for reader in readers:
        kept = experiment.variant(remembered.get(reader, ""))
        if kept is not None:
            missing = [other for other in readers if remembered.get(other) != kept.variant_id]
            return Choice(running, kept, dict.fromkeys(missing, kept.variant_id) if running else {})
    if not running or not takes_part(experiment, readers[0]):
        return Choice(False, experiment.variants[0], {})
    variant = variant_for(experiment, readers[0])
    return Choice(True, variant, dict.fromkeys(readers, variant.variant_id))
