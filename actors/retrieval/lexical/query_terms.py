"""A query as words, and each word as groups of terms: one term of every group must occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.language.analysis import Analyzer, Analyzers, split_words_with_spans, term_code
from actors.language.folding import fold

LONGEST = 2_000
"Characters of a query that are read."
MOST_WORDS = 48

TermAlternatives = tuple[int, ...]
"Terms of which one is enough: a word in several languages."


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of a query."""

    text: str
    "In lower case."
    start: int
    end: int
    groups: tuple[TermAlternatives, ...]
    "More than one for a word of a script without blanks, which has a group for each pair of characters."

    @property
    def code(self) -> int:
        """Return the term in the first language; 0 if the word has several groups."""
        return self.groups[0][0] if len(self.groups) == 1 else 0


def analyze_query(text: str, analyzers: Analyzers, languages: Sequence[str]) -> list[QueryWord]:
    """Split a query into words without stop words; if it has only stop words, keep them."""
    chosen = [analyzers.get(language) for language in languages] or [analyzers.get("")]
    words = list(split_words_with_spans(text[:LONGEST]))
    # The language with most stop words in the query is most likely its language.
    analyzer = max(chosen, key=lambda candidate: sum(word in candidate.stop for word, _, _ in words))
    kept = [word for word in words if word[0] not in analyzer.stop]
    if words and not kept:
        return [
            QueryWord(word, start, end, ((term_code(fold(word)),),))
            for word, start, end in words[:MOST_WORDS]
        ]
    query_words = [
        QueryWord(word, start, end, term_groups(word, chosen)) for word, start, end in kept[:MOST_WORDS]
    ]
    return [word for word in query_words if word.groups]


def term_groups(word: str, analyzers: Sequence[Analyzer]) -> tuple[TermAlternatives, ...]:
    """Return the terms of a word in each language, grouped by their position in the word."""
    variants = [codes for codes in (analyzer.terms_of([word]) for analyzer in analyzers) if codes]
    if not variants:
        return ()
    pieces = max(map(len, variants))
    return tuple(
        tuple(dict.fromkeys(variant[at] for variant in variants if at < len(variant))) for at in range(pieces)
    )
