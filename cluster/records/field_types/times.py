"""Parse and format times: the text that callers may send, and its two stored forms.

A moment is ISO 8601: `2026-03-02T09:15:30.250+01:00`. Seconds, fraction and offset may be absent; no offset
means UTC. A space may replace the `T`. A leap second counts as the first moment of the next minute.
A span is a number with `m`, `h`, `d` or `w`: `90m`, `24h`, `7d`, `2w`.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from cluster.errors import Invalid

LATEST_MS = 253_402_300_799_999
"The end of the year 9999; later times can't be written."
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  everything in this file is UTC without saying so


def moment_ms(text: str) -> int:
    """Read a moment as milliseconds since 1970.

    Errors:
        ValueError: not a moment
    """
    at, fraction = _read(text)
    gone = at - _EPOCH
    return (gone.days * 86_400 + gone.seconds) * 1000 + int((fraction + "000")[:3])


def utc_text(text: str) -> str:
    """Write a day as it is and a moment in UTC with `Z`, its fraction of a second untouched.

    Errors:
        ValueError: neither a day nor a moment
    """
    if len(text) == 10 and _DAY.fullmatch(text):
        datetime.fromisoformat(text)
        return text
    at, fraction = _read(text)
    written = at.isoformat() + (f".{fraction}Z" if fraction else "Z")
    return text if text == written else written


def is_stored_moment(text: str) -> bool:
    """Return whether a text is a valid moment in the stored form of interactions (UTC, milliseconds, `Z`)."""
    return len(text) == 24 and text[23] == "Z" and text[10] == "T" and text[19] == "." and text[17] != "6"


def _read(text: str) -> tuple[datetime, str]:
    """Split a moment into its second in UTC and the digits of its fraction."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("not a moment")
    day, minute, second, fraction, offset = match.groups()
    try:
        # `datetime` has no second 60: a leap second becomes the one after it.
        if second == "60":
            at = datetime.fromisoformat(f"{day}T{minute}:59") + timedelta(seconds=1)
        else:
            at = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}")
        if offset and offset not in "Zz":
            at -= _offset(offset)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None
    return at, fraction or ""


def _offset(text: str) -> timedelta:
    digits = text[1:].replace(":", "")
    hours = int(digits[:2])
    minutes = int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError("not an offset")
    size = timedelta(hours=hours, minutes=minutes)
    return size if text[0] == "+" else -size


def moment_text(at_ms: int) -> str:
    """Write milliseconds since 1970 in the form interactions are stored in."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds") + "Z"


_LONGEST_SPAN_MS = 50 * 365 * 86_400_000
"No data are older; a longer span would begin before 1970, or before the calendar."
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_span_ms(text: str) -> int:
    """Read a span of time: `90m`, `24h`, `7d`, `2w`; one of more than 50 years counts as 50 years.

    Errors:
        Invalid: not one
    """
    form = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    if form is None:
        raise Invalid(f"{text!r} is no span of time; write a number and m, h, d or w, as 24h")
    return min(int(form[1]) * _UNITS[form[2]], _LONGEST_SPAN_MS)
