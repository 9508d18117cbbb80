"""The comparison of a text in a filter with a value in a record: numbers, moments, equality and ranges.

Functions take one value; columns apply the same functions once for each distinct value. Numbers are compared as
doubles. Moments are milliseconds since 1970. A shortened moment is the whole period it names, so
`[2024-01 TO 2024-02]` ends with the last millisecond of February.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

Scalar = str | bool | int | float
"A JSON value that is neither object, array nor null."

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_LONGEST_NUMBER = 400
_MOMENT = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"\s?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)?)?)?)?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
_MINUTE_MS = 60_000
_DAY_MS = 86_400_000


def number_of(value: object) -> float | None:
    """Return the number of a JSON number or a numeric text; None for booleans and other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        # An int of JSON may be larger than any double.
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    # A pattern and not `float()` alone, which also takes blanks, `1_000`, `inf` and `nan`.
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def period_of(text: str) -> tuple[int, int] | None:
    """Return the first and last millisecond of a year, month, day or time; without a zone it is UTC.

    Units:
        milliseconds since 1970
    """
    # Bounded before the pattern runs, as any text of a record may come here.
    match = _MOMENT.fullmatch(text) if len(text) <= 40 else None
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        at = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=timezone.utc,
        )
        start = (at - _EPOCH) // _MS
        if day is None:
            after = at.replace(year=at.year + 1) if month is None else _next_month(at)
            return start, (after - _EPOCH) // _MS - 1
    # The year after 9999 can't be represented.
    except (ValueError, OverflowError):
        return _last_period(year, month) if day is None else None
    # An offset east of UTC means that the same moment is earlier in UTC.
    start -= _offset_ms(zone)
    if hour is None:
        return start, start + _DAY_MS - 1
    if second is None:
        return start, start + _MINUTE_MS - 1
    if fraction is None:
        return start, start + 999
    # Digits beyond milliseconds are cut off, not rounded into the next second.
    start += int(fraction[:3].ljust(3, "0"))
    return start, start


def _next_month(at: datetime) -> datetime:
    return at.replace(year=at.year + 1, month=1) if at.month == 12 else at.replace(month=at.month + 1)


def _last_period(year: str, month: str | None) -> tuple[int, int] | None:
    """Return the period of the year 9999 or its December, whose end `datetime` can't represent."""
    if year != "9999" or month not in (None, "12"):
        return None
    start = (datetime(9999, int(month or 1), 1, tzinfo=timezone.utc) - _EPOCH) // _MS
    return start, (datetime(9999, 12, 31, tzinfo=timezone.utc) - _EPOCH) // _MS + _DAY_MS - 1


def _offset_ms(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if zone[0] == "-" else minutes) * _MINUTE_MS


def moment_of(value: object) -> int | None:
    """Return the first millisecond of a date or time in a record."""
    period = period_of(value) if isinstance(value, str) else None
    return period[0] if period else None


def equals_text(value: Scalar, text: str) -> bool:
    """Return whether a value matches `field:text`: exact for texts, by value for numbers and booleans."""
    if isinstance(value, str):
        return value == text
    # A bool is an int in Python: true would otherwise equal 1.
    if isinstance(value, bool):
        return text.lower() == ("true" if value else "false")
    number = number_of(value)
    return number is not None and number == number_of(text)


class Measure(Enum):
    """The comparison of the ends of a range."""

    NUMBER = "number"
    MOMENT = "moment"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The two parsed ends of a range. An open end is None.

    Numbers apply to JSON numbers and to numeric texts; moments to texts that are dates or times; texts
    to texts, by code point.
    """

    measure: Measure
    low: float | str | None
    high: float | str | None
    include_low: bool
    include_high: bool

    @classmethod
    def of(
        cls,
        low: str | None,
        high: str | None,
        include_low: bool,
        include_high: bool,
        *,
        moments: bool = False,
    ) -> Bounds:
        """Parse both ends: as moments in a date field, else as the most specific kind that fits both ends."""
        given = [end for end in (low, high) if end is not None]
        # `2024` is a number and a year: only a date field, or the other end, makes it a year.
        if not moments and all(number_of(end) is not None for end in given):
            return cls(Measure.NUMBER, number_of(low), number_of(high), include_low, include_high)
        if given and all(period_of(end) is not None for end in given):
            return cls._moments(low, high, include_low, include_high)
        return cls(Measure.TEXT, low, high, include_low, include_high)

    @classmethod
    def period(cls, text: str) -> Bounds | None:
        """Return `published_at:2024-05` as the range of that month; None when the text is no moment."""
        period = period_of(text)
        return cls(Measure.MOMENT, period[0], period[1], True, True) if period else None

    @classmethod
    def _moments(cls, low: str | None, high: str | None, include_low: bool, include_high: bool) -> Bounds:
        first = period_of(low) if low is not None else None
        last = period_of(high) if high is not None else None
        return cls(
            Measure.MOMENT,
            # An excluded period is left out as a whole: after 2024 begins with 2025.
            None if first is None else (first[0] if include_low else first[1] + 1),
            None if last is None else (last[1] if include_high else last[0] - 1),
            True,
            True,
        )

    def hold(self, value: Scalar) -> bool:
        """Return whether a value is within the bounds."""
        # A bool is an int in Python, and would be within [0 TO 1].
        if isinstance(value, bool):
            return False
        if self.measure is Measure.TEXT:
            return isinstance(value, str) and self._between(value)
        read = number_of(value) if self.measure is Measure.NUMBER else moment_of(value)
        return read is not None and self._between(read)

    def _between(self, value: float | str) -> bool:
        low = self.low
        high = self.high
        above = low is None or value > low or (self.include_low and value == low)  # type: ignore[operator]
        return above and (high is None or value < high or (self.include_high and value == high))  # type: ignore[operator]
