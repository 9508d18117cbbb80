"""How a mistake in a filter is reported: one function, so that every message has the same shape."""

from __future__ import annotations

from cluster.errors import FilterSyntax

_SHOWN = 40


def syntax_error(kind: str, position: int, reason: str) -> FilterSyntax:
    """Make the error for a mistake of `kind` at the 0-based character `position`."""
    return FilterSyntax(f"{reason} (at character {position})", kind=kind, position=position, reason=reason)


def shift_error(error: FilterSyntax, offset: int) -> FilterSyntax:
    """Make the same error, `offset` characters further on: for a text that stands inside another."""
    return syntax_error(error.facts["kind"], error.facts["position"] + offset, error.facts["reason"])


def quote_text(text: str) -> str:
    """Quote a piece of the caller's text, shortened, for a message."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
