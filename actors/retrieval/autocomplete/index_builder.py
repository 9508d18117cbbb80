"""From a list of texts to an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.retrieval.autocomplete.folded_texts import Texts
from actors.retrieval.autocomplete.grams import Grams
from actors.retrieval.autocomplete.lookup import Index
from actors.retrieval.autocomplete.moved_articles import spoken
from actors.retrieval.autocomplete.prefixes import Prefixes, rank_of
from actors.retrieval.autocomplete.word_index import Words
from actors.vectors.types import Floats


def build(originals: Sequence[str], popularity: Floats) -> Index:
    """Index the texts of one field.

    Shapes:
        popularity: float64 [n], 0 or more
    """
    texts = Texts.of([spoken(text) for text in originals])
    places = texts.word_starts()
    pull = np.log1p(np.maximum(popularity, 0.0))
    largest = float(pull.max(initial=0.0))
    return Index(
        texts=texts,
        prefixes=Prefixes.of(texts, rank_of(popularity, np.diff(texts.starts))),
        pairs=Grams.of(texts, 2),
        triples=Grams.of(texts, 3),
        words=Words.of(texts),
        places=places.astype(np.int32 if texts.size < 2**31 else np.int64),
        place_starts=np.searchsorted(places, texts.starts).astype(np.int64),
        pull=(pull / largest if largest else pull).astype(np.float32),
    )
