from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.language.hashing_embedder import HashingEmbedder
from deployments.operations.insight.archive.question_groups import (
    MOST_EXAMPLES,
    MOST_QUESTIONS,
    group_questions,
)

PARAPHRASES = (
    ("Who won the marathon in Oslo?", "who was the winner of the Oslo marathon", "Oslo marathon winner"),
    ("What does the new tram line cost?", "how expensive is the new tram line", "cost of the new tram line"),
    ("Are mushrooms from the forest radioactive?", "radioactive mushrooms in the forest",
     "how radioactive are forest mushrooms"),
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    question: str
    calls: int = 1
    last_at: int = 0
    coverage: float = 0.0


def test_questions_about_the_same_are_one_group_led_by_the_most_frequent() -> None:
    lines = [
        Line(text, 10 - at, number, at / 10)
        for number, texts in enumerate(PARAPHRASES)
        for at, text in enumerate(texts)
    ]
    groups = group_questions(lines[::-1])
    assert [(group.question, group.examples) for group in groups] == [
        (texts[0], texts[1:]) for texts in PARAPHRASES[::-1]
    ]
    assert [(group.calls, group.questions, group.coverage) for group in groups] == [(27, 3, 0.2)] * 3


def test_different_questions_stay_apart_and_examples_are_few() -> None:
    texts = ["Who founded the observatory?", "Price of rhubarb", "When do the ferries sail?", "zzz"]
    assert len(group_questions([Line(text) for text in texts])) == 4
    same = [Line(f"What does the new tram line cost {'!' * at}?", 50 - at) for at in range(20)]
    (group,) = group_questions(same)
    assert (group.questions, len(group.examples)) == (20, MOST_EXAMPLES)
    assert group_questions([]) == []


def test_the_vectors_of_a_trained_embedder_decide() -> None:
    class OneMeaning(HashingEmbedder):
        def embed(self, texts: object) -> np.ndarray:  # type: ignore[override]
            return np.ones((len(list(texts)), 4), np.float32) / 2  # type: ignore[call-overload]

    lines = [Line("Who won?"), Line("Price of rhubarb")]
    assert len(group_questions(lines, OneMeaning())) == 1


def test_only_so_many_questions_are_grouped() -> None:
    lines = [Line(f"word{at} other{at * 7}", calls=at) for at in range(MOST_QUESTIONS + 50)]
    groups = group_questions(lines)
    assert sum(group.questions for group in groups) == MOST_QUESTIONS
