"""Find the entities that questions ask for in a sentence: numbers with units, dates, names, reasons.

Sentences are cut into words once and the words looked up, so the time is linear however strange the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from types import MappingProxyType

from actors.language.language_data import any_of, collect_words, compile_pattern, load_languages

CharSpan = tuple[int, int]
"The range of an entity in a sentence."

_WORD = re.compile(r"\d{1,15}(?:[.,:]\d{1,15}){0,4}|[^\W\d_]{1,40}|[%$€£¥°“\"]")
_NUMBER_WORDS = frozenset(collect_words(lambda data: data.entities.number_words))
_MEASURES = frozenset(collect_words(lambda data: data.measures))
_MEASURES_OF = MappingProxyType(
    {
        word: frozenset(
            kind
            for data in load_languages().values()
            for kind, words in data.measures.items()
            if word in words
        )
        for word in collect_words(lambda data: chain.from_iterable(data.measures.values()))
    }
)
"Unit -> the measured quantity."
_UNIT_DISTANCE = 4
"Maximal number of words between a number and its unit: `two and a half million crowns`."
_ERA_DISTANCE = 2
"Maximal number of words from a year to its era: `9 v. Chr.`."
_JOINS = frozenset(collect_words(lambda data: data.entities.number_joins))
_SHARES = frozenset(collect_words(lambda data: data.entities.shares))
_DATES = frozenset(
    collect_words(lambda data: (*data.calendar.months, *data.calendar.weekdays, *data.calendar.other_dates))
)
"Only when written with a capital, but for languages that write them small."
_SMALL_MONTHS = frozenset(collect_words(lambda data: data.calendar.small_months))
_ERAS = frozenset(collect_words(lambda data: data.calendar.eras))
_PERIODS = frozenset(collect_words(lambda data: data.calendar.periods))
_SINCE = frozenset(collect_words(lambda data: data.calendar.since))
_WORDS_OF = MappingProxyType(
    {
        "strong reason": frozenset(collect_words(lambda data: data.entities.strong_reasons)),
        "reason": frozenset(collect_words(lambda data: data.entities.weak_reasons)),
        "manner": frozenset(collect_words(lambda data: data.entities.manners)),
    }
)
"Kind of entity -> its words."
_PLACES = frozenset(collect_words(lambda data: data.entities.places))
_NO_PLACE = frozenset(collect_words(lambda data: data.entities.no_place))
_PLAIN_PLACES = frozenset(collect_words(lambda data: data.entities.plain_places))
_PLAIN_ARTICLES = frozenset(collect_words(lambda data: data.entities.plain_articles))
_ROLE_ENDINGS = collect_words(lambda data: data.entities.role_endings)
_PEOPLE = frozenset(collect_words(lambda data: data.entities.people))
_AGES = frozenset(collect_words(lambda data: data.entities.ages))
_COPULAS = frozenset(
    collect_words(lambda data: () if data.plain_questions is None else tuple(data.plain_questions.copulas))
)
_PER = frozenset(collect_words(lambda data: data.entities.per))
_CLOCK = frozenset(collect_words(lambda data: data.entities.clock))
_SPEEDS = frozenset(collect_words(lambda data: data.entities.speeds))
_CENTURIES = frozenset(str(century) for century in range(10, 21))
_CURRENCY_SIGNS = frozenset("$€£¥")
_CAPITAL = "A-ZÀ-ÖØ-ÞŁŚŻŽŠČİ"
_NAME = re.compile(rf"(?<!\w)[{_CAPITAL}][\w’'&.-]{{0,30}}")
_LINKS = frozenset(collect_words(lambda data: data.entities.name_links))
_LINK = compile_pattern(
    rf"\s{{1,2}}(?:([\w&]{{1,3}})\s{{1,2}})?(?:{any_of(collect_words(lambda data: data.entities.name_articles))}\s)?\Z",
    ignore_case=False,
)


def find_numbers(sentence: str) -> list[CharSpan]:
    """Return the places of numbers, in digits or words."""
    return [spot for word, spot in split_words(sentence) if _is_number(word)]


def find_entities(kind: str, sentence: str) -> list[CharSpan]:
    """Return the places of a kind of entity, such as money, length, duration, share, temperature, age or reason."""
    words = split_words(sentence)
    if kind in _MEASURES:
        spots = list(_find_measures(words, kind))
        if kind == "share":
            spots += [spot for word, spot in words if word.lower() in _SHARES]
        if kind == "duration":
            spots += [spot for word, spot in words if word.lower() in _SINCE]
        return spots
    if kind == "time":
        return [spot for word, spot in words if _is_time(word)] + list(_find_years_of_eras(words))
    if kind == "age":
        return list(_find_ages(sentence, words))
    if kind == "speed":
        return list(_find_speeds(words))
    chosen = _WORDS_OF.get(kind)
    if chosen is not None:
        return [spot for word, spot in words if word.lower() in chosen]
    return list(_find_places(words, kind == "there"))


def find_name_spans(sentence: str) -> list[CharSpan]:
    """Return the ranges of words that are written like names."""
    results: list[CharSpan] = []
    for match in _NAME.finditer(sentence):
        start = match.start()
        end = match.end()
        # The point at its end is the sentence's; that of an initial (`J.`) belongs to the name.
        if end - start > 2 and match[0].endswith((".", "’", "'")):
            end -= 1
        between = sentence[results[-1][1] : start] if results else ""
        if (
            results
            and len(between) <= 9
            and (link := _LINK.match(between))
            and (not link[1] or link[1] in _LINKS)
        ):
            results[-1] = (results[-1][0], end)
        else:
            results.append((start, end))
    return results


def find_role(sentence: str) -> CharSpan | None:
    """Return the first word for a person's role: a trade, a group of people."""
    for word, spot in split_words(sentence):
        small = word.lower()
        if small in _PEOPLE or (len(small) > 5 and small.endswith(_ROLE_ENDINGS)):
            return spot
    return None


