"""Read uploaded articles for the monitor, and sketch them to recognize the same news in other words.

Source:
    Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002 (random hyperplanes)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Any

import mmh3
import numpy as np

from actors.language.tokens import tokenize

SKETCH_BITS = 128
_MOST_WORDS = 1_500


@dataclass(frozen=True, slots=True)
class UploadedArticle:
    """One uploaded article."""

    product_id: str
    title: str
    passages: tuple[str, ...]
    "Its text in passages of about 150 words, each with its titles."
    language: str = ""
    "Empty: the monitor detects it."
    published_ms: int | None = None


ReadArticle = Callable[[Mapping[str, Any]], UploadedArticle | None]
"Reads a stored product; None when the product can't be news."


def compute_sketch(passages: Sequence[str]) -> str:
    """Return the sketch of a text: 128 signs, written as 32 hex digits; empty when it has no words.

    Cost:
        1 ms for 1,000 words
    """
    found = tokenize(" ".join(passages)[: _MOST_WORDS * 8])[:_MOST_WORDS]
    if not found:
        return ""
    pairs = {f"{one} {other}" for one, other in itertools.pairwise(found)} or set(found)
    digests = np.frombuffer(b"".join(mmh3.hash_bytes(pair, seed=29) for pair in pairs), np.uint8)
    bits = np.unpackbits(digests.reshape(len(pairs), SKETCH_BITS // 8), axis=1)
    return np.packbits(bits.sum(axis=0) * 2 > len(pairs)).tobytes().hex()


def estimate_similarity(one: str, other: str) -> float:
    """Return the estimated similarity of two sketched texts.

    Units:
        cosine over pairs of words: 1 for the same text, about 0 for texts with nothing in common
    """
    if len(one) != len(other) or not one:
        return 0.0
    apart = bin(int(one, 16) ^ int(other, 16)).count("1")
    return max(0.0, cos(pi * apart / SKETCH_BITS))
