"""BM25, for products and for passages: the arithmetic, each formula once.

    score of a term in a text = idf x count (k1 + 1) / (count + norm)
    norm                      = k1 (1 - b + b length / mean length)
    idf                       = ln(1 + (texts - texts with the term + 0.5) / (texts with the term + 0.5))

`term_matcher` computes a product's score at query time, because products change and with them the mean length.
`passage_postings` stores all but the idf in 255 levels, because the passages of a segment do not change.

Source:
    S. Robertson, H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009)
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

K1: Final = 1.2
B: Final = 0.75


def compute_idf(count: int, texts: int) -> float:
    """Compute the inverse document frequency of a term that occurs in `count` of so many texts."""
    # The 1 inside the logarithm keeps terms of more than half of the texts above 0.
    return math.log1p((texts - count + 0.5) / (count + 0.5))


def compute_length_norms(lengths: npt.NDArray[Any], mean_length: float) -> npt.NDArray[np.float64]:
    """Compute for each text how much its length lowers the score of a term; 1.2 for a text of mean length.

    Shapes:
        lengths: [n]; returns: float64 [n]
    Units:
        lengths and their mean are numbers of terms; a mean below 1 counts as 1
    """
    # k1 (1 - b + b length / mean length)
    norms: npt.NDArray[np.float64] = K1 * (1 - B) + (K1 * B / max(mean_length, 1.0)) * lengths
    return norms


def saturate_counts(counts: Any, norms: Any, weight: Any) -> Any:
    """Multiply a weight by the saturated term frequency: `count x weight / (count + norm)`.

    Shapes:
        counts and norms: float32 or float64 [p]; returns: [p], of the type that numpy promotes them to
    """
    return counts * weight / (counts + norms)
