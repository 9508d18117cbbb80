"""Check whether a passage supports a sentence, before any sentence is shown.

A sentence may contain less than its passage, in other words. It must not add a number, a name or a month, contradict
the passage, or have another subject.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from actors.answers.extractive.injection_filter import strip_invisible
from actors.answers.extractive.language_data import any_of, collect, compile_pattern, load_languages
from actors.answers.extractive.language_schema import LanguageData
from actors.answers.extractive.text_tokens import TextToken, TextTokenizer, select_names, split_sentences
from actors.language.analysis import Analyzers
from actors.language.folding import fold

# Parse numbers in digits or in words of several languages, with the unit that they count.


_LANGUAGES = load_languages().values()
_WORDS = MappingProxyType(
    {word: at for data in _LANGUAGES for at, word in enumerate(data.numbers.from_zero) if word != "-"}
    | {word: value for data in _LANGUAGES for word, value in data.numbers.tens.items()}
)
_TIMES = MappingProxyType(
    {word: value for data in _LANGUAGES for word, value in data.numbers.multipliers.items()}
)
_NEVER_ALONE = frozenset(collect(lambda data: data.numbers.never_alone))
_ONES = frozenset(collect(lambda data: data.numbers.ones))
"Words that mostly are no numbers but pronouns or articles."
_TOKEN = re.compile(r"\d+(?:[.,\u00a0\u202f']\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*|%|[$€£¥°]")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,\u00a0\u202f']\d{3})+\Z")
_UNITS = MappingProxyType(
    {word: unit for data in _LANGUAGES for unit, words in data.units.items() for word in words}
)


@dataclass(frozen=True, slots=True)
class NumberMention:
    """A number and its unit."""

    value: float
    unit: str
    "A kind of unit; empty for any other counted noun."
    digits: bool
    "Written in digits, so it certainly is a number."


def parse_numbers(text: str) -> list[NumberMention]:
    """Return the numbers of a text, in order; `1,900`, `1.9 thousand` and `nineteen hundred` are one value.

    Cost:
        20 us for a sentence
    """
    tokens = _TOKEN.findall(text.lower())
    results: list[NumberMention] = []
    at = 0
    while at < len(tokens):
        value, digits, after = _parse_number(tokens, at)
        if after == at:
            at += 1
            continue
        unit = "money" if at and tokens[at - 1] in "$€£¥" else _find_unit(tokens[after : after + 2])
        if digits or after - at > 1 or tokens[at] not in _ONES:
            results.append(NumberMention(value, unit, digits))
        at = after
    return results


def is_number_word(word: str) -> bool:
    """Return whether a word is a number, or a part of one."""
    small = word.lower()
    return small in _WORDS or small in _TIMES


def _find_unit(tokens: list[str]) -> str:
    for token in tokens:
        if token[0].isdecimal():
            return ""
        if token in _UNITS:
            return _UNITS[token]
    return ""


def _parse_number(tokens: list[str], at: int) -> tuple[float, bool, int]:
    """Parse the number that begins at a token: its value, whether in digits, and the token behind it."""
    total = part = 0.0
    digits = False
    begin = at
    while at < len(tokens):
        token = tokens[at]
        if token[0].isdecimal():
            if at > begin:
                break
            part, digits = _parse_digits(token), True
        elif token in _WORDS:
            if at > begin and not (part % 100 == 0 or (20 <= part % 100 < 100 and _WORDS[token] < 10)):
                break
            part += _WORDS[token]
        elif "-" in token and all(piece in _WORDS for piece in token.split("-")):
            part += sum(_WORDS[piece] for piece in token.split("-"))
        elif token in _TIMES and at > begin and not (len(token) == 1 and not digits):
            times = _TIMES[token]
            if times == 100:
                part = (part or 1) * 100
            else:
                total, part = total + (part or 1) * times, 0.0
        elif token in _TIMES and len(token) > 3 and token not in _NEVER_ALONE:
            part = float(_TIMES[token])
        else:
            break
        at += 1
    return total + part, digits, at


def _parse_digits(token: str) -> float:
    """Parse digits; a separator of groups of three separates thousands, any other sign is a decimal sign."""
    if _THOUSANDS.match(token) and not token.startswith("0"):
        return float(re.sub(r"\D", "", token))
    plain = re.sub(r"[\u00a0\u202f']", "", token)
    head, _, tail = plain.replace(",", ".").rpartition(".")
    return float(f"{head.replace('.', '')}.{tail}") if head else float(tail)


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
    rf"\b{any_of((*collect(_list_months), *collect(lambda data: data.calendar.weekdays)))}\b"
)
_NOT = compile_pattern(
    rf"\b{any_of(collect(lambda data: data.support.negations))}\b"
    rf"|{any_of(collect(lambda data: data.support.negation_endings))}\b"
)
_CLAUSE = compile_pattern(rf"[,;:.!?—–()]|\b{any_of(collect(lambda data: data.support.clause_words))}\b")
_SCOPE = 3
"Number of content words behind a `not` that it negates."
_OPPOSITES = tuple(
    (frozenset(one), frozenset(other))
    for data in load_languages().values()
    for one, other in data.support.opposites
)
_PASSIVE = compile_pattern(rf"\b{any_of(collect(lambda data: data.support.passive_words))}\b")
_SAME_NAMES = MappingProxyType(
    {name: other for data in load_languages().values() for name, other in data.support.same_names.items()}
)


def score_support(sentence: str, passage: str) -> float:
    """Return how well a passage supports a sentence: 0 not at all, 1 word by word.

    Cost:
        1 ms for a passage of 150 words
    """
    said, held = strip_invisible(sentence[:_MOST]), strip_invisible(passage[:_MOST])
    if not said or not held:
        return 0.0
    if _normalize(said) in _normalize(held):
        return 1.0
    wording = TextTokenizer(Analyzers().detect_language(said + " " + held[:2_000]))
    own, other = wording.tokenize(said), wording.tokenize(held)
    if not own:
        return 0.0
    coverage = _coverage(wording, own, other)
    if (
        _has_new_numbers(parse_numbers(said), parse_numbers(held))
        or _has_new_names(said, own, held, other, wording)
        or _has_new_months(said, held)
        or _contradicts(said, held, wording)
        or _swaps_names(said, own, held, wording)
    ):
        return min(coverage, 1.0) * _CONTRADICTION_FACTOR
    return round(min(coverage, 0.99), 4)


def _normalize(text: str) -> str:
    return re.sub(r"[\"“”„‘’'«»]", "", fold(text)).strip(" .!?…")


def _coverage(wording: TextTokenizer, own: Sequence[TextToken], other: Sequence[TextToken]) -> float:
    """Return the share of the sentence's words that the passage contains, in the same or other words."""
    stems = {word.stem for word in other}
    values = {figure.value for word in other for figure in parse_numbers(word.text)}
    total = found = 0.0
    for word in own:
        if is_number_word(word.text):
            continue  # numbers are compared by value
        weight = 1.5 if word.is_name or word.is_number else 1.0
        degree = 1.0 if word.stem in stems else wording.best_similarity(word.stem, stems)
        if degree < 1.0 and any(figure.value in values for figure in parse_numbers(word.text)):
            degree = 1.0
        total += weight
        found += weight * degree
    return found / total if total else 1.0


