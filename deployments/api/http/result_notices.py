"""What an answer says beside its list when the query is most probably not what was meant."""

from __future__ import annotations

from actors.recommender.messages import RecommendationResult
from deployments.edge.envelope import dumps


def render_notices(answered: RecommendationResult) -> bytes:
    """Write `warnings` and `anchor_found` as further members of `data`; nothing for a query without faults.

    An engine with a place of its own may run the release before, whose results have neither.
    """
    warnings = getattr(answered, "warnings", ())
    found = b',"warnings":' + dumps(list(warnings)) if warnings else b""
    return found if getattr(answered, "anchor_found", True) else found + b',"anchor_found":false'
