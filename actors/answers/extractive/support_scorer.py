"""Check whether a passage supports a sentence, before any sentence is shown.

A sentence may contain less than its passage, in other words. It must not add a number, a name or a month, contradict
the passage, or have another subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from actors.answers.extractive.injection_filter import strip_invisible
from actors.answers.extractive.number_parser import NumberMention, is_number_word, parse_numbers
from actors.answers.extractive.sentence_splitter import split_sentences
from actors.answers.extractive.text_tokens import TextToken, TextTokenizer, select_names
from actors.language.analysis import Analyzers
from actors.language.folding import fold
from actors.language.language_data import any_of, collect_words, compile_pattern, load_languages
from actors.language.language_schema import LanguageData


def _list_months(data: LanguageData) -> list[str]:
    """Return the months of a language as fragments; one that is also another word needs a number behind it."""
    calendar = data.calendar
    return [rf"{month}(?= \d)" if month in calendar.ambiguous_months else month for month in calendar.months]


MIN_SUPPORT = 0.5
"Minimal support of a sentence that is shown."

_MOST = 20_000
_CONTRADICTION_FACTOR = 0.1
"Maximal support of a sentence that adds a number, name or month, or contradicts its passage."
_MONTHS = compile_pattern(
    rf"\b{any_of((*collect_words(_list_months), *collect_words(lambda data: data.calendar.weekdays)))}\b"
)
_NOT = compile_pattern(
    rf"\b{any_of(collect_words(lambda data: data.support.negations))}\b"
    rf"|{any_of(collect_words(lambda data: data.support.negation_endings))}\b"
)
_CLAUSE = compile_pattern(
    rf"[,;:.!?—–()]|\b{any_of(collect_words(lambda data: data.support.clause_words))}\b"
)
_SCOPE = 3
"Number of content words behind a `not` that it negates."
_OPPOSITES = tuple(
    (frozenset(left), frozenset(right))
    for data in load_languages().values()
    for left, right in data.support.opposites
)
_PASSIVE = compile_pattern(rf"\b{any_of(collect_words(lambda data: data.support.passive_words))}\b")
_SAME_NAMES = MappingProxyType(
    {name: other for data in load_languages().values() for name, other in data.support.same_names.items()}
)


def score_support(sentence: str, passage: str) -> float:
    """Return how well a passage supports a sentence: 0 not at all, 1 word by word.

    Cost:
        1 ms for a passage of 150 words
    """
    # Invisible characters first, or they would split a word and hide it from the checks.
    claim = strip_invisible(sentence[:_MOST])
    source = strip_invisible(passage[:_MOST])
    if not claim or not source:
        return 0.0
    # A copy needs no further check, and its answer is certain.
    if _normalize(claim) in _normalize(source):
        return 1.0
    wording = TextTokenizer(Analyzers().detect_language(claim + " " + source[:2_000]))
    claim_tokens = wording.tokenize(claim)
    other = wording.tokenize(source)
    if not claim_tokens:
        return 0.0
    coverage = _coverage(wording, claim_tokens, other)
    if (
        _has_new_numbers(parse_numbers(claim), parse_numbers(source))
        or _has_new_names(claim, claim_tokens, source, other, wording)
        or _has_new_months(claim, source)
        or _contradicts(claim, source, wording)
        or _swaps_names(claim, claim_tokens, source, wording)
    ):
        return min(coverage, 1.0) * _CONTRADICTION_FACTOR
    # Below 1, which only a copied sentence has.
    return round(min(coverage, 0.99), 4)


def _normalize(text: str) -> str:
    return re.sub(r"[\"“”„‘’'«»]", "", fold(text)).strip(" .!?…")


def _coverage(wording: TextTokenizer, claim_tokens: Sequence[TextToken], other: Sequence[TextToken]) -> float:
    """Return the share of the sentence's words that the passage contains, in the same or other words."""
    stems = {word.stem for word in other}
    values = {figure.value for word in other for figure in parse_numbers(word.text)}
    total = covered = 0.0
    for word in claim_tokens:
        if is_number_word(word.text):
            continue  # numbers are compared by value
        weight = 1.5 if word.is_name or word.is_number else 1.0
        degree = 1.0 if word.stem in stems else wording.best_similarity(word.stem, stems)
        # Numbers in words and in digits are one value.
        if degree < 1.0 and any(figure.value in values for figure in parse_numbers(word.text)):
            degree = 1.0
        total += weight
        covered += weight * degree
    return covered / total if total else 1.0


def _has_new_numbers(claim_numbers: Sequence[NumberMention], other: Sequence[NumberMention]) -> bool:
    """Return whether the passage lacks a number, or has it with another unit."""
    for figure in claim_numbers:
        same = [number for number in other if number.value == figure.value]
        if not same:
            return True
        # Another unit contradicts; a missing one does not.
        if figure.unit and all(number.unit and number.unit != figure.unit for number in same):
            return True
    return False


