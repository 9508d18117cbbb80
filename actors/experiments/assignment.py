"""Salted hashing: the same reader always falls on the same place, and places of different salts are independent.

    place(salt, reader) = first 53 bits of SHA-256(salt + "\\n" + reader) / 2^53          in [0, 1)

Three salts, three questions: `layer` says which experiment of a layer a reader may take part in, `entry` whether the
reader does, `variant` with which variant. Test vectors, for whoever hashes elsewhere:

    place("salt", "u:ada") = 0.8538240338385897
    place("salt", "a:ada") = 0.7497199796638994
    place("entry-5f0c", "u:Łukasz") = 0.577488983969
"""

from __future__ import annotations

import hashlib

from cluster.records.experiment import Experiment, Variant

_BITS = 53


def hash_position(salt: str, reader: str) -> float:
    """Give a reader's place in [0, 1) under a salt.

    Cost:
        1 us
    """
    digest = hashlib.sha256(f"{salt}\n{reader}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> (64 - _BITS)) / (1 << _BITS)


def is_eligible(experiment: Experiment, reader: str) -> bool:
    """Is a reader in the experiment's slice of its layer, and in its share of the traffic?"""
    if experiment.layer:
        first, last = experiment.slice
        if not first <= hash_position(f"layer {experiment.app_id} {experiment.layer}", reader) < last:
            return False
    return hash_position(experiment.entry_salt, reader) < experiment.traffic


def select_variant(experiment: Experiment, reader: str) -> Variant:
    """Give the variant a reader falls on, among those that take somebody new; the control when there is none."""
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
