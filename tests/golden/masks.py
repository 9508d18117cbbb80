"""What differs in each run and proves nothing is replaced; numbers are rounded for the second look."""

from __future__ import annotations

import re
from collections import Counter

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
FLOAT = re.compile(r"-?\b\d+\.\d+(?:e[+-]?\d+)?|-?\b\d+e[+-]?\d+")
DROPPED = frozenset({"content-length", "date", "x-request-id"})
DIGITS = 6
"Significant digits of the second look."

_RULES = [
    (re.compile(r'("(?:took|took_ms)": ?)[0-9.]+'), r"\g<1>0"),
    (re.compile(r'("(?:request_id|entry_salt|variant_salt|subject)": ?)"[^"]*"'), r'\g<1>"<random>"'),
    (
        re.compile(
            r'("(?:access_token|refresh_token|client_secret|registration_access_token|client_id)": ?)"[^"]*"'
        ),
        r'\g<1>"<random>"',
    ),
    (re.compile(r"([?&](?:code|request|client_id|ticket)=)[^&\"'\s]+"), r"\g<1><random>"),
    (re.compile(r'(<input type="hidden" name="[^"]*" value=")[^"]*'), r"\g<1><random>"),
    (re.compile(r"\bk[ps]k_[a-z]+_[A-Za-z0-9_-]{16,}"), "<key>"),
    (re.compile(r"\bkey-[0-9a-f]{10}\b"), "<key id>"),
    (re.compile(r"(\bk[ps]k_[a-z]+_\.\.\.)[A-Za-z0-9_-]{4}"), r"\g<1><end>"),
    (re.compile(r"nonce(-|=\")[A-Za-z0-9+/_=-]{8,}"), r"nonce\g<1><random>"),
]
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?")
_MILLISECONDS = re.compile(r"\b1[78]\d{11}\b")


class Masks:
    """Replaces what was drawn; a drawn UUID keeps one name for the whole recording."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: Counter[str] = Counter()

    def know(self, *fixed: str) -> None:
        """Leave UUIDs that the requests themselves contain as they are."""
        self._names.update((name, name) for name in fixed)

    def apply(self, text: str, label: str) -> str:
        """Mask one text of the answer with a label."""
        for pattern, instead in _RULES:
            text = pattern.sub(instead, text)
        return UUID.sub(lambda match: self._named(match[0], label), text)

    def _named(self, drawn: str, label: str) -> str:
        if drawn not in self._names:
            self._counts[label] += 1
            number = f" {self._counts[label]}" if self._counts[label] > 1 else ""
            self._names[drawn] = f"<uuid of {label}{number}>"
        return self._names[drawn]


def mask_moments(text: str) -> str:
    """Mask moments of the system clock."""
    return _MILLISECONDS.sub("<ms>", _MOMENT.sub("<moment>", text))


def round_numbers(text: str) -> str:
    """Write every fraction with six significant digits."""
    return FLOAT.sub(lambda match: f"{float(match[0]):.{DIGITS}g}", text)
