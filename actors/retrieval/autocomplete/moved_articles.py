"""Titles as users type them: `Matrix, The (1999)` is `The Matrix (1999)`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

_ELIDED = ("'", "’")


def restore_article(title: str) -> str:
    """Move an article behind the title to its front; return any other text unchanged."""
    head, bracket, tail = title.partition(" (")
    name, comma, article = head.rpartition(", ")
    if not comma or not name or article.casefold().replace("’", "'") not in _articles():
        return title
    blank = "" if article.endswith(_ELIDED) else " "
    return f"{article}{blank}{name}{bracket}{tail}"


@cache
def _articles() -> frozenset[str]:
    text = (files("actors.retrieval.autocomplete") / "data" / "articles.toml").read_text("utf-8")
    return frozenset(article for articles in _toml(text).values() for article in articles)


def _toml(text: str) -> dict[str, Any]:
    try:
        import tomllib as toml  # 3.11 and later
    except ModuleNotFoundError:  # pragma: no cover
        import tomli as toml  # type: ignore[import-not-found,no-redef,unused-ignore]
    return toml.loads(text)
