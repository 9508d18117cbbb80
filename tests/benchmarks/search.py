"""`python -m tests.benchmarks.search`: searching products, in process: how good on public sets, how fast beside others.

    python -m tests.benchmarks.search quality [--sets esci,cranfield] [--encoder FOLDER] [--keep FOLDER]
    python -m tests.benchmarks.search speed [--products 100000]
    python -m tests.benchmarks.search snapshot [--products 100000]
    python -m tests.benchmarks.search spelling [--words 20000]

Quality is NDCG@10 with linear gains, any word being enough. Speed is one thread, no Ray, no HTTP, no Redis; ours gives
every match in order, the others their best 100.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.language import encoder, latent_embedder
from actors.language.hashing_embedder import Embedder, HashingEmbedder
from actors.recommender.state.catalog import Catalog
from actors.retrieval.lexical.messages import TextQuery
from actors.retrieval.lexical.search_index import SearchIndex
from actors.retrieval.lexical.spell_dictionary import DictionaryBuild, ProductVocabulary, SpellDictionary
from actors.retrieval.product_search import BEST, ProductSearch, blend_hits
from actors.retrieval.snapshot_format import SearchSnapshot, save
from actors.vectors.index import VectorIndex
from actors.vectors.row_selection import best_rows
from tests.benchmarks.peers import search as peers
from tests.benchmarks.quality_sets import data_folder
from tests.benchmarks.retrieval import ndcg
from tests.benchmarks.retrieval_sets import Collection, collections

SETS = ("esci", "cranfield", "cisi", "npl", "scifact", "wikinews", "events")
HASHING_SHARE = 0.1
_ROWS = 100

Ranked = Callable[[str], list[int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a figure is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.search")
    below = parser.add_subparsers(dest="what", required=True)
    quality = below.add_parser("quality")
    quality.add_argument("--sets", default=",".join(SETS), help="names, with commas between")
    quality.add_argument("--encoder", type=Path, help="an imported encoder")
    quality.add_argument("--keep", type=Path, help="where the encoder's vectors are kept for the next time")
    speed = below.add_parser("speed")
    speed.add_argument("--products", type=int, default=100_000)
    snapshot = below.add_parser("snapshot")
    snapshot.add_argument("--products", type=int, default=100_000)
    spelling = below.add_parser("spelling")
    spelling.add_argument("--words", type=int, default=20_000)
    given = parser.parse_args(arguments)
    if given.what == "quality":
        return _show_quality(tuple(given.sets.split(",")), given.encoder, given.keep)
    if given.what == "snapshot":
        return _show_snapshot(given.products)
    if given.what == "spelling":
        return _show_spelling(given.words)
    return _show_speed(given.products)


# --- quality --------------------------------------------------------------------------------------------------------


def products_of(collection: Collection) -> Iterator[dict[str, Any]]:
    """Read a set as products, in the order of its documents."""
    if collection.name != "esci":
        for text in collection.documents.values():
            yield {"description": text, "language": collection.language}
        return
    with gzip.open(data_folder() / "esci-sample/products.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, filter(str.strip, lines)):
            yield {
                "title": record["title"],
                "brand": record["brand"] or "",
                "color": record["color"] or "",
                "paragraphs": [record["bullet_points"] or ""],
                "description": record["description"] or "",
                "language": "en",
            }


def index_of(collection: Collection) -> SearchIndex:
    """Index a set."""
    index = SearchIndex(2_048)
    for row, product in enumerate(products_of(collection)):
        index.put(row, product)
    index.adopt(index.plan_rebuild(every=True)())
    return index


def by_words(index: SearchIndex, question: str) -> list[int]:
    """Rank by words alone."""
    rows: list[int] = index.find(TextQuery(question, partial=True)).rows[:20].tolist()
    return rows


def hybrid(index: SearchIndex, vectors: Any, embedder: Embedder, share: float) -> Ranked:
    """Rank by words and meaning."""

    def ranked(question: str) -> list[int]:
        hits = index.find(TextQuery(question, partial=True))
        likeness = vectors @ embedder.embed([question])[0]
        near = best_rows(likeness, BEST)
        bend = float(getattr(embedder, "bend", 1.0))
        mixed = blend_hits(hits, near, likeness[near], share, least=-1.0, bend=bend)
        rows: list[int] = mixed.rows[:20].tolist()
        return rows

    return ranked


def quality_of(collection: Collection, ranked: Ranked) -> float:
    """Mean NDCG@10 over all questions."""
    names = list(collection.documents)
    figures = []
    for name, question in collection.questions.items():
        judged = collection.judged[name]
        product_ids = [names[row] for row in ranked(question)]
        figures.append(
            ndcg(
                [product_id for product_id in product_ids if product_id != name or product_id in judged],
                judged,
            )
        )
    return float(np.mean(figures))


def _of(answers: peers.Answers, collection: Collection) -> float | None:
    if answers.why_not:
        return None
    rankings = dict(zip(collection.questions.values(), answers.rows, strict=True))
    return quality_of(collection, lambda question: rankings[question])


def _show_quality(names: tuple[str, ...], folder: Path | None, kept: Path | None) -> int:
    columns = ("bm25s", "tantivy", "words", "+ hashing", "+ built-in", "+ encoder", "floor", "goal")
    table = Table("set", "products", "questions", *columns)
    brought = encoder.SentenceEncoder.open(folder) if folder else None
    low = False
    for collection in collections(names):
        texts, questions = list(collection.documents.values()), list(collection.questions.values())
        index = index_of(collection)
        words = quality_of(collection, lambda question, index=index: by_words(index, question))  # type: ignore[misc]
        hashing, trained = HashingEmbedder(), latent_embedder.train_embedder(texts)
        figures = [
            _of(peers.bm25s_numba_or_numpy(texts, questions, 20), collection),
            _of(peers.tantivy_in_memory(texts, questions, 20), collection),
            words,
            quality_of(collection, hybrid(index, hashing.embed(texts), hashing, HASHING_SHARE)),
            quality_of(collection, hybrid(index, trained.embed(texts), trained, latent_embedder.SHARE)),
            None,
            collection.floor,
            collection.goal,
        ]
        if brought is not None:
            vectors = _vectors(collection, brought, kept)
            figures[5] = quality_of(collection, hybrid(index, vectors, brought, encoder.SHARE))
        low = low or any(
            other is not None and round(words, 3) < round(other, 3)
            for other in (figures[0], collection.floor)
        )
        shown = ["" if figure is None else f"{figure:.4f}" for figure in figures]
        table.add_row(collection.name, f"{len(texts):,}", f"{len(questions):,}", *shown)
        summary = "  ".join(f"{column} {figure}" for column, figure in zip(columns, shown, strict=True))
        Console(stderr=True, width=200).print(f"{collection.name}: {summary}")
    Console(width=160).print(table)
    return 1 if low else 0


def _vectors(collection: Collection, brought: Embedder, kept: Path | None) -> Any:
    path = kept / f"{collection.name}-{brought.version}.npy" if kept else None
    if path is not None and path.exists():
        return np.load(path)
    vectors = brought.embed(list(collection.documents.values()))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    return vectors


# --- speed ----------------------------------------------------------------------------------------------------------


def made_up(count: int, seed: int = 3) -> Iterator[dict[str, Any]]:
    """Make products out of real ones: title, brand and texts of up to three of them, numbers of their own."""
    rng = random.Random(seed)
    with gzip.open(data_folder() / "esci-sample/products.jsonl.gz", "rt", encoding="utf-8") as lines:
        seeds = [json.loads(line) for line in lines if line.strip()]
    for number in range(count):
        first, other, third = rng.choices(seeds, k=3)
        head, tail = first["title"].split(), other["title"].split()
        words = (third["bullet_points"] or third["description"] or "").split()
        start = rng.randrange(max(len(words) - 40, 1))
        yield {
            "product_id": f"p{number}",
            "title": " ".join([*head[: rng.randint(3, 7)], *tail[-rng.randint(1, 4) :], f"{number % 977}"]),
            "brand": first["brand"] or "",
            "color": other["color"] or "",
            "description": " ".join(words[start : start + 40]),
            "language": "en",
        }


def questions_of(products: Sequence[dict[str, Any]], count: int, seed: int = 9) -> list[str]:
    """Ask for two to four words of some titles."""
    rng = random.Random(seed)
    questions = []
    for product in rng.choices(products, k=count):
        words = product["title"].split()
        start = rng.randrange(max(len(words) - 3, 1))
        questions.append(" ".join(words[start : start + rng.randint(2, 4)]))
    return questions


def _show_speed(count: int) -> int:
    products = list(made_up(count))
    questions = questions_of(products, 500)
    texts = [
        " ".join(
            (product["title"], product["title"], product["brand"], product["color"], product["description"])
        )
        for product in products
    ]
    table = Table("who", "build s", "p50 ms", "p95 ms", "p99 ms", "found")
    began_s, before = time.perf_counter(), _resident_mb()
    index = SearchIndex()
    for row, product in enumerate(products):
        index.put(row, product)
    index.adopt(index.plan_rebuild(every=True)())
    build_s = time.perf_counter() - began_s
    memory = f"{index.nbytes / 1e6:,.0f} MB of arrays and words, {_resident_mb() - before:,} MB more resident"
    ways = {
        "every word": TextQuery("", correct=False),
        "every word, corrected": TextQuery(""),
        "any word": TextQuery("", partial=True, correct=False),
    }
    for name, ask in ways.items():
        _add(table, f"kiosk, {name}", build_s, *_timed(index, ask, questions))
    spoiled = [_spoiled(question) for question in questions]
    _add(table, "kiosk, with a typo", build_s, *_timed(index, TextQuery(""), spoiled))
    changed = index_of_changes(index, products)
    _add(table, "kiosk, after 2,000 changes", build_s, *_timed(changed, TextQuery(""), questions))
    for every in (True, False):
        answers = peers.tantivy_in_memory(texts, questions, _ROWS, every=every)
        name = "tantivy, every word" if every else "tantivy, any word"
        _add(
            table,
            name,
            answers.build_s,
            answers.ms,
            float(np.mean([len(rows) for rows in answers.rows] or [0])),
        )
    answers = peers.bm25s_numba_or_numpy(texts, questions, _ROWS)
    _add(table, "bm25s, any word", answers.build_s, answers.ms, float(_ROWS))
    Console().print(f"{count:,} products, {memory}")
    Console().print(table)
    return 0


def index_of_changes(index: SearchIndex, products: Sequence[dict[str, Any]]) -> SearchIndex:
    """Change some products without merging."""
    for row in range(0, len(products), max(len(products) // 2_000, 1)):
        index.put(row, products[row])
    return index


def _timed(index: SearchIndex, ask: TextQuery, questions: Sequence[str]) -> tuple[list[float], float]:
    ms, counts = [], []
    for question in questions[:20]:
        index.find(replace(ask, text=question))
    for question in questions:
        query = replace(ask, text=question)
        began_s = time.perf_counter()
        rows = index.find(query).rows
        ms.append((time.perf_counter() - began_s) * 1e3)
        counts.append(len(rows))
    return ms, float(np.mean(counts))


def _add(table: Table, who: str, build_s: float, ms: Sequence[float], rows: float) -> None:
    if not ms:
        table.add_row(who, "not installed")
        return
    percentiles = [f"{value:.2f}" for value in np.percentile(ms, [50, 95, 99])]
    table.add_row(who, f"{build_s:.1f}", *percentiles, f"{rows:,.0f}")


def _spoiled(question: str) -> str:
    """Swap two letters of the longest word."""
    word = max(question.split(), key=len)
    half = len(word) // 2
    return question.replace(word, word[: half - 1] + word[half] + word[half - 1] + word[half + 1 :])


def _resident_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


# --- snapshot -------------------------------------------------------------------------------------------------------


def _show_snapshot(count: int) -> int:
    """Time what a refresh job builds and what a recommender does with it, in seconds of one core."""
    products = list(made_up(count))
    table = Table("what", "CPU s")

    def timed(name: str, work: Callable[[], Any]) -> Any:
        began_s = time.process_time()
        done = work()
        table.add_row(name, f"{time.process_time() - began_s:.2f}")
        return done

    words = timed("index words (refresh job)", lambda: save(products, learn_from=0))
    parts = timed("index words and meaning (refresh job)", lambda: save(products, learn_from=5_000))
    catalog = Catalog()
    texts = ProductSearch(catalog, VectorIndex(128), HashingEmbedder())
    catalog.subscribe(texts.record)
    texts.pause_indexing()
    timed("put products into the catalog", lambda: [catalog.put(product) for product in products])
    opened = timed("open the snapshot's index", lambda: SearchSnapshot.load("v", parts))
    timed("lay it over the catalog", lambda: texts.bind_rows(opened))
    timed("put in order", texts.index_all)
    other = ProductSearch(catalog, VectorIndex(128), HashingEmbedder())
    for row, product in enumerate(products):
        other.record(row, product)
    timed("index everything here instead", other.index_all)
    questions = questions_of(products, 300)
    for name, ask in {"by words": TextQuery(""), "by words and meaning": TextQuery("", meaning=0.5)}.items():
        ms = []
        for question in questions:
            began_s = time.perf_counter()
            texts.find(replace(ask, text=question), None)
            ms.append((time.perf_counter() - began_s) * 1e3)
        table.add_row(f"ask {name}: p50, p95 ms", "{:.2f}, {:.2f}".format(*np.percentile(ms, [50, 95])))
    sizes = [sum(array.nbytes for array in part.arrays.values()) / 1e6 for part in (words, parts)]
    Console().print(f"{count:,} products, {sizes[0]:,.0f} MB with words, {sizes[1]:,.0f} MB with meaning")
    Console().print(table)
    return 0


# --- spelling -------------------------------------------------------------------------------------------------------


def _show_spelling(count: int) -> int:
    """Correct real misspellings of words that are among the most frequent ones."""
    folder = data_folder() / "typos"
    with gzip.open(folder / "frequency_dictionary_en_82_765.txt.gz", "rt", encoding="utf-8-sig") as lines:
        often = dict(
            sorted(((word, int(n)) for word, n in map(str.split, lines)), key=lambda entry: -entry[1])[:count]
        )
    vocabulary = ProductVocabulary()
    least = min(often.values())
    vocabulary.add(often)
    vocabulary.adopt(
        DictionaryBuild(
            SpellDictionary.of({word: max(n // least, 1) for word, n in often.items()}), len(often)
        )
    )
    table = Table("set", "cases", "first", "in five", "p50 ms", "p95 ms")
    for name in ("wikipedia", "codespell"):
        with gzip.open(folder / f"{name}.tsv.gz", "rt", encoding="utf-8") as lines:
            pairs = [line.rstrip("\n").split("\t")[:2] for line in lines]
        cases = [(wrong.lower(), right.lower()) for wrong, right in pairs if right.lower() in often]
        cases = [case for case in cases if case[0] not in often]
        cases = random.Random(1).sample(cases, min(1_000, len(cases)))
        firsts, fives, ms = 0, 0, []
        for wrong, right in cases:
            began_s = time.perf_counter()
            near = [suggestion.word for suggestion in vocabulary.suggest(wrong, 5)]
            ms.append((time.perf_counter() - began_s) * 1e3)
            firsts += near[:1] == [right]
            fives += right in near
        percentiles = [f"{value:.2f}" for value in np.percentile(ms, [50, 95])]
        table.add_row(
            name, f"{len(cases):,}", f"{firsts / len(cases):.3f}", f"{fives / len(cases):.3f}", *percentiles
        )
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
