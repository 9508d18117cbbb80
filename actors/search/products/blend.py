"""Words and meaning together: each list's best, scaled to 0..1, added by the share of meaning.

Source:
    ranking notes, section 6: min-max blend of the best 100
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from actors.search.products.found import TextFound
from actors.vectors.top import best_rows
from actors.vectors.types import Mask, Rows, Scores

_BEST: Final = 100
_LEFT: Final = 1e-3
"What is left for those behind the best: they keep their order."


def blended(
    found: TextFound, likeness: Scores, allowed: Mask, share: float, *, least: float, bend: float = 1.0
) -> TextFound:
    """Blend what was found by words with how alike products are in meaning.

    Shapes:
        likeness: float32 [n], cosine by row; allowed: bool [m], m <= n
    Units:
        `bend` below 1 draws the leaders in words together, as an embedder may ask for
    """
    near = _nearest(likeness, allowed)
    others = near[(likeness[near] >= least) & ~np.isin(near, found.rows)]
    rows = np.concatenate([found.rows, others])
    if not len(rows):
        return found
    words = np.zeros(len(rows), np.float32)
    words[: len(found.rows)] = _scaled(found.scores if bend == 1.0 else np.power(found.scores, bend))
    meaning = np.zeros(len(rows), np.float32)
    if len(near):
        low, high = float(likeness[near].min()), float(likeness[near].max())
        spread = max(high - low, 1e-6)
        known = rows < len(likeness)
        meaning[known] = np.clip((likeness[rows[known]] - low) / spread, 0, 1)
    weight = share if len(found.rows) else 1.0
    scores = (1 - weight) * words + weight * meaning
    # as large as scores by words are, so that both can be compared with the same thresholds
    most = float(found.scores.max(initial=1.0))
    order = np.argsort(-scores, kind="stable")
    complete = np.concatenate([found.complete, np.zeros(len(others), np.bool_)])
    return replace(
        found,
        rows=rows[order],
        scores=np.maximum(scores[order] * np.float32(most), np.float32(1e-9)),
        complete=complete[order],
    )


def _nearest(likeness: Scores, allowed: Mask) -> Rows:
    scores = np.full(len(likeness), -np.inf, np.float32)
    kept = allowed[: len(likeness)]
    scores[: len(kept)][kept] = likeness[: len(kept)][kept]
    return best_rows(scores, _BEST)


def _scaled(scores: Scores) -> Scores:
    """Scale the best to 0..1; those behind them share what is left below."""
    if not len(scores):
        return scores
    high, low = float(scores[0]), float(scores[min(_BEST, len(scores)) - 1])
    scaled = (scores - low) / (high - low) if high > low else np.ones_like(scores)
    behind = scores < low
    scaled[behind] = _LEFT * (scores[behind] / low - 1)
    out: Scores = np.asarray(scaled, np.float32)
    return out
