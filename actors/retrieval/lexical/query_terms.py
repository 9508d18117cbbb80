"""A question cut into words, each word into groups of terms: one term of every group must occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.language.analysis import Analyzer, Analyzers, split_words_with_spans, term_code
from actors.language.folding import fold

LONGEST = 2_000
"Characters of a question that are read."
MOST_WORDS = 48

TermAlternatives = tuple[int, ...]
"Terms of which one is enough: a word in several languages."


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a question."""

    text: str
    "In lower case."
    start: int
    end: int
    groups: tuple[TermAlternatives, ...]
    "More than one for a word of a script without blanks, which is cut into pieces."

    @property
    def code(self) -> int:
        """The term in the first language; 0 when the word is cut into pieces."""
        return self.groups[0][0] if len(self.groups) == 1 else 0


def analyze_query(text: str, analyzers: Analyzers, languages: Sequence[str]) -> list[QueryWord]:
    """Cut a question into words, without those that say nothing, unless there are no others."""
    asked = [analyzers.get(language) for language in languages] or [analyzers.get("")]
    said = list(split_words_with_spans(text[:LONGEST]))
    own = max(asked, key=lambda analyzer: sum(word in analyzer.stop for word, _, _ in said))
    told = [one for one in said if one[0] not in own.stop]
    if said and not told:
        return [
            QueryWord(word, start, end, ((term_code(fold(word)),),)) for word, start, end in said[:MOST_WORDS]
        ]
    cut = [QueryWord(word, start, end, term_groups(word, asked)) for word, start, end in told[:MOST_WORDS]]
    return [word for word in cut if word.groups]


def term_groups(word: str, asked: Sequence[Analyzer]) -> tuple[TermAlternatives, ...]:
    """Turn a word into groups of terms."""
    ways = [codes for codes in (analyzer.terms_of([word]) for analyzer in asked) if codes]
    if not ways:
        return ()
    pieces = max(map(len, ways))
    return tuple(tuple(dict.fromkeys(way[at] for way in ways if at < len(way))) for at in range(pieces))
