"""Who gets which variant: forced, remembered, or by a salted hash. Pure rules; the caller stores the assignment.

    position(salt, user) = first 53 bits of SHA-256(salt + "\\n" + user) / 2^53          in [0, 1)

A user always has the same position under a salt, and positions under different salts are independent. Three salts
decide three things: `layer`, in which experiment of a layer a user may take part; `entry`, whether the user does;
`variant`, with which variant. Test vectors for other implementations:

    position("salt", "u:ada") = 0.8538240338385897
    position("salt", "a:ada") = 0.7497199796638994
    position("entry-5f0c", "u:Łukasz") = 0.577488983969
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cluster.errors import NotFound, messages
from cluster.records.experiment import Experiment, Variant

_BITS = 53


def hash_position(salt: str, reader: str) -> float:
    """Return the position of a user in [0, 1) under a salt.

    Cost:
        1 us
    """
    digest = hashlib.sha256(f"{salt}\n{reader}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


def is_eligible(experiment: Experiment, reader: str) -> bool:
    """Return whether a user is in the experiment's slice of its layer and in its share of the traffic."""
    if experiment.layer:
        first, last = experiment.slice
        if not first <= hash_position(f"layer {experiment.app_id} {experiment.layer}", reader) < last:
            return False
    return hash_position(experiment.entry_salt, reader) < experiment.traffic


def select_variant(experiment: Experiment, reader: str) -> Variant:
    """Return the variant at a user's position, among variants open to new users; the control when there is none."""
    open_variants = [
        variant for variant in experiment.variants if variant.status == "Active" and variant.weight > 0
    ]
    if not open_variants:
        return experiment.variants[0]
    at = hash_position(experiment.variant_salt, reader) * sum(variant.weight for variant in open_variants)
    for variant in open_variants:
        at -= variant.weight
        if at < 0:
            return variant
    return open_variants[-1]


@dataclass(frozen=True, slots=True)
class VariantChoice:
    """The variant of a user, and the assignments to store."""

    in_experiment: bool
    variant: Variant
    remember: Mapping[str, str]
    "User id -> variant id: all ids of this person."
    forced: bool = False


def choose_variant(
    experiment: Experiment,
    readers: tuple[str, ...],
    remembered: Mapping[str, str],
    *,
    now_ms: int,
    variant_name: str | None = None,
) -> VariantChoice:
    """Choose the variant of a person with one or two ids, the user's first (`u:...`, then `a:...`).

    A stored variant stays, whatever happens to weights and traffic. When an anonymous visitor logs in, the user's
    variant replaces the visitor's, and the visitor's replaces a new one.

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
