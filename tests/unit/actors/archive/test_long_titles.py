"""Long titles and headings: stored ones of earlier releases still load, and cost no multiple of their length."""

from __future__ import annotations

import tracemalloc

import numpy as np

from actors.archive.passages import document_from_product
from actors.retrieval.autocomplete.lookup import BYTES_A_CHARACTER, LONGEST_TEXT, CompletionIndex
from actors.retrieval.lexical.spell_dictionary import ProductVocabulary

WORDS = " ".join(f"word{at}" for at in range(12_000))


def test_a_title_of_100_000_characters_is_indexed_at_about_its_length() -> None:
    document = document_from_product({"product_id": "p", "title": WORDS, "enable_question_answering": True})
    assert document is not None
    indexed = sum(len(document.passage_text(passage)) for passage in document.passages)
    assert len(WORDS) <= indexed < 2 * len(WORDS)


def test_a_long_heading_is_indexed_at_about_its_length() -> None:
    html = f"<h2>{WORDS}</h2><p>{WORDS}</p>"
    document = document_from_product(
        {"product_id": "p", "title": "t", "html": html, "enable_question_answering": True}
    )
    assert document is not None
    assert sum(len(document.passage_text(passage)) for passage in document.passages) < 4 * len(WORDS)


def test_an_index_of_completions_takes_the_first_characters_of_a_text() -> None:
    tracemalloc.start()
    index = CompletionIndex.of([f"text {at} " + "x" * 100_000 for at in range(60)], np.ones(60))
    took, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.texts.size <= 60 * (LONGEST_TEXT + 3)
    assert took < 3 * BYTES_A_CHARACTER * index.texts.size
    assert peak < 40 << 20
    assert index.look_up("text 7", 3).texts.tolist()[0] == 7


def test_the_vocabulary_keeps_no_words_that_nobody_types() -> None:
    vocabulary = ProductVocabulary()
    vocabulary.add(["trowel", "x" * 100_000])
    assert len(vocabulary) == 1
