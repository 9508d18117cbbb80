"""Whether citations still stand: the words of a quoted passage against the present text of its article.

    stands      the article holds these words, or exists, where the citation names no words
    changed     the article does not hold these words (any more)
    withdrawn   the article left the archive
    unknown     the archive shows no such article: it never had it, or the article is locked for the user

A locked article answers as one that never was, and its text is never compared.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from actors.archive.messages import Citation, CitationState
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, canonical_address, find_sentence_spans
from cluster.access_tier import may_read
from cluster.errors import Invalid
from cluster.records.archive.article_revision import WITHDRAWN, ArticleRevision

_LEAST_SHARED = 0.3
"Share of the words of a passage that the passage in its place has at least."
_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
"Signs that keyboards and editors replace."
_INVISIBLE = dict.fromkeys(
    (0xAD, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065))
)
"Characters that the tools leave out of texts."
_HEADING = re.compile(r"^#{1,6}\s+", re.MULTILINE)
_WORD = re.compile(r"\w+")
_IS_CUT_BEFORE = re.compile(r"\w\Z|\d[.,]\Z")
_IS_CUT_AFTER = re.compile(r"\w|[.,]\d")
_TOKEN = re.compile(r"\S+")
_MOST_SENTENCES = 2_000
"Sentences of an article whose beginnings are compared with a digest: about 40,000 words."
_MOST_HASHED = 64 << 20
"Bytes of words that the digests of one check hash, about 0.1 s."
_MOST_COMPARED = 8 << 20
"Characters of articles that one check compares with quoted words, about 1 s."
_REFUSED_MATCH = 16
"Characters that take as long to compare as one match that is refused."
_FRAME = " \"'.\u2026"
"Signs at the ends of a quotation that are not part of it."


def check_citations(
    library: PassageIndex,
    revisions: Mapping[str, ArticleRevision],
    citations: Sequence[Citation],
    tiers: frozenset[str],
) -> tuple[CitationState, ...]:
    """Return the state of each citation, in order.

    Cost:
        50 us for a passage in an article of 500 words; the first address after a new snapshot reads every article
    """
    texts = _ComparedTexts()
    withdrawn = _WithdrawnAddresses(revisions, tiers)
    return tuple(_check_citation(library, withdrawn, citation, tiers, texts) for citation in citations)


@dataclass(frozen=True, slots=True)
class _WordSpans:
    """The words of a text, and where they end in it and where they are joined by single blanks."""

    text: str
    starts: list[int]
    ends: list[int]
    joined: str
    joined_ends: list[int]

    @classmethod
    def of(cls, text: str) -> _WordSpans:
        spans = [match.span() for match in _TOKEN.finditer(text)]
        words = [text[start:end] for start, end in spans]
        # The sum counts a blank behind each word; the blank is not part of the word.
        joined_ends = [end - 1 for end in accumulate(len(word) + 1 for word in words)]
        return cls(
            text, [start for start, _ in spans], [end for _, end in spans], " ".join(words), joined_ends
        )

    def join(self, start: int, count: int) -> str:
        """Return so many words from a position on, joined by single blanks; empty if there are not so many."""
        first = bisect_right(self.ends, start)
        last = first + count - 1
        if last >= len(self.ends):
            return ""
        # A position may be within a word: a sentence begins behind its quotation mark.
        begin = self.joined_ends[first] - (self.ends[first] - max(start, self.starts[first]))
        return self.joined[begin : self.joined_ends[last]]


class _ComparedTexts:
    """Forms of articles that one check compares, each made once."""

    def __init__(self) -> None:
        self._normalized: dict[str, str] = {}
        self._spans: dict[str, _WordSpans] = {}
        self._hashed = 0
        self._compared = 0

    def normalize(self, document: Document) -> str:
        """Return the compared form of title and text."""
        if document.product_id not in self._normalized:
            self._normalized[document.product_id] = _normalize(f"{document.title}\n{document.text}")
        return self._normalized[document.product_id]

    def count_compared(self, characters: int) -> None:
        """Count characters of articles that are compared with quoted words.

        Errors:
            Invalid: the citations of the check take too much work
        """
        self._compared += characters
        # Anybody may ask for a check, and all of its citations may quote one very long article.
        if self._compared > _MOST_COMPARED:
            raise Invalid("the articles of these citations are too long; send fewer citations")

    def has_digest(self, document: Document, digest: str) -> bool:
        """Return whether as many words from the beginning of any sentence have a digest.

        So a passage stands after another part of the article moved its borders.

        Errors:
            Invalid: the digests of the check take too much work
        """
        spans = self._spans.get(document.product_id)
        if spans is None:
            spans = self._spans[document.product_id] = _WordSpans.of(document.text.translate(_INVISIBLE))
        prefix, _, expected = digest.partition(":")
        sentences = find_sentence_spans(spans.text, 0, len(spans.text))
        for start, _, _ in islice(sentences, _MOST_SENTENCES):
            words = spans.join(start, int(prefix)).encode()
            if not words:
                return False
            self._hashed += len(words)
            # Anybody may ask for a check, and a long digest hashes most of an article from each of its sentences.
            if self._hashed > _MOST_HASHED:
                raise Invalid("the digests of these citations are too long; send fewer, or shorter passages")
            if hashlib.sha256(words).hexdigest() == expected:
                return True
        return False


class _WithdrawnAddresses:
    """The withdrawn articles of one check that the user may know; the first look-up reads all addresses."""

    def __init__(self, revisions: Mapping[str, ArticleRevision], tiers: frozenset[str]) -> None:
        self.revisions = revisions
        self._tiers = tiers
        self._products: dict[str, str] | None = None

    def find(self, address: str) -> str:
        """Return the product of a canonical address; empty if there is none."""
        if self._products is None:
            self._products = {}
            # A copy, since the follower's thread may add revisions meanwhile.
            for product_id, revision in list(self.revisions.items()):
                if revision.status == WITHDRAWN and may_read(revision.access, self._tiers):
                    self._products.setdefault(canonical_address(revision.url), product_id)
        return self._products.get(address, "")


def _check_citation(
    library: PassageIndex,
    withdrawn: _WithdrawnAddresses,
    citation: Citation,
    tiers: frozenset[str],
    texts: _ComparedTexts,
) -> CitationState:
    address = "" if citation.product_id else canonical_address(citation.url)
    product_id = citation.product_id
    if address:
        product_id = library.find_address(address, tiers) or withdrawn.find(address)
    # For all tiers: a locked document must be seen here, to answer as one that never was.
    document = library.find(product_id) if product_id else None
    if document is None or not document.is_article:
        revision = withdrawn.revisions.get(product_id)
        # A locked article that was withdrawn stays unknown too: the answer must not show that it existed.
        if revision is None or revision.status != WITHDRAWN or not may_read(revision.access, tiers):
            return CitationState("unknown", citation.product_id)
        return CitationState("withdrawn", product_id, revision.title, revision.url)
    # The id of the request and not of the document: an address must not reveal its product.
    if not may_read(document.access, tiers):
        return CitationState("unknown", citation.product_id)
    stands = _holds(document, citation, texts)
    return CitationState(
        "stands" if stands else "changed",
        document.product_id,
        document.title,
        document.url,
        "" if stands else _find_successor(document, citation.passage, texts),
        document.corrected_at,
        document.correction_note,
    )


def _holds(document: Document, citation: Citation, texts: _ComparedTexts) -> bool:
    """Return whether a document holds the words of a citation."""
    words = _normalize(citation.passage)
    # A passage of dots and quotation marks alone names no words either.
    if not words:
        return not citation.digest or texts.has_digest(document, citation.digest)
    return _has_words(texts, texts.normalize(document), words)


def _has_words(texts: _ComparedTexts, text: str, words: str) -> bool:
    """Return whether a text has words, none of them cut: "1 million" is not in "11 million", nor "5 %" in "2.5 %"."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not (
            _IS_CUT_BEFORE.search(text[max(0, start - 2) : start]) or _IS_CUT_AFTER.match(text[end : end + 2])
        ):
            return True
        texts.count_compared(_REFUSED_MATCH)
        # From the next character: a match may overlap the one that was refused.
        start = text.find(words, start + 1)
    return False


def _normalize(text: str) -> str:
    """Return a text without differences that readers do not see: blanks, case, quotation marks, dashes, headings."""
    plain = unicodedata.normalize("NFKC", _HEADING.sub("", text).translate(_SPELLINGS | _INVISIBLE))
    return " ".join(plain.casefold().split()).strip(_FRAME)


def _find_successor(document: Document, passage: str, texts: _ComparedTexts) -> str:
    """Return the passage with the most words of an earlier one; empty if none has enough."""
    words = Counter(_WORD.findall(passage.casefold()))
    if not words:
        return ""
    texts.count_compared(len(document.text))
    parts = [document.text[part.start : part.end] for part in document.passages]
    shared = [sum((words & Counter(_WORD.findall(text.casefold()))).values()) for text in parts]
    best = max(range(len(parts)), key=shared.__getitem__)
    return parts[best] if shared[best] >= _LEAST_SHARED * words.total() else ""
