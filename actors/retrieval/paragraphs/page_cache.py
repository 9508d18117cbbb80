"""The pages of products that were asked lately, cut into paragraphs and their words."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.language.analysis import Analyzers
from actors.retrieval.paragraphs.paragraph_scorer import Weighed
from actors.retrieval.paragraphs.paragraph_splitter import Paragraph, paragraphs

MOST_HELD = 2_000
"Pages that are held."
_READ_FOR_LANGUAGE = 600


@dataclass(frozen=True, slots=True)
class Page:
    """A page cut into paragraphs."""

    html: str
    language: str
    paragraphs: tuple[Paragraph, ...]
    weighed: tuple[Weighed, ...]


class Pages:
    """The pages that were asked lately, cut into paragraphs. One thread at a time."""

    def __init__(self) -> None:
        self.analyzers = Analyzers()
        self._held: OrderedDict[int, Page] = OrderedDict()

    def of(self, row: int, product: Mapping[str, Any]) -> Page:
        """Give the page of a product, cut once for as long as it stays the same."""
        html = product.get("html") or ""
        held = self._held.pop(row, None)
        if held is None or held.html != html:
            held = self._cut(html, product)
        self._held[row] = held
        while len(self._held) > MOST_HELD:
            self._held.popitem(last=False)
        return held

    def _cut(self, html: str, product: Mapping[str, Any]) -> Page:
        found = tuple(paragraphs(html))
        text = " ".join(paragraph.text for paragraph in found[:5])[:_READ_FOR_LANGUAGE]
        language = str(product.get("language") or self.analyzers.guess(text))[:2].lower()
        analyzer = self.analyzers.of(language)
        title = tuple(analyzer.terms(str(product.get("title") or "")))
        weighed = tuple(
            Weighed(
                paragraph.text,
                tuple(analyzer.terms(paragraph.text)),
                frozenset((*title, *analyzer.terms(paragraph.heading))),
            )
            for paragraph in found
        )
        return Page(html, language, found, weighed)
