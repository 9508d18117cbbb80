"""The public retrieval sets as documents, questions and judgments. Nothing of them is part of this repository.

cranfield, cisi, npl   abstracts and questions                          esci      products and searches
wikinews               headline -> its article (without the headline)   scifact   claims and abstracts
events                 news item -> the other items of its story
xquad-<lang>           question -> the paragraph it was asked about
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.quality_sets import data_folder, has

__all__ = ["Collection", "collections", "has"]

_EVENTS = 300


@dataclass(frozen=True, slots=True)
class Collection:
    """One set."""

    name: str
    language: str
    documents: Mapping[str, str]
    questions: Mapping[str, str]
    judged: Mapping[str, Mapping[str, int]]
    "Question -> document -> grade."
    floor: float | None = None
    "The reference figure of BM25, if it was measured by the same protocol."
    goal: float | None = None
    "The same for BM25 and MiniLM together."


def collections(names: tuple[str, ...] = ()) -> Iterator[Collection]:
    """Read the sets that are there, one after the other."""
    for name, read in _SETS.items():
        if not names or name in names:
            yield read()


def _beir(name: str, folder: str, judgments: str, floor: float | None, goal: float | None) -> Collection:
    documents = {
        line["_id"]: f"{line.get('title', '')} {line['text']}" for line in _lines(f"{folder}/corpus.jsonl.gz")
    }
    judged = _judged(f"{folder}/{judgments}")
    questions = {
        line["_id"]: line["text"] for line in _lines(f"{folder}/queries.jsonl.gz") if line["_id"] in judged
    }
    return Collection(name, "en", documents, questions, judged, floor, goal)


def _esci() -> Collection:
    fields = ("title", "title", "brand", "color", "bullet_points", "description")
    documents = {
        line["asin"]: " ".join(str(line.get(field) or "") for field in fields)
        for line in _lines("esci-sample/products.jsonl.gz")
    }
    judged = _judged("esci-sample/qrels_dev.tsv.gz")
    questions = {
        line["_id"]: line["text"] for line in _lines("esci-sample/queries.jsonl.gz") if line["_id"] in judged
    }
    return Collection("esci", "en", documents, questions, judged, 0.701, 0.735)


def _wikinews() -> Collection:
    rows = list(_lines("wikinews/articles.jsonl.gz"))
    return Collection(
        "wikinews",
        "en",
        {row["id"]: row["text"] for row in rows},
        {row["id"]: row["title"] for row in rows},
        {row["id"]: {row["id"]: 1} for row in rows},
        0.966,
        0.983,
    )


def _events() -> Collection:
    rows = [row for row in _lines("wikipedia-current-events/items.jsonl.gz") if row["text"]]
    stories: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["story"]:
            stories[row["story"][-1]].append(row["id"])
    repeated = [row for row in rows if row["story"] and len(stories[row["story"][-1]]) > 1]
    queries = random.Random(0).sample(repeated, min(_EVENTS, len(repeated)))
    judged = {
        row["id"]: {row_id: 1 for row_id in stories[row["story"][-1]] if row_id != row["id"]}
        for row in queries
    }
    documents = {row["id"]: row["text"] for row in rows}
    return Collection("events", "en", documents, {row["id"]: row["text"] for row in queries}, judged)


def _xquad(language: str) -> Collection:
    rows = list(_lines(f"xquad/{language}.jsonl.gz"))
    questions = {f"{row['id']}#{at}": question["q"] for row in rows for at, question in enumerate(row["qas"])}
    judged = {name: {name.partition("#")[0]: 1} for name in questions}
    documents = {row["id"]: row["context"] for row in rows}
    floors = {"en": 0.929, "es": 0.919, "de": 0.889}
    goal = 0.931 if language == "en" else None
    return Collection(f"xquad-{language}", language, documents, questions, judged, floors[language], goal)


def _lines(path: str) -> Iterator[dict[str, Any]]:
    with gzip.open(data_folder() / path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _judged(path: str) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    with gzip.open(data_folder() / path, "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            question, document, grade = line.split("\t")
            judged[question][document] = int(float(grade))
    return judged


_SETS = {
    "cranfield": lambda: _beir("cranfield", "ir-classic/cranfield", "qrels_test.tsv.gz", 0.369, 0.413),
    "cisi": lambda: _beir("cisi", "ir-classic/cisi", "qrels_test.tsv.gz", 0.385, 0.457),
    "npl": lambda: _beir("npl", "ir-classic/npl", "qrels_test.tsv.gz", None, None),
    "scifact": lambda: _beir("scifact", "scifact", "qrels_train.tsv.gz", None, None),
    "esci": _esci,
    "wikinews": _wikinews,
    "events": _events,
    "xquad-en": lambda: _xquad("en"),
    "xquad-es": lambda: _xquad("es"),
    "xquad-de": lambda: _xquad("de"),
}
