"""Words of a question that occur nowhere: typos, words not yet finished, words written in two or in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from actors.language.analysis import Analyzers
from actors.retrieval.lexical.bm25 import Hits, Matching, Wish
from actors.retrieval.lexical.query_terms import Group, Word, groups_of
from actors.retrieval.lexical.spell_dictionary import Near, Vocabulary
from actors.retrieval.lexical.text_query import Correction
from actors.retrieval.text import folded

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
class Corrected:
    """What was wrong, and the question without it."""

    text: str
    corrections: tuple[Correction, ...] = ()
    begun: Mapping[str, Group] = field(default_factory=dict)
    "A last word that goes on -> terms of the words that begin so."


class Speller:
    """Corrects one question."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        analyzers: Analyzers,
        languages: Sequence[str],
        matching: Matching,
        find: Callable[[Sequence[Wish]], Hits],
    ) -> None:
        self._vocabulary = vocabulary
        self._asked = [analyzers.of(language) for language in languages] or [analyzers.of("")]
        self._matching = matching
        self._find = find

    def correct(self, text: str, words: Sequence[Word]) -> Corrected:
        """Find what is wrong with a question.

        Cost:
            nothing when every word occurs; else about 1 ms a word
        """
        unknown = [word for word in words if not self._occurs(word.groups)]
        if not unknown:
            return Corrected(text)
        known = [Wish(group) for word in words if word not in unknown for group in word.groups]
        begun = self._begun(text, unknown[-1]) if unknown[-1] is words[-1] else {}
        corrections: list[Correction] = []
        for word in unknown[:_CORRECTED_WORDS]:
            if word.said in begun or (corrections and corrections[-1].end >= word.end):
                continue
            corrections.append(self._joined(text, words, word) or self._near(text, word, known))
        return Corrected(_put_in(text, corrections), tuple(corrections), begun)

    def _occurs(self, groups: Sequence[Group]) -> bool:
        return bool(groups) and all(self._matching.occurs(group) for group in groups)

    def _groups(self, word: str) -> tuple[Group, ...]:
        return groups_of(word, self._asked)

    def _begun(self, text: str, word: Word) -> dict[str, Group]:
        """Find words that begin with a last word that may not be finished; none when a typo is likelier."""
        said = folded(word.said)
        if text[word.end : word.end + 1] or len(said) < _LEAST_BEGUN or len(word.groups) != 1:
            return {}
        going_on = self._vocabulary.begun(said, _BEGUN)
        if not going_on:
            return {}
        meant = [near for near in self._vocabulary.near(said, 1) if near.edits == 1 and len(said) > 3]
        if meant and meant[0].count > _TYPO_SHARE * sum(count for _, count in going_on):
            return {}
        codes = [code for begun, _ in going_on for group in self._groups(begun)[:1] for code in group]
        group = tuple(dict.fromkeys(code for code in codes if self._matching.occurs((code,))))
        return {word.said: group} if group else {}

    def _near(self, text: str, word: Word, known: Sequence[Wish]) -> Correction:
        """Suggest words for one; of the likeliest the first that occurs together with the rest of the question."""
        said = folded(word.said)
        if len(said) > _LONGEST_WORD:
            return Correction(word.start, word.end, text[word.start : word.end], ())
        candidates = [near for near in self._vocabulary.near(said, 2 * _TRIED) if self._lives(near.word)]
        candidates = sorted([*candidates, *self._halves(said)], key=lambda near: (near.cost, near.word))
        candidates = candidates[:_TRIED]
        together = [near for near in candidates if known and self._meets(near.word, known)]
        suggestions = dict.fromkeys(near.word for near in (*together[:1], *candidates))
        return Correction(word.start, word.end, text[word.start : word.end], tuple(suggestions)[:_SUGGESTED])

    def _halves(self, said: str) -> list[Near]:
        """Read one word as two that stand together somewhere; a number may be as short as one digit."""
        first = 1 if said[:1].isdigit() else _SHORTEST_HALF
        cuts = [(said[:at], said[at:]) for at in range(first, len(said) - _SHORTEST_HALF + 1)]
        groups = {half: self._groups(half) for both in cuts for half in both}
        self._matching.look_up([group for several in groups.values() for group in several])
        found = []
        for left, right in cuts:
            if self._occurs(groups[left]) and self._occurs(groups[right]):
                wishes = [Wish(group) for half in (left, right) for group in groups[half]]
                count = len(self._find(wishes))
                if count:
                    found.append(Near(f"{left} {right}", 1, 1.0 - _OFTEN * math.log10(count + 1), count))
        return found

    def _joined(self, text: str, words: Sequence[Word], word: Word) -> Correction | None:
        """Read a word and its neighbour as one."""
        for left, right in pairwise(words):
            if word in (left, right) and self._lives(whole := folded(left.said + right.said)):
                return Correction(left.start, right.end, text[left.start : right.end], (whole,))
        return None

    def _lives(self, word: str) -> bool:
        """Does a word occur in a product that is still there?"""
        return self._occurs(self._groups(word))

    def _meets(self, suggestion: str, known: Sequence[Wish]) -> bool:
        groups = [group for word in suggestion.split() for group in self._groups(word)]
        return len(self._find([*known, *map(Wish, groups)])) > 0


def _put_in(text: str, corrections: Sequence[Correction]) -> str:
    """Put first suggestions in place of what is wrong."""
    done, parts = 0, []
    for one in sorted(corrections, key=lambda one: one.start):
        if one.suggestions and one.start >= done:
            parts += [text[done : one.start], one.suggestions[0]]
            done = one.end
    return "".join([*parts, text[done:]])