def _has_new_names(
    claim: str,
    claim_tokens: Sequence[TextToken],
    source: str,
    other: Sequence[TextToken],
    wording: TextTokenizer,
) -> bool:
    """Return whether a name is missing from the passage; adjectives of names and other forms count as the name."""
    source_stems = {word.stem for word in other}
    folded = fold(source)
    for word in select_names(claim, claim_tokens):
        if word.is_number or word.stem in source_stems or _MONTHS.fullmatch(word.text):
            continue
        bare = fold(re.sub(r"['’]s?$", "", word.text))
        # As a part of the text too: the passage may have the name in another form.
        if bare in folded or _SAME_NAMES.get(bare, bare) in folded:
            continue
        if wording.best_similarity(word.stem, source_stems) < _DERIVED_NAME:
            return True
    return _has_unknown_first_name(claim, claim_tokens, source_stems, folded, wording)


def _has_unknown_first_name(
    claim: str, claim_tokens: Sequence[TextToken], source_stems: set[str], folded: str, wording: TextTokenizer
) -> bool:
    """Return whether a sentence begins with a name of two words, one of which is missing from the passage."""
    if len(claim_tokens) < 2 or claim[: claim_tokens[0].start].strip(" \"'“‘("):
        return False
    first = claim_tokens[0]
    second = claim_tokens[1]
    # Exactly one character between both: a comma or a bracket would separate two names.
    if not (first.is_name and second.is_name and second.start - first.end == 1):
        return False
    return (
        fold(first.text) not in folded and wording.best_similarity(first.stem, source_stems) < _DERIVED_NAME
    )


_DERIVED_NAME = 0.6


def _has_new_months(claim: str, source: str) -> bool:
    return not {month.lower() for month in _MONTHS.findall(claim)} <= {
        month.lower() for month in _MONTHS.findall(source)
    }


def _contradicts(claim: str, source: str, wording: TextTokenizer) -> bool:
    """Return whether only one of both texts negates a word, or one contains a word's opposite."""
    denied, stated = _split_negated(claim, wording)
    denied_there, stated_there = _split_negated(source, wording)
    # A word that occurs both negated and not proves nothing.
    if any(stem in denied_there and stem not in stated_there for stem in stated):
        return True
    if any(stem in stated_there and stem not in denied_there for stem in denied):
        return True
    words = set(re.findall(r"\w+", claim.lower()))
    there = set(re.findall(r"\w+", source.lower()))
    for left, right in _OPPOSITES:
        for mine, theirs in ((left, right), (right, left)):
            if words & mine and not there & mine and there & theirs and not words & theirs:
                return True
    return False


def _split_negated(text: str, wording: TextTokenizer) -> tuple[set[str], set[str]]:
    """Split the words of a text into negated ones and others."""
    denied: set[str] = set()
    stated: set[str] = set()
    begin = 0
    # A negation reaches to the end of its clause at most.
    for end in [*(match.start() for match in _CLAUSE.finditer(text)), len(text)]:
        clause = text[begin:end]
        spot = _NOT.search(clause)
        for word in wording.tokenize(clause[: spot.start()] if spot else clause):
            stated.add(word.stem)
        if spot:
            behind = wording.tokenize(clause[spot.end() :])
            denied |= {word.stem for word in behind[:_SCOPE]}
            stated |= {word.stem for word in behind[_SCOPE:]}
        begin = end
    return denied, stated


def _swaps_names(claim: str, claim_tokens: Sequence[TextToken], source: str, wording: TextTokenizer) -> bool:
    """Return whether two names change places around the same verb: who beat whom?"""
    mine = [word.stem for word in claim_tokens if word.is_name and not word.is_number]
    deeds = {word.stem for word in claim_tokens if not word.is_name and not word.is_number}
    pairs = [(left, right) for at, left in enumerate(mine) for right in mine[at + 1 :] if left != right]
    if not pairs or not deeds:
        return False
    for sentence in split_sentences(source):
        words = wording.tokenize(sentence.text)
        # Reversed, so that the first occurrence of a stem wins.
        order = {word.stem: at for at, word in reversed(list(enumerate(words)))}
        both = [(left, right) for left, right in pairs if left in order and right in order]
        shared = deeds & order.keys()
        # A passive changes the places of who and whom, so both must have the same voice.
        if not both or not shared or bool(_PASSIVE.search(claim)) != bool(_PASSIVE.search(sentence.text)):
            continue
        for left, right in both:
            low, high = sorted((order[left], order[right]))
            deed = [stem for stem in shared if low < order[stem] < high]
            # The names stand the other way round, with the same verb between them in both texts.
            if order[left] > order[right] and deed and _is_between(claim_tokens, left, right, deed):
                return True
    return False


def _is_between(claim_tokens: Sequence[TextToken], left: str, right: str, deeds: Sequence[str]) -> bool:
    order = [word.stem for word in claim_tokens]
    first = order.index(left)
    last = len(order) - 1 - order[::-1].index(right)
    return any(stem in order[first + 1 : last] for stem in deeds)
