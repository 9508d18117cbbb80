"""Access to articles: what an article asks of its user, and the tiers that an account has.

absent, `open`   everybody
`registered`     everybody who signed in
other names      accounts with the tier of this name, as `subscriber`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TIER_FORM = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"Form of the name of a tier."
MOST_TIERS = 64
"""Tiers of the articles of one app. Each has separate segments in an archive, so their number bounds the cost of a
question; articles of further tiers are in no archive.
"""
OPEN = "open"
REGISTERED = "registered"
NOBODY: frozenset[str] = frozenset()
"The tiers of a user who did not sign in."
SIGNED_IN = frozenset({REGISTERED})
"The tiers of an account without a subscription."


def access_of(record: Mapping[str, Any]) -> str:
    """Return the tier that a product asks for; empty if its text is open."""
    access = str(record.get("access") or "")
    return "" if access == OPEN else access


def may_read(access: str, tiers: frozenset[str]) -> bool:
    """Return whether a user with these tiers may read an article."""
    return not access or access in tiers
