"""Access to articles: what an article asks of its user, and the tiers that an account has.

absent, `open`   everybody
`registered`     everybody who signed in
other names      accounts with the tier of this name, as `subscriber`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

TIER_FORM = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"Form of the name of a tier."
MOST_TIERS = 64
"""Tiers of the articles of one app. Each has separate segments in an archive, so their number bounds the cost of a
question; articles of further tiers are in no archive.
"""
MOST_OF_ACCOUNT = 20
"Tiers that an account can have."
OPEN = "open"
REGISTERED = "registered"
NOBODY: frozenset[str] = frozenset()
"The tiers of a user who did not sign in."
SIGNED_IN = frozenset({REGISTERED})
"The tiers of an account without a subscription."


def is_tier(name: str) -> bool:
    """Return whether a name is that of a tier that accounts can have."""
    return re.fullmatch(TIER_FORM, name) is not None and name not in (OPEN, REGISTERED)


def parse_claim_values(text: str) -> dict[str, str]:
    """Return the tiers by the values of a claim, from `value=tier,value=tier`.

    Errors:
        ValueError: an entry has another form, or names no tier
    """
    tiers: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        value, equals, tier = (part.strip() for part in entry.rpartition("="))
        if not value or not equals or not is_tier(tier):
            raise ValueError(f"{entry[:100]!r} is no value=tier, as premium=subscriber")
        tiers[value] = tier
    return tiers


def tiers_from_claims(claims: Mapping[str, Any], name: str, values: Mapping[str, str]) -> frozenset[str]:
    """Return the tiers that a claim gives; without `values` the claim names the tiers themselves.

    `name` is the name of a claim, or a path of names with dots, as `realm_access.roles`.
    """
    claim: Any = claims.get(name)
    # A name such as `https://news.example/tiers` is one claim; else its dots lead into objects.
    if claim is None:
        claim = claims
        for part in name.split("."):
            claim = claim.get(part) if isinstance(claim, Mapping) else None
    given: Iterable[Any] = claim if isinstance(claim, list) else [claim]
    # As JSON writes it: `str` would give `True`.
    texts = [
        str(value).lower() if isinstance(value, bool) else str(value) for value in given if _is_plain(value)
    ]
    tiers = (values.get(text, "") for text in texts) if values else texts
    return frozenset(sorted(filter(is_tier, tiers))[:MOST_OF_ACCOUNT])


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int)


def access_of(record: Mapping[str, Any]) -> str:
    """Return the tier that a product asks for; empty if its text is open."""
    access = str(record.get("access") or "")
    return "" if access == OPEN else access


def may_read(access: str, tiers: frozenset[str]) -> bool:
    """Return whether a user with these tiers may read an article."""
    return not access or access in tiers
