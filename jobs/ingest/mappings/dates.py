"""Dates as people write them: `09.12.2010 19:23`, `12/9/2010`, `Friday, January 4, 2019`, `4. Januar 2019`.

Names of months are known in English, German, French, Spanish, Italian, Dutch and Portuguese. A date of three numbers
is read only if the caller names the order of day and month, because `04/05/2019` has two meanings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Literal

DateOrder = Literal["day-first", "month-first"]
DATE_ORDERS: tuple[DateOrder, ...] = ("day-first", "month-first")

_MONTHS = [
    "january jan januar janvier janv enero ene gennaio gen januari janeiro jaen",
    "february feb februar fevrier fevr febrero febbraio febr februari fevereiro fev",
    "march mar marz maerz mars marzo maart mrt marco",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag mei maio",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug aout agosto ago augustus",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dic dicembre dezembro",
]
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_CLOCK = (
    r"(?:[ ,T]{1,3}(?:at |um |a |om )?(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d{1,9})?)?"
    r" ?(?P<half>am|pm)?)?"
)
_NUMBERS = re.compile(
    r"(?P<first>\d{1,2})(?P<sign>[./-]) ?(?P<other>\d{1,2})(?P=sign) ?(?P<year>\d{4}|\d\d)" + _CLOCK,
    re.IGNORECASE,
)
_WEEKDAY = re.compile(r"^[^\W\d_]{2,20}\.?, ")
_DAY = r"(?P<day>\d{1,2})"
_MONTH = r"(?P<month>[^\W\d_]{3,12})"
_YEAR = r"(?P<year>\d{4})"
_WRITTEN = (
    re.compile(_MONTH + r"\.? " + _DAY + r"(?:st|nd|rd|th)?,? " + _YEAR + _CLOCK, re.IGNORECASE),
    re.compile(
        _DAY + r"(?:st|nd|rd|th|er|\.|º)? (?:de )?" + _MONTH + r"\.?,? (?:de )?" + _YEAR + _CLOCK,
        re.IGNORECASE,
    ),
)
# No date is longer, and the patterns are tried on every text of a column.
_LONGEST = 60
_CENTURY = 70
"Two digits of a year from which it belongs to the last century."


def parse_date(text: str, order: DateOrder) -> datetime | None:
    """Return the moment in UTC of a date of three numbers, None if it is not one.

    The year may have two digits; a time of day may follow.
    """
    match = _match_numbers(text)
    if match is None:
        return None
    first = int(match["first"])
    other = int(match["other"])
    day, month = (first, other) if order == "day-first" else (other, first)
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 1900 if year >= _CENTURY else 2000
    return _moment(year, month, day, match)


def parse_written_date(text: str) -> datetime | None:
    """Return the moment in UTC of a date with the name of its month, None if it is not one."""
    text = text.strip()
    if not 8 <= len(text) <= _LONGEST:
        return None
    text = _WEEKDAY.sub("", text, count=1)
    for pattern in _WRITTEN:
        match = pattern.fullmatch(text)
        month = _MONTH_NUMBERS.get(_plain(match["month"])) if match is not None else None
        if match is not None and month is not None:
            return _moment(int(match["year"]), month, int(match["day"]), match)
    return None


def detect_date_orders(texts: Iterable[str]) -> tuple[DateOrder, ...]:
    """Return the orders of day and month with which all texts are dates.

    Both are returned if no text decides, none if a text is no date.
    Points stand between numbers only where the day is first.
    """
    values = list(texts)
    matches = [_match_numbers(text) for text in values]
    if not values or any(match is None for match in matches):
        return ()
    fits = [order for order in DATE_ORDERS if all(parse_date(text, order) for text in values)]
    # With points, people write the day first.
    if any(match is not None and match["sign"] == "." for match in matches):
        fits = [order for order in fits if order == "day-first"]
    return tuple(fits)


def _match_numbers(text: str) -> re.Match[str] | None:
    text = text.strip()
    return _NUMBERS.fullmatch(text) if len(text) <= _LONGEST else None


def _moment(year: int, month: int, day: int, match: re.Match[str]) -> datetime | None:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        # 12 am is 0 o'clock and 12 pm is noon.
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    try:
        return datetime(year, month, day, tzinfo=timezone.utc) + timedelta(
            seconds=_seconds(hour, minute, second)
        )
    except (ValueError, OverflowError):
        return None


def _seconds(hour: int, minute: int, second: int) -> int:
    """Return the seconds of a time of day.

    Errors:
        ValueError: it is none
    """
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("no time of day")
    return (hour * 60 + minute) * 60 + second


def _plain(name: str) -> str:
    """Return a word in small letters without accents."""
    # `févr` and `fevr` are one name: NFKD splits a letter from its accent, which is then dropped.
    decomposed = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))
