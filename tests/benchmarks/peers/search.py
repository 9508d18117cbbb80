"""Search by others: bm25s and tantivy, both stemming English, without small words. What is missing is left out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import Stemmer

from actors.language.analysis import STOP_WORDS


@dataclass(frozen=True, slots=True)
class Answers:
    """Results of a search engine for each query, best first, and their durations."""

    peer: str
    rows: list[list[int]] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    build_s: float = 0.0
    why_not: str = ""


def bm25s_numba_or_numpy(texts: Sequence[str], questions: Sequence[str], count: int) -> Answers:
    """Ask bm25s, k1 1.2 and b .75 as ours."""
    try:
        import bm25s
    except ImportError:
        return Answers("bm25s", why_not="pip install bm25s")
    stemmer = Stemmer.Stemmer("english")
    began_s = time.perf_counter()
    cut: dict[str, Any] = {"stopwords": sorted(STOP_WORDS["en"]), "stemmer": stemmer, "show_progress": False}
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(bm25s.tokenize(list(texts), **cut), show_progress=False)
    build_s = time.perf_counter() - began_s
    ranked_rows, ms = [], []
    for question in questions:
        began_s = time.perf_counter()
        tokens = bm25s.tokenize([question], return_ids=False, **cut)
        tokens = [[token for token in tokens[0] if token in index.vocab_dict]]
        if tokens[0]:
            rows, scores = index.retrieve(tokens, k=min(count, len(texts)), show_progress=False)
            ranked = [int(row) for row, score in zip(rows[0], scores[0], strict=True) if score > 0]
        else:
            ranked = []
        ms.append((time.perf_counter() - began_s) * 1e3)
        ranked_rows.append(ranked)
    return Answers("bm25s", ranked_rows, ms, build_s)


def tantivy_in_memory(
    texts: Sequence[str], questions: Sequence[str], count: int, *, every: bool = False
) -> Answers:
    """Ask tantivy; with `every` only for documents with all words."""
    try:
        import tantivy
    except ImportError:
        return Answers("tantivy", why_not="pip install tantivy")
    began_s = time.perf_counter()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
    builder.add_integer_field("row", stored=True)
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=256_000_000, num_threads=1)
    for row, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=[text], row=row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    build_s = time.perf_counter() - began_s
    searcher, stop = index.searcher(), STOP_WORDS["en"]
    ranked_rows, ms = [], []
    for question in questions:
        began_s = time.perf_counter()
        words = "".join(character if character.isalnum() else " " for character in question.lower()).split()
        words = [word for word in words if word not in stop]
        query, _ = index.parse_query_lenient(" ".join(words), ["text"], conjunction_by_default=every)
        hits = searcher.search(query, count).hits
        ranked = [searcher.doc(address)["row"][0] for _, address in hits]
        ms.append((time.perf_counter() - began_s) * 1e3)
        ranked_rows.append(ranked)
    return Answers("tantivy", ranked_rows, ms, build_s)
