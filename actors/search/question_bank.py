"""The questions of a bank as completions: found by prefix, by any of their words, and with typos."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from cluster.records.question import BankQuestion


@dataclass(frozen=True, slots=True)
class QuestionBankIndex:
    """The questions of a bank by weight, and their index."""

    questions: tuple[BankQuestion, ...]
    index: CompletionIndex

    def __len__(self) -> int:
        """Count questions."""
        return len(self.questions)

    @classmethod
    def of(cls, questions: Iterable[BankQuestion]) -> QuestionBankIndex:
        """Index a bank; a question that occurs twice has its larger weight.

        Cost:
            10,000 questions: 0.5 s
        """
        heaviest: dict[str, BankQuestion] = {}
        for one in questions:
            known = heaviest.get(one.question)
            if known is None or one.weight > known.weight:
                heaviest[one.question] = one
        # among equally near texts the earlier one is found first
        ordered = tuple(sorted(heaviest.values(), key=lambda one: -one.weight))
        weights = np.array([one.weight for one in ordered], np.float64)
        return cls(ordered, CompletionIndex.of([one.question for one in ordered], weights))

    def look_up(self, typed: str, wanted: int) -> list[BankQuestion]:
        """Find questions for a typed text, best first: fewer typos first, then larger weight."""
        text = fold_typed(typed)
        if not text or not wanted or not self.questions:
            return []
        found = self.index.look_up(text, wanted)
        return [self.questions[at] for at in found.texts[:wanted].tolist()]
