"""From a list of texts to an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.autocomplete.grams import NgramIndex
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.autocomplete.moved_articles import restore_article
from actors.retrieval.autocomplete.prefixes import PrefixIndex, popularity_ranks
from actors.retrieval.autocomplete.word_index import WordIndex
from actors.vectors.types import Floats


def build_index(originals: Sequence[str], popularity: Floats) -> CompletionIndex:
    """Index the texts of one field.

    Shapes:
        popularity: float64 [n], 0 or more
    """
    texts = FoldedTexts.of([restore_article(text) for text in originals])
    places = texts.word_starts()
    pull = np.log1p(np.maximum(popularity, 0.0))
    largest = float(pull.max(initial=0.0))
    return CompletionIndex(
        texts=texts,
        prefixes=PrefixIndex.of(texts, popularity_ranks(popularity, np.diff(texts.starts))),
        pairs=NgramIndex.of(texts, 2),
        triples=NgramIndex.of(texts, 3),
        words=WordIndex.of(texts),
        places=places.astype(np.int32 if texts.size < 2**31 else np.int64),
        place_starts=np.searchsorted(places, texts.starts).astype(np.int64),
        pull=(pull / largest if largest else pull).astype(np.float32),
    )
