"""What locked articles cost a search, in processor instructions: `python -m tests.benchmarks.locked [--articles N]`.

    open        N articles, all open
    beside      the same, beside half as many locked ones, for a user without tiers: he reads what he read before
    subscriber  N articles, of which a fifth is locked for `registered` and a fifth for `subscriber`, for one of both

The index of `/v1/ask/search`, its completions of titles, and the archive of `ask_archive` answer equal questions in one
process under `valgrind --tool=callgrind`. Two runs differ by less than 1 %. What a subscriber reads is joined, as a
replica does after some dozen searches.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from actors.archive.library import PassageLibrary
from actors.archive.messages import ArchiveQuery
from actors.archive.passages import read_product
from actors.archive.retrieve import search_passages
from actors.language.hashing_embedder import HashingEmbedder
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.text_index import merge_hits
from actors.retrieval.lexical.combined_parts import FREQUENT
from actors.retrieval.lexical.search_index import SearchIndex
from actors.retrieval.lexical.text_query import TextQuery
from cluster.access_tier import access_of
from tests.benchmarks.instructions import Callgrind
from tests.benchmarks.mcp_articles import APP, articles, questions

WARM_UP = 10
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


def open_index(case: str, records: list[Record]) -> Ask:
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
    return lambda text: index.find(TextQuery(text, partial=True, tiers=TIERS[case]))


def open_completions(case: str, records: list[Record]) -> Ask:
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

    return complete


def open_archive(case: str, records: list[Record]) -> Ask:
    """Return a search of the archive of passages."""
    library = PassageLibrary(HashingEmbedder(), share=0.1)
    library.put(document for record in records if (document := read_product(dict(record))) is not None)
    for text in questions(FREQUENT):
        search_passages(library, ArchiveQuery(APP, text, tiers=TIERS[case]), 0)
    if library.needs_join:
        library.join_segments()
    return lambda text: search_passages(library, ArchiveQuery(APP, text, tiers=TIERS[case]), 0)


KINDS: Mapping[str, Callable[[str, list[Record]], Ask]] = {
    "/v1/ask/search": open_index,
    "completions": open_completions,
    "ask_archive": open_archive,
}


def measure(count: int, rounds: int) -> None:
    """Answer the questions of every kind and case, and dump the counts of each."""
    callgrind, texts = Callgrind(), questions(WARM_UP + rounds)
    for kind, open_kind in KINDS.items():
        for case in TIERS:
            ask = open_kind(case, make_records(case, count))
            for text in texts[:WARM_UP]:
                ask(text)
            gc.collect()
            gc.disable()
            callgrind.start()
            for text in texts[WARM_UP:]:
                ask(text)
            callgrind.stop()
            callgrind.dump(f"{kind} {case}")
            gc.enable()
            print(kind, case, file=sys.stderr, flush=True)


def run_counted(count: int, rounds: int) -> dict[str, int]:
    """Run this program under callgrind and return the instructions for a question of each kind and case."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with TemporaryDirectory(prefix="kiosk-locked-") as folder:
        subprocess.run(
            [
                "valgrind", "--tool=callgrind", "--instr-atstart=no",
                f"--callgrind-out-file={folder}/counts", "-q", sys.executable, "-m", "tests.benchmarks.locked",
                "--counted", "--articles", str(count), "--rounds", str(rounds),
            ],
            env=environment, check=True,
        )  # fmt: skip
        texts = [path.read_text("utf-8", "replace") for path in Path(folder).glob("counts.*")]
    counts = {}
    for text in texts:
        trigger, totals = _TRIGGER.search(text), _TOTALS.search(text)
        if trigger and totals:
            counts[trigger[1]] = int(totals[1]) // rounds
    return counts


def main() -> None:
    """Print the instructions for a question, and their ratio to those without locked articles, as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=5_000, help="articles that the user may read")
    parser.add_argument("--rounds", type=int, default=40, help="counted questions of each kind")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.counted:
        measure(chosen.articles, chosen.rounds)
        return
    counts = run_counted(chosen.articles, chosen.rounds)
    ratios = {
        kind: {case: round(counts[f"{kind} {case}"] / counts[f"{kind} {OPEN}"], 3) for case in TIERS}
        for kind in KINDS
    }
    print(json.dumps({"instructions": counts, "ratios": ratios}, indent=1))


if __name__ == "__main__":
    main()
