"""Who gets which variant: forced, remembered, or by hash. Plain rules; remembering is somebody else's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.experiments.assignment import is_eligible, select_variant
from cluster.errors import NotFound, messages
from cluster.records.experiment import Experiment, Variant


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """What a reader gets, and what has to be remembered for next time."""

    in_experiment: bool
    variant: Variant
    remember: Mapping[str, str]
    "Reader id -> variant id: everybody this person is known as."
    forced: bool = False


def choose_variant(
    experiment: Experiment,
    readers: tuple[str, ...],
    remembered: Mapping[str, str],
    *,
    now_ms: int,
    variant_name: str | None = None,
) -> VariantChoice:
    """Choose for a person known under one or two reader ids, the user's first (`u:...`, then `a:...`).

    A variant once given stays, whatever happens to weights and traffic; when an anonymous visitor turns out to be a
    user, the user's own variant wins over the visitor's, and the visitor's over a fresh one.

    Errors:
        NotFound: there is no variant of that name
    """
    running = experiment.is_running_at(now_ms)
    if variant_name is not None:
        named = experiment.variant(variant_name)
        if named is None:
            raise NotFound(messages.VARIANT_NOT_FOUND)
        return VariantChoice(
            running, named, dict.fromkeys(readers, named.variant_id) if running else {}, forced=True
        )
    for reader in readers:
        kept = experiment.variant(remembered.get(reader, ""))
        if kept is not None:
            missing = [other for other in readers if remembered.get(other) != kept.variant_id]
            return VariantChoice(running, kept, dict.fromkeys(missing, kept.variant_id) if running else {})
    if not running or not is_eligible(experiment, readers[0]):
        return VariantChoice(False, experiment.variants[0], {})
    variant = select_variant(experiment, readers[0])
    return VariantChoice(True, variant, dict.fromkeys(readers, variant.variant_id))
