"""Spans of time as people write them: `90m`, `24h`, `7d`, `2w`."""

from __future__ import annotations

import re

from cluster.errors import Invalid

_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_span_ms(text: str) -> int:
    """Read a span of time: `90m`, `24h`, `7d`, `2w`.

    Errors:
        Invalid: not one
    """
    form = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    if form is None:
        raise Invalid(f"{text!r} is no span of time; write a number and m, h, d or w, as 24h")
    return int(form[1]) * _UNITS[form[2]]
