"""Corrections of query words that no product has: typos, unfinished words, words split in two or joined into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from actors.language.analysis import Analyzers
from actors.language.folding import fold_text
from actors.retrieval.lexical.messages import Correction
from actors.retrieval.lexical.query_terms import QueryWord, TermAlternatives, term_groups
from actors.retrieval.lexical.spell_dictionary import JoinedVocabulary, ProductVocabulary, SpellSuggestion
from actors.retrieval.lexical.term_matcher import TermGroup, TermHits, TermMatcher

_SUGGESTED: Final = 5
_TRIED: Final = 6
# Bounds of one query: each corrected word costs about a millisecond.
_CORRECTED_WORDS: Final = 8
_BEGUN: Final = 24
_LEAST_BEGUN: Final = 2
"Letters from which on a last word may be unfinished."
_SHORTEST_HALF: Final = 2
_LONGEST_WORD: Final = 40
"Nothing is suggested for longer words."
_OFTEN: Final = 0.3
_TYPO_SHARE: Final = 10
"""Factor of frequency: a word is a typo, not unfinished, if the corrected word is more frequent than all
completions by it."""


@dataclass(frozen=True, slots=True)
class CorrectedQuery:
    """The corrected query, its corrections, and completions of its last word."""

    text: str
    corrections: tuple[Correction, ...] = ()
    completions: Mapping[str, TermAlternatives] = field(default_factory=dict)
    "An unfinished last word -> terms of the words that begin with it."


class SpellCorrector:
    """Corrects one query."""

    def __init__(
        self,
        vocabulary: ProductVocabulary | JoinedVocabulary,
        analyzers: Analyzers,
        languages: Sequence[str],
        matcher: TermMatcher,
        find: Callable[[Sequence[TermGroup]], TermHits],
    ) -> None:
        self._vocabulary = vocabulary
        self._language_analyzers = [analyzers.get(language) for language in languages] or [analyzers.get("")]
        self._matcher = matcher
        self._find = find

    def correct(self, text: str, words: Sequence[QueryWord]) -> CorrectedQuery:
        """Find the words of a query that no product has, and correct them.

        Cost:
            one look-up if every word occurs; else about 1 ms a word
        """
        unknown = [word for word in words if not self._occurs(word.groups)]
        if not unknown:
            return CorrectedQuery(text)
        indexed_groups = [TermGroup(group) for word in words if word not in unknown for group in word.groups]
        completed = self._complete_last_word(text, unknown[-1]) if unknown[-1] is words[-1] else {}
        corrections: list[Correction] = []
        for word in unknown[:_CORRECTED_WORDS]:
            # A joined pair covers the word behind it.
            if word.text in completed or (corrections and corrections[-1].end >= word.end):
                continue
            corrections.append(
                self._join_neighbours(text, words, word) or self._suggest(text, word, indexed_groups)
            )
        return CorrectedQuery(_apply_corrections(text, corrections), tuple(corrections), completed)

    def _occurs(self, groups: Sequence[TermAlternatives]) -> bool:
        return bool(groups) and all(self._matcher.occurs(group) for group in groups)

    def _groups(self, word: str) -> tuple[TermAlternatives, ...]:
        return term_groups(word, self._language_analyzers)

    def _complete_last_word(self, text: str, word: QueryWord) -> dict[str, TermAlternatives]:
        """Find the completions of an unfinished last word; none if a typo is likelier."""
        folded = fold_text(word.text)
        if text[word.end : word.end + 1] or len(folded) < _LEAST_BEGUN or len(word.groups) != 1:
            return {}
        completions = self._vocabulary.complete(folded, _BEGUN)
        if not completions:
            return {}
        # In words of up to three letters, one edit leads to too many others to be a sign of a typo.
        corrections = [
            near for near in self._vocabulary.suggest(folded, 1) if near.edits == 1 and len(folded) > 3
        ]
        if corrections and corrections[0].count > _TYPO_SHARE * sum(count for _, count in completions):
            return {}
        codes = [
            code for completed, _ in completions for group in self._groups(completed)[:1] for code in group
        ]
        group = tuple(dict.fromkeys(code for code in codes if self._matcher.occurs((code,))))
        return {word.text: group} if group else {}

    def _suggest(self, text: str, word: QueryWord, indexed_groups: Sequence[TermGroup]) -> Correction:
        """Suggest words for one; first of the likeliest that occur in a product with the rest of the query."""
        folded = fold_text(word.text)
        if len(folded) > _LONGEST_WORD:
            return Correction(word.start, word.end, text[word.start : word.end], ())
        candidates = [
            near
            for near in self._vocabulary.suggest(folded, 2 * _TRIED)
            if self._occurs_in_product(near.word)
        ]
        candidates = sorted([*candidates, *self._split_word(folded)], key=lambda near: (near.cost, near.word))
        candidates = candidates[:_TRIED]
        together = [
            near for near in candidates if indexed_groups and self._occurs_with(near.word, indexed_groups)
        ]
        suggestions = dict.fromkeys(near.word for near in (*together[:1], *candidates))
        return Correction(word.start, word.end, text[word.start : word.end], tuple(suggestions)[:_SUGGESTED])

    def _split_word(self, folded: str) -> list[SpellSuggestion]:
        """Split a word into two that occur in the same product; a number may be as short as one digit."""
        first = 1 if folded[:1].isdigit() else _SHORTEST_HALF
        cuts = [(folded[:at], folded[at:]) for at in range(first, len(folded) - _SHORTEST_HALF + 1)]
        groups = {half: self._groups(half) for cut in cuts for half in cut}
        # All halves at once: `_occurs` below then reads what this look-up has cached.
        self._matcher.look_up([group for several in groups.values() for group in several])
        suggestions = []
        for left, right in cuts:
            if self._occurs(groups[left]) and self._occurs(groups[right]):
                halves = [TermGroup(group) for half in (left, right) for group in groups[half]]
                count = len(self._find(halves))
                if count:
                    suggestions.append(
                        SpellSuggestion(f"{left} {right}", 1, 1.0 - _OFTEN * math.log10(count + 1), count)
                    )
        return suggestions

    def _join_neighbours(self, text: str, words: Sequence[QueryWord], word: QueryWord) -> Correction | None:
        """Join a word with its neighbour if a product has the joined word."""
        for left, right in pairwise(words):
            if word in (left, right) and self._occurs_in_product(whole := fold_text(left.text + right.text)):
                return Correction(left.start, right.end, text[left.start : right.end], (whole,))
        return None

    def _occurs_in_product(self, word: str) -> bool:
        """Return whether a readable product of the index has a word."""
        return self._occurs(self._groups(word))

    def _occurs_with(self, suggestion: str, indexed_groups: Sequence[TermGroup]) -> bool:
        groups = [group for word in suggestion.split() for group in self._groups(word)]
        return len(self._find([*indexed_groups, *map(TermGroup, groups)])) > 0


def _apply_corrections(text: str, corrections: Sequence[Correction]) -> str:
    """Replace wrong words by their first suggestions."""
    done = 0
    parts = []
    for correction in sorted(corrections, key=lambda correction: correction.start):
        if correction.suggestions and correction.start >= done:
            parts += [text[done : correction.start], correction.suggestions[0]]
            done = correction.end
    return "".join([*parts, text[done:]])