def _has_new_numbers(own: Sequence[NumberMention], other: Sequence[NumberMention]) -> bool:
    """Return whether the passage lacks a number, or has it with another unit."""
    for figure in own:
        same = [one for one in other if one.value == figure.value]
        if not same:
            return True
        if figure.unit and all(one.unit and one.unit != figure.unit for one in same):
            return True
    return False


def _has_new_names(
    said: str, own: Sequence[TextToken], held: str, other: Sequence[TextToken], wording: TextTokenizer
) -> bool:
    """Return whether a name is missing from the passage; adjectives of names and other forms count as the name."""
    known = {word.stem for word in other}
    folded = fold(held)
    for word in select_names(said, own):
        if word.is_number or word.stem in known or _MONTHS.fullmatch(word.text):
            continue
        bare = fold(re.sub(r"['’]s?$", "", word.text))
        if bare in folded or _SAME_NAMES.get(bare, bare) in folded:
            continue
        if wording.best_similarity(word.stem, known) < _DERIVED_NAME:
            return True
    return _has_unknown_first_name(said, own, known, folded, wording)


def _has_unknown_first_name(
    said: str, own: Sequence[TextToken], known: set[str], folded: str, wording: TextTokenizer
) -> bool:
    """Return whether a sentence begins with a name of two words, one of which is missing from the passage."""
    if len(own) < 2 or said[: own[0].start].strip(" \"'“‘("):
        return False
    first, second = own[0], own[1]
    if not (first.is_name and second.is_name and second.start - first.end == 1):
        return False
    return fold(first.text) not in folded and wording.best_similarity(first.stem, known) < _DERIVED_NAME


_DERIVED_NAME = 0.6


def _has_new_months(said: str, held: str) -> bool:
    return not {month.lower() for month in _MONTHS.findall(said)} <= {
        month.lower() for month in _MONTHS.findall(held)
    }


def _contradicts(said: str, held: str, wording: TextTokenizer) -> bool:
    """Return whether only one of both texts negates a word, or one contains a word's opposite."""
    denied, stated = _split_negated(said, wording)
    denied_there, stated_there = _split_negated(held, wording)
    if any(stem in denied_there and stem not in stated_there for stem in stated):
        return True
    if any(stem in stated_there and stem not in denied_there for stem in denied):
        return True
    words, there = set(re.findall(r"\w+", said.lower())), set(re.findall(r"\w+", held.lower()))
    for one, other in _OPPOSITES:
        for mine, theirs in ((one, other), (other, one)):
            if words & mine and not there & mine and there & theirs and not words & theirs:
                return True
    return False


def _split_negated(text: str, wording: TextTokenizer) -> tuple[set[str], set[str]]:
    """Split the words of a text into negated ones and others."""
    denied: set[str] = set()
    stated: set[str] = set()
    begin = 0
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


def _swaps_names(said: str, own: Sequence[TextToken], held: str, wording: TextTokenizer) -> bool:
    """Return whether two names change places around the same verb: who beat whom?"""
    mine = [word.stem for word in own if word.is_name and not word.is_number]
    deeds = {word.stem for word in own if not word.is_name and not word.is_number}
    pairs = [(one, other) for at, one in enumerate(mine) for other in mine[at + 1 :] if one != other]
    if not pairs or not deeds:
        return False
    for sentence in split_sentences(held):
        words = wording.tokenize(sentence.text)
        order = {word.stem: at for at, word in reversed(list(enumerate(words)))}
        both = [(one, other) for one, other in pairs if one in order and other in order]
        shared = deeds & order.keys()
        if not both or not shared or bool(_PASSIVE.search(said)) != bool(_PASSIVE.search(sentence.text)):
            continue
        for one, other in both:
            low, high = sorted((order[one], order[other]))
            deed = [stem for stem in shared if low < order[stem] < high]
            if order[one] > order[other] and deed and _is_between(own, one, other, deed):
                return True
    return False


def _is_between(own: Sequence[TextToken], one: str, other: str, deeds: Sequence[str]) -> bool:
    order = [word.stem for word in own]
    first, last = order.index(one), len(order) - 1 - order[::-1].index(other)
    return any(stem in order[first + 1 : last] for stem in deeds)
