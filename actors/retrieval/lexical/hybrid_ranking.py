"""Words and meaning together: each list's best, scaled to 0..1, added by the share of meaning.

Source:
    ranking notes, section 6: min-max blend of the best 100
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
"What is left for those behind the best: they keep their order."


def blend_hits(
    found: TextHits, near: Rows, likeness: Scores, share: float, *, least: float, bend: float = 1.0
) -> TextHits:
    """Blend what was found by words with the products nearest in meaning.

    Shapes:
        near: int64 [m], best first; likeness: float32 [m], their cosine
    Units:
        `bend` below 1 draws the leaders in words together, as an embedder may ask for
    """
    others = (likeness >= least) & ~np.isin(near, found.rows)
    rows = np.concatenate([found.rows, near[others]])
    if not len(rows):
        return found
    words = np.zeros(len(rows), np.float32)
    words[: len(found.rows)] = _scaled(found.scores if bend == 1.0 else np.power(found.scores, bend))
    meaning = np.zeros(len(rows), np.float32)
    if len(near):
        order = np.argsort(near)
        places = np.minimum(np.searchsorted(near[order], rows), len(near) - 1)
        known = near[order][places] == rows
        low, high = float(likeness.min()), float(likeness.max())
        worth = (likeness - low) / (high - low) if high > low else np.ones_like(likeness)
        meaning[known] = worth[order][places[known]]
    weight = share if len(found.rows) else 1.0
    scores = (1 - weight) * words + weight * meaning
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
    """Scale the best to 0..1; those behind them share what is left below."""
    if not len(scores):
        return scores
    high, low = float(scores[0]), float(scores[min(BEST, len(scores)) - 1])
    scaled = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    behind = scores < low
    scaled[behind] = _LEFT * (scores[behind] / low - 1)
    out: Scores = np.asarray(scaled, np.float32)
    return out
