"""Words of a question that occur nowhere: typos, words not yet finished, words written in two or in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from actors.language.analysis import Analyzers
from actors.language.folding import fold_text
from actors.retrieval.lexical.query_terms import QueryWord, TermAlternatives, term_groups
from actors.retrieval.lexical.spell_dictionary import ProductVocabulary, SpellSuggestion
from actors.retrieval.lexical.term_matcher import TermGroup, TermHits, TermMatcher
from actors.retrieval.lexical.text_query import Correction

_SUGGESTED: Final = 5
_TRIED: Final = 6
_CORRECTED_WORDS: Final = 8
_BEGUN: Final = 24
_LEAST_BEGUN: Final = 2
"Letters from which on a last word may go on."
_SHORTEST_HALF: Final = 2
_LONGEST_WORD: Final = 40
"Longer ones are not words: nothing is suggested for them."
_OFTEN: Final = 0.3
_TYPO_SHARE: Final = 10
"A typo is believed before a beginning when what was meant is so many times as frequent."


@dataclass(frozen=True, slots=True)
class CorrectedQuery:
    """What was wrong, and the question without it."""

    text: str
    corrections: tuple[Correction, ...] = ()
    completions: Mapping[str, TermAlternatives] = field(default_factory=dict)
    "A last word that goes on -> terms of the words that begin so."


class SpellCorrector:
    """Corrects one question."""

    def __init__(
        self,
        vocabulary: ProductVocabulary,
        analyzers: Analyzers,
        languages: Sequence[str],
        matching: TermMatcher,
        find: Callable[[Sequence[TermGroup]], TermHits],
    ) -> None:
        self._vocabulary = vocabulary
        self._asked = [analyzers.get(language) for language in languages] or [analyzers.get("")]
        self._matching = matching
        self._find = find

    def correct(self, text: str, words: Sequence[QueryWord]) -> CorrectedQuery:
        """Find what is wrong with a question.

        Cost:
            nothing when every word occurs; else about 1 ms a word
        """
        unknown = [word for word in words if not self._occurs(word.groups)]
        if not unknown:
            return CorrectedQuery(text)
        known = [TermGroup(group) for word in words if word not in unknown for group in word.groups]
        begun = self._complete_last_word(text, unknown[-1]) if unknown[-1] is words[-1] else {}
        corrections: list[Correction] = []
        for word in unknown[:_CORRECTED_WORDS]:
            if word.text in begun or (corrections and corrections[-1].end >= word.end):
                continue
            corrections.append(self._join_neighbours(text, words, word) or self._suggest(text, word, known))
        return CorrectedQuery(_apply_corrections(text, corrections), tuple(corrections), begun)

    def _occurs(self, groups: Sequence[TermAlternatives]) -> bool:
        return bool(groups) and all(self._matching.occurs(group) for group in groups)

    def _groups(self, word: str) -> tuple[TermAlternatives, ...]:
        return term_groups(word, self._asked)

    def _complete_last_word(self, text: str, word: QueryWord) -> dict[str, TermAlternatives]:
        """Find words that begin with a last word that may not be finished; none when a typo is likelier."""
        said = fold_text(word.text)
        if text[word.end : word.end + 1] or len(said) < _LEAST_BEGUN or len(word.groups) != 1:
            return {}
        going_on = self._vocabulary.complete(said, _BEGUN)
        if not going_on:
            return {}
        meant = [near for near in self._vocabulary.suggest(said, 1) if near.edits == 1 and len(said) > 3]
        if meant and meant[0].count > _TYPO_SHARE * sum(count for _, count in going_on):
            return {}
        codes = [code for begun, _ in going_on for group in self._groups(begun)[:1] for code in group]
        group = tuple(dict.fromkeys(code for code in codes if self._matching.occurs((code,))))
        return {word.text: group} if group else {}

    def _suggest(self, text: str, word: QueryWord, known: Sequence[TermGroup]) -> Correction:
        """Suggest words for one; of the likeliest the first that occurs together with the rest of the question."""
        said = fold_text(word.text)
        if len(said) > _LONGEST_WORD:
            return Correction(word.start, word.end, text[word.start : word.end], ())
        candidates = [
            near for near in self._vocabulary.suggest(said, 2 * _TRIED) if self._occurs_in_product(near.word)
        ]
        candidates = sorted([*candidates, *self._split_word(said)], key=lambda near: (near.cost, near.word))
        candidates = candidates[:_TRIED]
        together = [near for near in candidates if known and self._occurs_with(near.word, known)]
        suggestions = dict.fromkeys(near.word for near in (*together[:1], *candidates))
        return Correction(word.start, word.end, text[word.start : word.end], tuple(suggestions)[:_SUGGESTED])

    def _split_word(self, said: str) -> list[SpellSuggestion]:
        """Read one word as two that stand together somewhere; a number may be as short as one digit."""
        first = 1 if said[:1].isdigit() else _SHORTEST_HALF
        cuts = [(said[:at], said[at:]) for at in range(first, len(said) - _SHORTEST_HALF + 1)]
        groups = {half: self._groups(half) for both in cuts for half in both}
        self._matching.look_up([group for several in groups.values() for group in several])
        found = []
        for left, right in cuts:
            if self._occurs(groups[left]) and self._occurs(groups[right]):
                wishes = [TermGroup(group) for half in (left, right) for group in groups[half]]
                count = len(self._find(wishes))
                if count:
                    found.append(
                        SpellSuggestion(f"{left} {right}", 1, 1.0 - _OFTEN * math.log10(count + 1), count)
                    )
        return found

    def _join_neighbours(self, text: str, words: Sequence[QueryWord], word: QueryWord) -> Correction | None:
        """Read a word and its neighbour as one."""
        for left, right in pairwise(words):
            if word in (left, right) and self._occurs_in_product(whole := fold_text(left.text + right.text)):
                return Correction(left.start, right.end, text[left.start : right.end], (whole,))
        return None

    def _occurs_in_product(self, word: str) -> bool:
        """Does a word occur in a product that is still there?"""
        return self._occurs(self._groups(word))

    def _occurs_with(self, suggestion: str, known: Sequence[TermGroup]) -> bool:
        groups = [group for word in suggestion.split() for group in self._groups(word)]
        return len(self._find([*known, *map(TermGroup, groups)])) > 0


def _apply_corrections(text: str, corrections: Sequence[Correction]) -> str:
    """Put first suggestions in place of what is wrong."""
    done, parts = 0, []
    for one in sorted(corrections, key=lambda one: one.start):
        if one.suggestions and one.start >= done:
            parts += [text[done : one.start], one.suggestions[0]]
            done = one.end
    return "".join([*parts, text[done:]])
