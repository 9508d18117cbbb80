"""Find the time that a question asks about: news, or a day, month or year. Other questions ignore dates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType

from actors.archive.segment import UNKNOWN_DAY
from actors.language.folding import fold_text
from actors.language.language_data import any_of, collect_words, compile_pattern, load_languages

_EPOCH = date(1970, 1, 1).toordinal()

_RECENT = compile_pattern(rf"\b{any_of(collect_words(lambda data: data.calendar.recent))}\b")

_MONTH_NUMBER = MappingProxyType(
    {
        fold_text(month): number
        for data in load_languages().values()
        for number, month in enumerate(data.calendar.months, 1)
    }
)

_NAMES = any_of(sorted(collect_words(lambda data: data.calendar.months), key=len, reverse=True))

_DAY_ENDINGS = any_of(collect_words(lambda data: data.calendar.day_endings))

_BEFORE_MONTH = any_of(collect_words(lambda data: data.calendar.before_month))

_BEFORE_YEAR = any_of(collect_words(lambda data: data.calendar.before_year))

_ISO = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")

_DAY_FIRST = compile_pattern(
    rf"\b(\d{{1,2}})(?:{_DAY_ENDINGS}|\.)? (?:{_BEFORE_MONTH} )?({_NAMES})(?:,? (?:{_BEFORE_YEAR} )?((?:19|20)\d\d))\b"
)

_MONTH_FIRST = compile_pattern(
    rf"\b({_NAMES}) (?:(\d{{1,2}}){_DAY_ENDINGS}?,? )?(?:{_BEFORE_YEAR} )?((?:19|20)\d\d)\b"
)

_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")

HALF_LIFE_DAYS = 30.0

"Of freshness, counted from the newest candidate."


@dataclass(frozen=True, slots=True)
class DateRange:
    """The period to which a question refers."""

    recent: bool = False
    first: int = UNKNOWN_DAY
    "First day since 1970 of the period; UNKNOWN_DAY when the question names none."
    last: int = UNKNOWN_DAY


def parse_date_range(question: str) -> DateRange:
    """Return the period to which a question refers."""
    # Each pattern needs a year of these centuries, so most questions skip the four searches.
    named = _parse_date(question) if "19" in question or "20" in question else None
    if named is not None:
        return DateRange(first=named[0].toordinal() - _EPOCH, last=named[1].toordinal() - _EPOCH)
    return DateRange(recent=bool(_RECENT.search(question)))


def _parse_date(question: str) -> tuple[date, date] | None:
    # From the most exact form to the least: a year occurs in all of them.
    if match := _ISO.search(question):
        return _date_range(int(match[1]), int(match[2]), int(match[3] or 0))
    if match := _DAY_FIRST.search(question):
        return _date_range(int(match[3]), _MONTH_NUMBER[fold_text(match[2])], int(match[1]))
    if match := _MONTH_FIRST.search(question):
        return _date_range(int(match[3]), _MONTH_NUMBER[fold_text(match[1])], int(match[2] or 0))
    if match := _YEAR.search(question):
        return _date_range(int(match[1]), 0, 0)
    return None


def _date_range(year: int, month: int, day: int) -> tuple[date, date] | None:
    try:
        if not month:
            return date(year, 1, 1), date(year, 12, 31)
        if not day:
            following = date(year + month // 12, month % 12 + 1, 1)
            return date(year, month, 1), following - timedelta(days=1)
        return date(year, month, day), date(year, month, day)
    except ValueError:
        return None
