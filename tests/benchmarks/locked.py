"""What locked articles cost a search: `python -m tests.benchmarks.locked [--articles N] [--clock] [--only KIND]`.

    open        N articles, all open
    beside      the same, beside half as many locked ones, for a user without tiers: he reads what he read before
    subscriber  N articles, of which a fifth is locked for `registered` and a fifth for `subscriber`, for one of both

The index of `/v1/ask/search`, its completions of titles, and the archive of `ask_archive` answer equal questions in one
process. The archive gets them as they are, with a year, and with half of the weight on meaning, which needs all
vectors; it holds uploads in memory, or is a snapshot. What a subscriber reads is joined, as a replica does after some
questions; `not joined` are those before.

Counted are processor instructions under `valgrind --tool=callgrind`: two runs differ by less than 1 %. With `--clock`
it is the median processor time of a question, where the cases take turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.snapshot_writer import WeightedEmbedder
from actors.language.hashing_embedder import HashingEmbedder
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.text_index import merge_hits
from actors.retrieval.lexical.joined_parts import FREQUENT
from actors.retrieval.lexical.messages import TextQuery
from actors.retrieval.lexical.search_index import SearchIndex
from cluster.access_tier import access_of
from cluster.artifacts.storage.artifact_store import ArtifactStore
from tests.benchmarks.instructions import Callgrind
from tests.benchmarks.mcp_articles import APP, articles, questions

WARM_UP = 10
WORDS_SHARE, MEANING_SHARE = 0.1, 0.5
"Weights of meaning: of the hashing embedder, and of imported ones."
OPEN, BESIDE, SUBSCRIBER = "open", "beside", "subscriber"
TIERS = {
    OPEN: frozenset[str](),
    BESIDE: frozenset[str](),
    SUBSCRIBER: frozenset({"registered", "subscriber"}),
}
_TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.*)$", re.MULTILINE)
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)

Record = Mapping[str, Any]
Ask = Callable[[str], object]


def draw_access(case: str, number: int) -> str:
    """Return the access of an article of a case."""
    if case == BESIDE:
        return ("", "", "gold")[number % 3]
    return ("", "registered", "", "subscriber", "")[number % 5] if case == SUBSCRIBER else ""


def make_records(case: str, count: int) -> list[Record]:
    """Return the articles of a case: `count` readable ones."""
    total = count if case != BESIDE else count * 3 // 2
    # the readable articles of `beside` are those of `open`
    readable = iter(articles(count))
    locked = iter(articles(total - count, seed=8)) if total > count else iter(())
    records = []
    for number in range(total):
        access = draw_access(case, number)
        record = next(locked) if access == "gold" else next(readable)
        records.append(
            {**record, "product_id": f"{record['product_id']}-{access}", "access": access or "open"}
        )
    return records


def open_index(case: str, records: list[Record]) -> Iterator[tuple[str, Ask]]:
    """Return a search of the index of products."""
    index = SearchIndex()
    for row, record in enumerate(records):
        index.put(row, record)
        if index.needs_rebuild:
            index.adopt(index.plan_rebuild()())
    index.adopt(index.plan_rebuild(every=True)())
    for text in questions(FREQUENT):
        index.find(TextQuery(text, partial=True, tiers=TIERS[case]))
    if index.needs_rebuild:
        index.adopt(index.plan_rebuild()())
    yield "", lambda text: index.find(TextQuery(text, partial=True, tiers=TIERS[case]))


def open_completions(case: str, records: list[Record]) -> Iterator[tuple[str, Ask]]:
    """Return a completion by titles, over the index of the accesses that the user may read."""
    popularity = np.zeros(len(records))
    accesses = ("", *sorted(TIERS[case])) if case != OPEN else (None,)
    allowed = np.array([access_of(record) in ("", *TIERS[case]) for record in records])
    indexes = []
    for access in accesses:
        index = FieldIndex("title", access=access)
        for row, record in enumerate(records):
            index.record(row, record)
        index.adopt(index.plan_rebuild(popularity)())
        indexes.append(index)
    if len(indexes) > 1:
        joined, build = FieldIndex.join(indexes, popularity)
        joined.adopt(build())
        indexes = [joined]

    def complete(text: str) -> object:
        typed = text[: len(text) // 3]
        lists = [index.look_up(typed, 40, 10, allowed, 0, lambda: popularity) for index in indexes]
        return merge_hits([hit for hits in lists for hit in hits], 40)

    yield "", complete


def open_uploads(case: str, records: list[Record]) -> Iterator[tuple[str, Ask]]:
    """Return questions to the archive of uploaded articles in memory."""
    library = PassageIndex(HashingEmbedder(), share=WORDS_SHARE)
    library.put(read_articles(records))
    return ask_library(library, case)


def open_snapshot(case: str, records: list[Record]) -> Iterator[tuple[str, Ask]]:
    """Return questions to the archive of a snapshot."""
    with TemporaryDirectory(prefix="kiosk-locked-") as folder:
        store = PassageSnapshotStore(ArtifactStore.open(Path(folder)), lambda version: HashingEmbedder())
        meaning = WeightedEmbedder(HashingEmbedder(), WORDS_SHARE)
        store.write(APP, read_articles(records), offset="0", written_at_ms=0, meaning=meaning)
        opened = store.open(APP)
    assert opened is not None
    return ask_library(opened[0], case)


def read_articles(records: list[Record]) -> Iterator[Document]:
    """Read the articles of records."""
    return (document for record in records if (document := document_from_product(dict(record))) is not None)


def ask_library(library: PassageIndex, case: str) -> Iterator[tuple[str, Ask]]:
    """Return the kinds of questions, and join in between what is read together."""

    def ask(text: str, share: float = WORDS_SHARE) -> object:
        library.vector_share = share
        return search_passages(library, ArchiveQuery(APP, text, tiers=TIERS[case]), 0)

    for text in questions(FREQUENT):
        ask(text)
    yield ", not joined", ask
    if library.needs_join:
        library.join_segments()
    yield "", ask
    yield ", dated", lambda text: ask(f"{text} in {2010 + len(text) % 15}")
    yield ", by meaning", lambda text: ask(text, MEANING_SHARE)


KINDS: Mapping[str, Callable[[str, list[Record]], Iterator[tuple[str, Ask]]]] = {
    "/v1/ask/search": open_index,
    "completions": open_completions,
    "ask_archive": open_uploads,
    "ask_archive of a snapshot": open_snapshot,
}


def open_kinds(count: int, only: str) -> Iterator[tuple[str, Mapping[str, Ask]]]:
    """Return the names of kinds of searches, and the search of each case."""
    for kind, open_kind in KINDS.items():
        if only in kind:
            opened = {case: open_kind(case, make_records(case, count)) for case in TIERS}
            for searches in zip(*opened.values(), strict=True):
                asks = [ask for _, ask in searches]
                yield kind + searches[0][0], dict(zip(opened, asks, strict=True))


def measure(count: int, rounds: int, only: str) -> None:
    """Answer the questions of every kind and case, and dump the counts of each."""
    callgrind, texts = Callgrind(), questions(WARM_UP + rounds)
    for name, asks in open_kinds(count, only):
        for case, ask in asks.items():
            for text in texts[:WARM_UP]:
                ask(text)
            gc.collect()
            gc.disable()
            callgrind.start()
            for text in texts[WARM_UP:]:
                ask(text)
            callgrind.stop()
            callgrind.dump(f"{name} {case}")
            gc.enable()
            print(name, case, file=sys.stderr, flush=True)


def run_timed(count: int, rounds: int, only: str) -> dict[str, dict[str, float]]:
    """Return the median processor time of a question of each kind and case, in microseconds."""
    texts = questions(rounds)
    medians = {}
    for name, asks in open_kinds(count, only):
        times: dict[str, list[float]] = {case: [] for case in asks}
        for _ in range(3):
            for text in texts:
                for case, ask in asks.items():
                    began_s = time.thread_time()
                    ask(text)
                    times[case].append((time.thread_time() - began_s) * 1e6)
        # The first round fills the caches of words.
        medians[name] = {case: round(median(values[rounds:]), 1) for case, values in times.items()}
        print(name, medians[name], file=sys.stderr, flush=True)
    return medians


def run_counted(count: int, rounds: int, only: str) -> dict[str, dict[str, float]]:
    """Run this program under callgrind and return the instructions for a question of each kind and case."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with TemporaryDirectory(prefix="kiosk-locked-") as folder:
        subprocess.run(
            [
                "valgrind", "--tool=callgrind", "--instr-atstart=no",
                f"--callgrind-out-file={folder}/counts", "-q", sys.executable, "-m", "tests.benchmarks.locked",
                "--counted", "--articles", str(count), "--rounds", str(rounds), "--only", only,
            ],
            env=environment, check=True,
        )  # fmt: skip
        texts = [path.read_text("utf-8", "replace") for path in Path(folder).glob("counts.*")]
    counts: dict[str, dict[str, float]] = {}
    for text in texts:
        trigger, totals = _TRIGGER.search(text), _TOTALS.search(text)
        if trigger and totals:
            name, _, case = trigger[1].rpartition(" ")
            counts.setdefault(name, {})[case] = int(totals[1]) // rounds
    return counts


def main() -> None:
    """Print the figures of a question, and their ratio to those without locked articles, as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=5_000, help="articles that the user may read")
    parser.add_argument("--rounds", type=int, default=40, help="questions of each kind")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--clock", action="store_true", help="measure processor time in place of instructions"
    )
    parser.add_argument("--only", default="", help="measure kinds whose name contains this text")
    chosen = parser.parse_args()
    if chosen.counted:
        measure(chosen.articles, chosen.rounds, chosen.only)
        return
    run = run_timed if chosen.clock else run_counted
    figures = run(chosen.articles, chosen.rounds, chosen.only)
    ratios = {
        name: {case: round(value / cases[OPEN], 3) for case, value in cases.items()}
        for name, cases in figures.items()
    }
    print(json.dumps({"us" if chosen.clock else "instructions": figures, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
