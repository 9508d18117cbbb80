"""Questions to an archive and what it holds about them: frozen values made for the crossing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """What somebody wants to know."""

    app_id: str
    question: str
    context: str = ""
    "What they are working on; used lightly, it never outweighs the question."
    rows: int = 10
    per_product: int = 2
    "Passages of one article in a result; 0: any number."
    type: str | None = "article"
    "Only products of this type; None: of any."
    yearly_decay: float = 1.0
    "Factor on the score for every year of age; 1: age does not matter unless the question asks for news."
    exclude: tuple[str, ...] = ()
    "Product ids that must not come."
    only: frozenset[str] | None = None
    "Product ids among which to look; None: all of them."


@dataclass(frozen=True, slots=True)
class Snippet:
    """One passage that was found."""

    product_id: str
    position: int
    "Number of the passage in its article, from 0; with `product_id` it names the passage."
    title: str
    child_title: str
    "Title of the section the passage stands in; empty when it has none."
    authors: tuple[str, ...]
    published: str
    "As it was uploaded: a day or a moment in ISO 8601; empty when unknown."
    url: str
    text: str
    "The passage, plain text, about 150 words."
    score: float
    "0 to 1, comparable within one result."
    licence: str
    "Empty when the archive says nothing of it."
    child_id: str = ""
    start: int = 0
    "Where the passage begins in the article's text, in characters."
    lexical: float = 0.0
    "BM25 score, comparable over questions only roughly; 0 when no word of the question stands in it."
    meaning: float = 0.0
    "Cosine of question and passage; 0 when it was not among the nearest."


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """Passages, best first."""

    snippets: tuple[Snippet, ...] = ()
    corpus: str = ""
    "Version of what was searched: equal as long as no article came, changed or went."
    coverage: float | None = None
    """How much of the question the best passage holds by its words, 0 to 1, comparable over questions; below
    `UNANSWERED_BELOW` of the report it is hardly an answer."""


@dataclass(frozen=True, slots=True)
class ArchiveArticle:
    """The article behind a passage, as text."""

    product_id: str
    title: str
    child_title: str
    "Title of the section the asked passage stands in; empty when it has none."
    authors: tuple[str, ...]
    published: str
    url: str
    content: str
    "Plain text, sections under `## ` headings. Of very long articles the section the passage stands in."
    licence: str
