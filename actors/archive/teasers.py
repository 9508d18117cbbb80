"""Name the locked articles that fit a question, where the publisher allows it: title and address alone.

The search runs beside that of passages, so neither passages, order, scores nor coverage depend on it.
"""

from __future__ import annotations

from dataclasses import replace

from actors.archive.messages import ArchiveQuery, ArchiveResult, ArticleTeaser
from actors.archive.passage_index import PassageIndex
from actors.archive.retrieve import search_passages
from cluster.access_tier import may_read

MOST_READ = 50
"Articles among which the locked ones are."


def list_teasers(library: PassageIndex, query: ArchiveQuery, now_ms: int) -> ArchiveResult:
    """Return the best locked articles that have an address; only their titles can be read."""
    accesses = frozenset(segment.access for segment in library.segments)
    locked = frozenset(access for access in accesses if not may_read(access, query.tiers))
    if not locked:
        return ArchiveResult()
    # All articles compete: a locked one is named only if it ranks high among those that can be read.
    wide = replace(query, rows=MOST_READ, per_product=1, teasers=0, tiers=locked | query.tiers)
    teasers = []
    for snippet in search_passages(library, wide, now_ms).snippets:
        document = library.find(snippet.product_id)
        if document is not None and document.access in locked and document.url:
            teasers.append(ArticleTeaser(document.title, document.url))
    return ArchiveResult(teasers=tuple(teasers[: query.teasers]))
