"""A cache of product pages as analyzed paragraphs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.language.analysis import Analyzers
from actors.retrieval.paragraphs.paragraph_scorer import AnalyzedParagraph
from actors.retrieval.paragraphs.paragraph_splitter import Paragraph, split_paragraphs

MAX_PAGES = 2_000
"Pages in memory."
_READ_FOR_LANGUAGE = 600


@dataclass(frozen=True, slots=True)
class AnalyzedPage:
    """A page as paragraphs and their terms."""

    html: str
    language: str
    paragraphs: tuple[Paragraph, ...]
    analyzed: tuple[AnalyzedParagraph, ...]


class PageCache:
    """Keeps the most recently used pages as analyzed paragraphs. One thread at a time."""

    def __init__(self) -> None:
        self.analyzers = Analyzers()
        self._pages: OrderedDict[int, AnalyzedPage] = OrderedDict()

    def get(self, row: int, product: Mapping[str, Any]) -> AnalyzedPage:
        """Return the page of a product; it is analyzed again only if its HTML changed."""
        html = product.get("html") or ""
        page = self._pages.pop(row, None)
        if page is None or page.html != html:
            page = self._analyze(html, product)
        self._pages[row] = page
        while len(self._pages) > MAX_PAGES:
            self._pages.popitem(last=False)
        return page

    def _analyze(self, html: str, product: Mapping[str, Any]) -> AnalyzedPage:
        found = tuple(split_paragraphs(html))
        text = " ".join(paragraph.text for paragraph in found[:5])[:_READ_FOR_LANGUAGE]
        language = str(product.get("language") or self.analyzers.detect_language(text))[:2].lower()
        analyzer = self.analyzers.get(language)
        title = tuple(analyzer.terms(str(product.get("title") or "")))
        analyzed = tuple(
            AnalyzedParagraph(
                paragraph.text,
                tuple(analyzer.terms(paragraph.text)),
                frozenset((*title, *analyzer.terms(paragraph.heading))),
            )
            for paragraph in found
        )
        return AnalyzedPage(html, language, found, analyzed)
