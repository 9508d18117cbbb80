"""Lexical and vector search in one ranking: the best of each list, scaled to 0..1, added by the share of vectors.

Only the best 100 of each list are scaled, by their minimum and maximum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from actors.retrieval.lexical.text_query import TextHits
from actors.vectors.types import Rows, Scores

BEST: Final = 100
"So many of each list are scaled."
_LEFT: Final = 1e-3
"Scale of the scores behind the best, which keep their order."


def blend_hits(
    found: TextHits, nearest: Rows, cosines: Scores, share: float, *, least: float, bend: float = 1.0
) -> TextHits:
    """Blend the hits of a lexical search with those of a vector search.

    Shapes:
        nearest: int64 [m], best first; cosines: float32 [m], to the query
    Units:
        `share` and `least` are 0 to 1; lexical scores are raised to the power `bend`, which the embedder sets
    """
    others = (cosines >= least) & ~np.isin(nearest, found.rows)
    rows = np.concatenate([found.rows, nearest[others]])
    if not len(rows):
        return found
    words = np.zeros(len(rows), np.float32)
    words[: len(found.rows)] = _scaled(found.scores if bend == 1.0 else np.power(found.scores, bend))
    similarity = np.zeros(len(rows), np.float32)
    if len(nearest):
        order = np.argsort(nearest)
        places = np.minimum(np.searchsorted(nearest[order], rows), len(nearest) - 1)
        known = nearest[order][places] == rows
        low, high = float(cosines.min()), float(cosines.max())
        scaled = (cosines - low) / (high - low) if high > low else np.ones_like(cosines)
        similarity[known] = scaled[order][places[known]]
    weight = share if len(found.rows) else 1.0
    scores = (1 - weight) * words + weight * similarity
    # as large as scores by words are, so that both can be compared with the same thresholds
    most = float(found.scores.max(initial=1.0))
    best = np.argsort(-scores, kind="stable")
    complete = np.concatenate([found.complete, np.zeros(len(rows) - len(found.rows), np.bool_)])
    return replace(
        found,
        rows=rows[best],
        scores=np.maximum(scores[best] * np.float32(most), np.float32(1e-9)),
        complete=complete[best],
    )


def _scaled(scores: Scores) -> Scores:
    """Scale the best to 0..1, and the others to a little below 0."""
    if not len(scores):
        return scores
    high, low = float(scores[0]), float(scores[min(BEST, len(scores)) - 1])
    scaled = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    behind = scores < low
    scaled[behind] = _LEFT * (scores[behind] / low - 1)
    out: Scores = np.asarray(scaled, np.float32)
    return out
