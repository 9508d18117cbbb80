"""The pages of products that were asked lately, cut into paragraphs and their words."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.language.analysis import Analyzers
from actors.retrieval.paragraphs.paragraph_scorer import AnalyzedParagraph
from actors.retrieval.paragraphs.paragraph_splitter import Paragraph, split_paragraphs

MAX_PAGES = 2_000
"Pages that are held."
_READ_FOR_LANGUAGE = 600


@dataclass(frozen=True, slots=True)
class AnalyzedPage:
    """A page cut into paragraphs."""

    html: str
    language: str
    paragraphs: tuple[Paragraph, ...]
    analyzed: tuple[AnalyzedParagraph, ...]


class PageCache:
    """The pages that were asked lately, cut into paragraphs. One thread at a time."""

    def __init__(self) -> None:
        self.analyzers = Analyzers()
        self._held: OrderedDict[int, AnalyzedPage] = OrderedDict()

    def get(self, row: int, product: Mapping[str, Any]) -> AnalyzedPage:
        """Give the page of a product, cut once for as long as it stays the same."""
        html = product.get("html") or ""
        held = self._held.pop(row, None)
        if held is None or held.html != html:
            held = self._cut(html, product)
        self._held[row] = held
        while len(self._held) > MAX_PAGES:
            self._held.popitem(last=False)
        return held

    def _cut(self, html: str, product: Mapping[str, Any]) -> AnalyzedPage:
        found = tuple(split_paragraphs(html))
        text = " ".join(paragraph.text for paragraph in found[:5])[:_READ_FOR_LANGUAGE]
        language = str(product.get("language") or self.analyzers.detect_language(text))[:2].lower()
        analyzer = self.analyzers.get(language)
        title = tuple(analyzer.terms(str(product.get("title") or "")))
        weighed = tuple(
            AnalyzedParagraph(
                paragraph.text,
                tuple(analyzer.terms(paragraph.text)),
                frozenset((*title, *analyzer.terms(paragraph.heading))),
            )
            for paragraph in found
        )
        return AnalyzedPage(html, language, found, weighed)
