"""`python -m tests.benchmarks.completions`: completions with typos, beside libraries people would use otherwise.

Success: the title that was meant is among the first 10 (5). Times are of one look-up in process, one thread.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from tests.benchmarks.peers import completions as peers
from tests.benchmarks.peers.completions import Answers
from tests.benchmarks.quality_sets import data_folder
from tests.benchmarks.typos import (
    Case,
    Titles,
    generate,
    half_typed,
    load,
    load_all,
    load_films,
    misspelled,
    with_typos,
)

_ROWS = 10
_SETS = ("goodbooks", "wikipedia_movies", "films", "all", "generated-100000", "generated-1000000")


def ours(titles: Titles, queries: Sequence[str], rows: int) -> Answers:
    """Ask the completions index."""
    began = time.perf_counter()
    index = CompletionIndex.of(titles.texts, np.array(titles.popularity))
    build_s = time.perf_counter() - began
    answers, ms = [], []
    for query in queries[:50]:
        index.look_up(fold_typed(query), rows)
    for query in queries:
        began = time.perf_counter()
        texts = index.look_up(fold_typed(query), rows).texts
        ms.append((time.perf_counter() - began) * 1e3)
        answers.append(texts.tolist())
    return Answers("kiosk", answers, ms, build_s)


def groups_of(titles: Titles, data: Path, count: int) -> dict[str, list[Case]]:
    """Make the cases of one set: by number of typos in long and in short beginnings, and real misspellings."""
    groups = {f"{typos} typos": with_typos(titles, typos, count) for typos in range(5)}
    groups["first letter"] = with_typos(titles, 1, count, first_letter=True)
    groups |= {f"{typos} hasty": with_typos(titles, typos, count, hasty=True) for typos in range(5)}
    groups |= {f"{typos} anywhere": half_typed(titles, typos, count) for typos in range(5)}
    groups["misspelled"] = misspelled(titles, data, count)
    return groups


def figures(titles: Titles, groups: dict[str, list[Case]], answers: Answers) -> dict[str, Any]:
    """Say for each group how often the right title was found, and how long it took."""
    report: dict[str, Any] = {"set": titles.name, "peer": answers.peer, "build_s": round(answers.build_s, 2)}
    if answers.why_not:
        return {**report, "why_not": answers.why_not}
    at = 0
    for name, cases in groups.items():
        mine = range(at, at + len(cases))
        at += len(cases)
        hits = {
            k: np.mean(
                [
                    case.title in {titles.texts[text] for text in answers.rows[place][:k]}
                    for case, place in zip(cases, mine, strict=True)
                ]
            )
            for k in (5, 10)
        }
        ms = [answers.ms[place] for place in mine]
        report[name] = {
            "in_5": round(float(hits[5]), 3),
            "in_10": round(float(hits[10]), 3),
            "p50_ms": round(float(np.percentile(ms, 50)), 2),
            "p99_ms": round(float(np.percentile(ms, 99)), 2),
        }
    return report


def titles_of(name: str, data: Path) -> Titles:
    """Read or make a set of titles."""
    if name == "films":
        return load_films(data)
    if name == "all":
        return load_all(data)
    if "-" in name:
        seeds = [load(data, seed) for seed in ("goodbooks", "wikipedia_movies", "world_cities")]
        return generate(int(name.split("-")[1]), seeds)
    return load(data, name)


def run(name: str, data: Path, count: int, which: Sequence[str], scratch: Path) -> list[dict[str, Any]]:
    """Measure one set."""
    titles = titles_of(name, data)
    groups = groups_of(titles, data, count)
    queries = [case.typed for cases in groups.values() for case in cases]
    lines = [figures(titles, groups, ours(titles, queries, _ROWS))]
    for peer in which:
        if peer == "rapidfuzz":
            answers = peers.rapidfuzz_scan(titles, queries, _ROWS)
        elif peer == "pg_trgm":
            answers = peers.trigrams(titles, queries, _ROWS, scratch)
        else:
            answers = peers.javascript(peer, titles, queries, _ROWS, scratch)
        lines.append(figures(titles, groups, answers))
    return lines


def show(lines: Sequence[dict[str, Any]]) -> None:
    """Print a table: success in the first 10, p50 in milliseconds."""
    groups = [key for key in lines[0] if isinstance(lines[0][key], dict)]
    table = Table("set", "peer", *groups, title="completions: found in the first 10 / p50 ms")
    for line in lines:
        cells = [
            f"{line[group]['in_10']:.3f} / {line[group]['p50_ms']}" if group in line else "-"
            for group in groups
        ]
        table.add_row(
            line["set"], line["peer"] + (f" ({line['why_not']})" if "why_not" in line else ""), *cells
        )
    Console(width=170).print(table)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(_SETS[:5]), help=f"of {', '.join(_SETS)}")
    parser.add_argument("--cases", type=int, default=300, help="queries a group")
    parser.add_argument("--peers", default="minisearch,flexsearch,fuse,pg_trgm,rapidfuzz")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    which = [peer for peer in given.peers.split(",") if peer]
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if {"minisearch", "flexsearch", "fuse"} & set(which):
            why_not = peers.install_javascript(scratch)
            if why_not:
                Console(stderr=True).print(f"JavaScript peers are left out: {why_not}")
                which = [peer for peer in which if peer not in {"minisearch", "flexsearch", "fuse"}]
        lines: list[dict[str, Any]] = []
        for name in given.sets:
            lines += run(name, data_folder(), given.cases, which, scratch)
    if given.out:
        given.out.write_text(json.dumps(lines, indent=2) + "\n")
    if given.json:
        print(json.dumps(lines, indent=2))
    else:
        show(lines)


if __name__ == "__main__":
    main()
