"""Finding passages, in process: how good on public sets, how fast over generated articles.

    python -m tests.benchmarks.retrieval quality [--sets cranfield,xquad-en] [--encoder FOLDER]
    python -m tests.benchmarks.retrieval speed [--articles 100000] [--shelf FOLDER]

Quality is NDCG@10 with linear gains; for xquad the share of questions whose paragraph comes first. Documents are
searched whole, as the figures to compare with were measured; `sketched` is the built-in embedder with its nearest
passages found by sketches, as in archives of some size. Speed is one core, no Ray, no HTTP, no Redis; beside it
stands how many of the truly nearest passages the sketches find.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.archive.candidates import CANDIDATES
from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, DocumentSection, Passage, document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.segment import build_segment
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.snapshot_writer import WeightedEmbedder
from actors.language import encoder, latent_embedder
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import Embedder, HashingEmbedder
from actors.vectors.types import Vector
from cluster.artifacts.storage.artifact_store import ArtifactStore
from tests.benchmarks.retrieval_sets import Collection, collections
from tests.suites.doing import require

APP = "bench"
SMALL_WORDS = "the of and in to a was for on that with by as at from it said were has is"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 when a figure is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.retrieval")
    below = parser.add_subparsers(dest="what", required=True)
    quality = below.add_parser("quality")
    quality.add_argument("--sets", default="", help="names, with commas between")
    quality.add_argument(
        "--encoder", type=Path, help="an imported encoder, as `kiosk models import` leaves it"
    )
    speed = below.add_parser("speed")
    speed.add_argument("--articles", type=int, default=100_000)
    speed.add_argument("--shelf", type=Path, help="where the snapshot is kept for the next time")
    given = parser.parse_args(arguments)
    if given.what == "quality":
        return _show_quality(tuple(filter(None, given.sets.split(","))), given.encoder)
    _show_speed(given.articles, given.artifacts)
    return 0


# --- quality --------------------------------------------------------------------------------------------------------


def whole(name: str, text: str, language: str) -> Document:
    """Make a document of one passage."""
    sections, passages = (DocumentSection(0, ""),), (Passage(0, len(text), 0),)
    return Document(name, "article", "", (), "", "", "", language, text, sections, passages)


def library_of(
    collection: Collection, embedder: Embedder | None, share: float, *, sketched: bool = False
) -> PassageIndex:
    """Put a set into a library."""
    documents = [whole(name, text, collection.language) for name, text in collection.documents.items()]
    analyzers = Analyzers()
    counted = build_segment(documents, analyzers, None, 1.0)
    mean_length = float(counted.postings.lengths.mean())
    segment = build_segment(documents, analyzers, embedder, mean_length)
    if sketched and segment.vectors is not None:
        segment.vectors = segment.vectors.with_sketches(least=0)
    return PassageIndex(embedder, segments=[segment], share=share)


def quality_of(collection: Collection, library: PassageIndex) -> float:
    """Mean figure over all questions."""
    figures = []
    for name, question in collection.questions.items():
        result = search_passages(library, ArchiveQuery(APP, question, rows=20, per_product=0), 0)
        judged = collection.judged[name]
        product_ids = [snippet.product_id for snippet in result.snippets]
        ranked = [
            product_id for product_id in product_ids if product_id != name or product_id in judged
        ]  # an item is no find for itself
        if collection.name.startswith("xquad"):
            figures.append(float(bool(ranked) and ranked[0] in judged))
        else:
            figures.append(ndcg(ranked, judged))
    return float(np.mean(figures))


def ndcg(ranked: Sequence[str], judged: Mapping[str, int], k: int = 10) -> float:
    """Discounted gain of the first k beside the best possible."""
    gained = sum(judged.get(name, 0) / math.log2(at + 2) for at, name in enumerate(ranked[:k]))
    best = sum(
        grade / math.log2(at + 2) for at, grade in enumerate(sorted(judged.values(), reverse=True)[:k])
    )
    return gained / best if best else 0.0


def built_in(collection: Collection) -> WeightedEmbedder:
    """Train the built-in embedder on a set."""
    return WeightedEmbedder(
        latent_embedder.train_embedder(collection.documents.values()), latent_embedder.SHARE
    )


def _show_quality(names: tuple[str, ...], folder: Path | None) -> int:
    table = Table(
        "set", "documents", "questions", "BM25", "floor", "hashing", "built-in", "sketched", "encoder", "goal"
    )
    brought = encoder.SentenceEncoder.open(folder) if folder else None
    low = False
    for collection in collections(names):
        words = quality_of(collection, library_of(collection, None, 0.0))
        hashed = quality_of(collection, library_of(collection, HashingEmbedder(), 0.1))
        meaning = built_in(collection)
        trained = quality_of(collection, library_of(collection, meaning.embedder, meaning.share))
        rough = quality_of(collection, library_of(collection, meaning.embedder, meaning.share, sketched=True))
        best = quality_of(collection, library_of(collection, brought, encoder.SHARE)) if brought else None
        figures = (words, collection.floor, hashed, trained, rough, best, collection.goal)
        low = low or (collection.floor is not None and round(words, 3) < collection.floor)
        shown = ["" if figure is None else f"{figure:.4f}" for figure in figures]
        table.add_row(
            collection.name, f"{len(collection.documents):,}", f"{len(collection.questions):,}", *shown
        )
        Console(stderr=True).print(collection.name, *shown)
    Console().print(table)
    return 1 if low else 0


# --- speed ----------------------------------------------------------------------------------------------------------


def generated(count: int, seed: int = 1) -> Iterator[Document]:
    """Articles of about 450 made-up words in three sections: Zipf frequencies, 400 subjects with words of their own."""
    rng = np.random.default_rng(seed)
    starts, ends = [*"bcdfghklmnprstvwz", "br", "st", "tr"], [*"aeiou", "ai", "or", "an"]
    syllables = [start + end for start in starts for end in ends]
    words = np.array(["".join(rng.choice(syllables, rng.integers(2, 5))) for _ in range(120_000)])
    often = np.cumsum(1 / np.arange(1, len(words) + 1))
    often /= often[-1]
    subjects = rng.integers(200, len(words), (400, 300))
    small = np.array(SMALL_WORDS.split())
    for number in range(count):
        subject_words = subjects[rng.integers(len(subjects))]
        size = int(rng.integers(380, 520))
        places = np.minimum(np.searchsorted(often, rng.random(size)), len(words) - 1)
        is_subject = rng.random(size) < 0.25
        places[is_subject] = subject_words[rng.integers(0, len(subject_words), int(is_subject.sum()))]
        text = words[places]
        text[::3] = small[rng.integers(0, len(small), len(text[::3]))]
        sentences = [" ".join(text[at : at + 12]).capitalize() + "." for at in range(0, size, 12)]
        third = len(sentences) // 3 + 1
        parts = [" ".join(sentences[at : at + third]) for at in range(0, len(sentences), third)]
        document = document_from_product(
            {
                "product_id": f"article-{number}",
                "type": "article",
                "title": " ".join(words[subject_words[rng.integers(0, len(subject_words), 5)]]).capitalize(),
                "language": "en",
                "published_at": f"{2010 + number % 15}-{1 + number % 12:02d}-11T00:00:00Z",
                "authors": ["A. Reporter"],
                "url": f"https://news.example/{number}",
                "children": [
                    {"id": f"{number}-{at}", "title": f"Part {at}", "description": part}
                    for at, part in enumerate(parts, 1)
                ],
            }
        )
        assert document is not None
        yield document


def questions_for(library: PassageIndex, count: int, seed: int = 5) -> list[str]:
    """Questions of seven words that stand in some passage, small words around them."""
    rng = np.random.default_rng(seed)
    segment = library.segments[0]
    made = []
    for _ in range(count):
        document, _, passage = segment.passage(int(rng.integers(len(segment))))
        words = document.text[passage.start : passage.end].replace(".", "").split()
        made.append("what is the " + " ".join(words[at] for at in rng.integers(0, len(words), 7)))
    return made


def _show_speed(count: int, kept: Path | None) -> None:
    console = Console()
    with tempfile.TemporaryDirectory() as scratch:
        artifacts = PassageSnapshotStore(ArtifactStore.open(kept or Path(scratch)))
        if not artifacts.list_sequences(APP):
            began_s = time.perf_counter()
            manifest = artifacts.write(APP, generated(count), offset="0", written_at_ms=0)
            size_mb = sum(entry.size for entry in manifest.files) / 1e6
            took_s = time.perf_counter() - began_s
            console.print(
                f"build {took_s:,.0f} s with generating, peak {_peak_mb():,} MB, {size_mb:,.0f} MB on disk"
            )
        began_s = time.perf_counter()
        opened = require(artifacts.open(APP))
        library = opened[0]
        passages = len(library.segments[0])
        took_s = time.perf_counter() - began_s
        console.print(f"open {took_s:.2f} s, {library.documents:,} articles, {passages:,} passages")
        questions = questions_for(library, 600)
        for question in questions[:200]:
            search_passages(library, ArchiveQuery(APP, question), 0)
        times, began_cpu_s = [], time.process_time()
        for question in questions[200:]:
            began_s = time.perf_counter()
            search_passages(library, ArchiveQuery(APP, question), 0)
            times.append((time.perf_counter() - began_s) * 1e3)
        cpu_ms = (time.process_time() - began_cpu_s) / len(times) * 1e3
        embedder = library.embedder
        recalls = (
            [recall(library, vector, 10) for vector in embedder.embed(questions[:200])] if embedder else []
        )
        p50, p95 = np.percentile(times, [50, 95])
        console.print(f"ask p50 {p50:.2f} ms, p95 {p95:.2f} ms, CPU {cpu_ms:.2f} ms; peak {_peak_mb():,} MB")
        console.print(
            f"of the 10 nearest passages {np.mean(recalls):.4f} are found" if recalls else "no vectors"
        )


def recall(library: PassageIndex, query: Vector, count: int) -> float:
    """Share of the truly nearest passages that a search for a hundred brings."""
    vectors = require(library.segments[0].vectors)
    exact = vectors.score(query, np.arange(len(vectors)))
    nearest = np.argsort(-exact, kind="stable")[:count]
    return float(np.isin(nearest, vectors.search(query, CANDIDATES)[0]).mean())


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    sys.exit(main())
