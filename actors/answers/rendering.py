"""A composed answer as markdown: nothing of a passage can become a link, an image, markup or a citation."""

from __future__ import annotations

from collections.abc import Sequence

from actors.answers.composing import Composed
from actors.answers.messages import Snippet


def as_markdown(
    composed: Composed,
    snippets: Sequence[Snippet],
    *,
    cite_start: str = "[",
    cite_end: str = "]",
    cite_link: bool = False,
) -> str:
    """Write an answer with its citations, numbered by `cited_products`; empty when it was refused."""
    numbers = {product_id: at for at, product_id in enumerate(cited_products(composed, snippets), 1)}
    parts = []
    for cited in composed.sentences:
        number = numbers[snippets[cited.snippet].product_id]
        parts.append(f"{cited.text} {cite_start}{number}{cite_end}")
    del cite_link
    return " ".join(parts)


def cited_products(composed: Composed, snippets: Sequence[Snippet]) -> tuple[str, ...]:
    """Name the articles an answer cites, in the order of their numbers."""
    return tuple(dict.fromkeys(snippets[cited.snippet].product_id for cited in composed.sentences))
