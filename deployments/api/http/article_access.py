"""What the user of a request may read of an archive: the tiers of a token, and the rule that hides all else."""

from __future__ import annotations

from dataclasses import replace

from actors.recommender.messages import Boost, UserQuery
from cluster.access_tier import MOST_OF_ACCOUNT, NOBODY, OPEN, SIGNED_IN, is_tier
from cluster.query.language.tree import All, Any, Exists, Not, Term
from deployments.edge.http.credentials import UserToken
from deployments.edge.http.request import ApiRequest

CLAIM = "tiers"
'Claim of a user token: the names of tiers, as `["subscriber"]`.'
_FIELD = "access"


def tiers_from_request(request: ApiRequest) -> frozenset[str]:
    """Return the tiers of the token's user; only a token gives any, because its shop signed it."""
    return tiers_from_verified_token(request.token)


def tiers_from_verified_token(token: UserToken | None) -> frozenset[str]:
    """Return the tiers of a token's user; none without a token."""
    if token is None or not token.user_id:
        return NOBODY
    claim = token.claims.get(CLAIM)
    names = claim[:MOST_OF_ACCOUNT] if isinstance(claim, list) else ()
    return SIGNED_IN.union(name for name in names if isinstance(name, str) and is_tier(name))


def keep_readable(query: UserQuery, tiers: frozenset[str]) -> UserQuery:
    """Return the query with the products alone that these tiers may read, as if there were no others.

    The lock is a rule that removes, since a filter would warn in an app without locked articles.
    """
    readable = Any(tuple(Term(_FIELD, name) for name in (OPEN, *sorted(tiers))))
    locked = Boost(All((Exists(_FIELD), Not(readable))))
    search = None if query.search is None else replace(query.search, tiers=tiers)
    return replace(query, removed=(*query.removed, locked), search=search, tiers=tiers)
