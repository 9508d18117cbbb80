"""Which sentence answers a question."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest

from actors.answers.composing.evidence import Question, kind_of, worth
from actors.answers.composing.sentences import sentences
from actors.language.analysis import Analyzer, Analyzers

DATA = Path(os.environ.get("KIOSK_TEST_DATA", Path(__file__).parents[5] / "shared" / "data")) / "xquad"
PASSAGE = [
    "The harbour of Veyle was dredged in 1931.",
    "Mayor Anna Brandt had asked for it because ships ran aground.",
    "Today it handles forty ships a week.",
]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("When was the harbour dredged?", 0),
        ("Which mayor had asked for it?", 1),
        ("Why was it asked for?", 1),
        ("How many ships does it handle?", 2),
    ],
)
def test_the_sentence_that_holds_what_is_asked_for_is_worth_most(question: str, wanted: int) -> None:
    analyzer = Analyzer("en")
    scores = worth(Question.of(question, analyzer, lambda term: 1.0), PASSAGE, analyzer)
    assert max(range(3), key=scores.__getitem__) == wanted


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many ships?", "count"),
        ("When did it begin?", "time"),
        ("¿Quién lo pidió?", "person"),
        ("Warum nicht?", "reason"),
        ("Where is it?", "place"),
        ("Tell me about tulips", ""),
    ],
)
def test_questions_say_what_they_ask_for(question: str, kind: str) -> None:
    assert kind_of(question) == kind


def test_sentences_with_nothing_in_common_are_worth_nothing() -> None:
    analyzer = Analyzer("en")
    assert (
        max(worth(Question.of("Quantum chromodynamics", analyzer, lambda term: 1.0), PASSAGE, analyzer)) <= 0
    )


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the public sets are not beside the checkout (KIOSK_TEST_DATA)")
@pytest.mark.parametrize(("language", "floor"), [("en", 0.797), ("es", 0.787), ("de", 0.75)])
def test_the_right_sentence_of_a_paragraph_is_found(language: str, floor: float) -> None:
    with gzip.open(DATA / f"{language}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    analyzer = Analyzers().of(language)
    counts = Counter(term for row in rows for term in set(analyzer.terms(row["context"])))
    right = asked = 0
    for row in rows:
        cut = sentences(row["context"])
        for qa in row["qas"]:
            question = Question.of(
                qa["q"], analyzer, lambda term: math.log(1 + len(rows) / (1 + counts[term]))
            )
            scores = worth(question, [one.text for one in cut], analyzer)
            best = cut[max(range(len(cut)), key=scores.__getitem__)]
            right += best.start <= qa["start"] < best.end
            asked += 1
    assert asked == 1_190
    assert right / asked >= floor
