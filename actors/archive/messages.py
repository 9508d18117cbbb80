"""Requests to an archive and its replies: frozen values that cross processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """A search of passages for a question."""

    app_id: str
    question: str
    context: str = ""
    "Text on which the user works; it has little weight beside the question."
    rows: int = 10
    per_product: int = 2
    "Maximal number of passages of one article; 0: no limit."
    type: str | None = "article"
    "Only products of this type; None: of any."
    yearly_decay: float = 1.0
    "Factor on the score for every year of age; 1: age has no effect unless the question asks for news."
    exclude: tuple[str, ...] = ()
    "Product ids that are excluded."
    only: frozenset[str] | None = None
    "Product ids that are searched; None: all of them."
    snippet_words: int = 0
    "Words of a snippet, from the beginning of its passage on; 0: the passage."
    tiers: frozenset[str] = frozenset()
    """Tiers of the user. Locked articles of other tiers change nothing in the result, neither passages and their order
    nor scores and coverage."""
    teasers: int = 0
    "Number of locked articles that are named instead of the passages; 0: passages."


@dataclass(frozen=True, slots=True)
class ArticleTeaser:
    """A locked article that fits a question: title and address, and nothing of its text."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """One passage of a result."""

    product_id: str
    position: int
    "Number of the passage in its article, from 0; with `product_id` it names the passage."
    title: str
    child_title: str
    "Title of the passage's section; empty when it has none."
    authors: tuple[str, ...]
    published: str
    "As uploaded: a day or a time in ISO 8601; empty when unknown."
    url: str
    text: str
    "The passage, plain text, about 150 words."
    score: float
    "0 to 1, comparable within one result."
    licence: str
    "Empty when the record has none."
    child_id: str = ""
    start: int = 0
    "Where the passage begins in the article's text, in characters."
    lexical: float = 0.0
    "BM25 score, only roughly comparable over questions; 0 when the passage contains no word of the question."
    meaning: float = 0.0
    "Cosine of question and passage; 0 when it was not among the nearest."


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """Passages, best first."""

    snippets: tuple[Snippet, ...] = ()
    corpus: str = ""
    "Version of the searched library: equal as long as no article was added, changed or removed."
    coverage: float | None = None
    """How much of the question the best passage covers by its words, 0 to 1, comparable over questions.
    Below `UNANSWERED_BELOW` of the report, the passage hardly answers the question."""
    teasers: tuple[ArticleTeaser, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveArticle:
    """The article behind a passage, as text."""

    product_id: str
    title: str
    child_title: str
    "Title of the passage's section; empty when it has none."
    authors: tuple[str, ...]
    published: str
    url: str
    content: str
    "Plain text, sections under `## ` headings. Of very long articles only the section of the passage."
    licence: str
    corrected_at: str = ""
    "As uploaded; empty: it was never corrected."
    correction_note: str = ""
    is_article: bool = True
    "Agents read articles only; questions over REST read other products too."


@dataclass(frozen=True, slots=True)
class Citation:
    """What somebody took from an article: the article by id or address, and words by themselves or by digest."""

    product_id: str
    url: str = ""
    "Counts where `product_id` is empty."
    passage: str = ""
    "Quoted words; empty: only the article is cited."
    digest: str = ""
    "`passage_digest` of the words; counts where `passage` is empty."


@dataclass(frozen=True, slots=True)
class CitationState:
    """What became of a citation, see `actors.archive.citations`."""

    status: Literal["stands", "changed", "withdrawn", "unknown"]
    product_id: str
    title: str = ""
    url: str = ""
    passage: str = ""
    "Of a changed citation: the passage that now stands in the place of the quoted words; empty if there is none."
    corrected_at: str = ""
    correction_note: str = ""