def split_words(sentence: str) -> list[tuple[str, CharSpan]]:
    """Return all words of a sentence with their places."""
    return [(match[0], match.span()) for match in _WORD.finditer(sentence)]


def _is_number(word: str) -> bool:
    return word[0].isdecimal() or word.lower() in _NUMBER_WORDS


def _is_time(word: str) -> bool:
    if word[0].isdecimal():
        return (
            # Years from 1000 on: other numbers of four digits are counts.
            (len(word) == 4 and word[:2] in _CENTURIES and word.isdecimal())
            or (":" in word and len(word) < 6)
            or _is_clock(word)
        )
    small = word.lower()
    # `May` and `may`: only the capital makes the month.
    return (small in _DATES and (word[0].isupper() or small in _SMALL_MONTHS)) or small in _PERIODS


def _find_years_of_eras(words: list[tuple[str, CharSpan]]) -> Iterator[CharSpan]:
    """Find `44 BC`, `9.000 BP`, `im Jahr 9 v. Chr.`."""
    for at, (word, (start, _)) in enumerate(words):
        for era, (_, end) in words[at + 1 : at + 1 + _ERA_DISTANCE] if word[0].isdecimal() else ():
            if era in _ERAS:
                yield start, end


def _is_clock(word: str) -> bool:
    hour, _, minute = word.partition(".")
    return len(minute) == 2 and hour.isdecimal() and len(hour) <= 2 and minute.isdecimal() and minute < "60"


def _find_measures(words: list[tuple[str, CharSpan]], kind: str) -> Iterator[CharSpan]:
    """Return numbers followed by a unit of a kind, with at most one word between."""
    for at, (word, (start, _)) in enumerate(words):
        if (
            word in _CURRENCY_SIGNS
            and kind == "money"
            and at + 1 < len(words)
            and _is_number(words[at + 1][0])
        ):
            yield start, words[at + 1][1][1]
        if not _is_number(word):
            continue
        others = 0
        for unit, (_, end) in words[at + 1 : at + 1 + _UNIT_DISTANCE]:
            small = unit.lower()
            if kind in _MEASURES_OF.get(small, ()):
                yield start, end
                break
            if small not in _JOINS and not _is_number(unit):
                others += 1
                if others > 1:
                    break


def _find_ages(sentence: str, words: list[tuple[str, CharSpan]]) -> Iterator[CharSpan]:
    """Find ages: `Volk, 58, won`, `he was 58.`, `aged 51`, `9,600 years old`, `at the age of four`."""
    for at, (word, (start, end)) in enumerate(words):
        small = word.lower()
        if small in _AGES or (
            word.isdecimal()
            and len(word) <= 3
            and at
            and sentence[end : end + 1] in ",."
            and (sentence[start - 2 : start] == ", " or words[at - 1][0].lower() in _COPULAS)
        ):
            yield start, end


def _find_speeds(words: list[tuple[str, CharSpan]]) -> Iterator[CharSpan]:
    for (word, (start, _)), (other, (_, end)) in pairwise(words):
        if word.lower() in _PER and other.lower() in _CLOCK:
            yield start, end
    yield from (spot for word, spot in words if word.lower() in _SPEEDS)


def _find_places(words: list[tuple[str, CharSpan]], is_plain: bool) -> Iterator[CharSpan]:
    """Find `in Tolvik`, `off the coast of Velmora`; plain: `in a former swimming pool`."""
    for at, (word, (start, _)) in enumerate(words):
        small = word.lower()
        following = words[at + 1 : at + 5]
        if is_plain:
            if small in _PLAIN_PLACES and len(following) > 1 and following[0][0].lower() in _PLAIN_ARTICLES:
                yield start, following[1][1][1]
        elif small in _PLACES and not (at and words[at - 1][0].lower() in _NO_PLACE):
            for other, (_, end) in following:
                if other[0].isupper():
                    yield start, end
                    break
