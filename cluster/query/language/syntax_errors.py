"""The errors for mistakes in filters, so that every message has the same form."""

from __future__ import annotations

from cluster.errors import FilterSyntax

_SHOWN = 40


def syntax_error(kind: str, position: int, reason: str) -> FilterSyntax:
    """Return the error for a mistake of `kind` at the 0-based character `position`."""
    return FilterSyntax(f"{reason} (at character {position})", kind=kind, position=position, reason=reason)


def shift_error(error: FilterSyntax, offset: int) -> FilterSyntax:
    """Return the same error, `offset` characters further on: for a text within another."""
    return syntax_error(error.facts["kind"], error.facts["position"] + offset, error.facts["reason"])


def quote_text(text: str) -> str:
    """Return a part of the client's text, quoted and shortened, for a message."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
