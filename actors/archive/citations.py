"""Whether citations still stand: the words of a quoted passage against the present text of its article.

    stands      the article holds these words, or exists, where the citation names no words
    changed     the article does not hold these words (any more)
    withdrawn   the article left the archive
    unknown     the archive shows no such article: it never had it, or the article is locked for the user

A locked article answers as one that never was, and its text is never compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from actors.archive.library import PassageLibrary
from actors.archive.messages import Citation, CitationState
from actors.archive.passages import Document, canonical_address, split_sentences
from cluster.access_tier import may_read
from cluster.records.archive.article_revision import WITHDRAWN, ArticleRevision, passage_digest

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
_FRAME = " \"'.\u2026"
"Signs at the ends of a quotation that are not part of it."


def check_citations(
    library: PassageLibrary,
    revisions: Mapping[str, ArticleRevision],
    citations: Sequence[Citation],
    tiers: frozenset[str],
) -> tuple[CitationState, ...]:
    """Return the state of each citation, in order.

    Cost:
        50 us for a passage in an article of 500 words; the first address after a new snapshot reads every article
    """
    # Compared form by product: several citations of one article normalise it once.
    texts: dict[str, str] = {}
    return tuple(_check_citation(library, revisions, citation, tiers, texts) for citation in citations)


def _check_citation(
    library: PassageLibrary,
    revisions: Mapping[str, ArticleRevision],
    citation: Citation,
    tiers: frozenset[str],
    texts: dict[str, str],
) -> CitationState:
    product_id = citation.product_id or _find_address(library, revisions, citation.url)
    document = library.find(product_id) if product_id else None
    if document is None:
        revision = revisions.get(product_id)
        # A locked article that was withdrawn stays unknown too: the answer must not show that it existed.
        if revision is None or revision.status != WITHDRAWN or not may_read(revision.access, tiers):
            return CitationState("unknown", citation.product_id)
        return CitationState("withdrawn", product_id, revision.title, revision.url)
    if not may_read(document.access, tiers):
        return CitationState("unknown", citation.product_id)
    stands = _holds(document, citation, texts)
    return CitationState(
        "stands" if stands else "changed",
        document.product_id,
        document.title,
        document.url,
        "" if stands else _find_successor(document, citation.passage),
        document.corrected_at,
        document.correction_note,
    )


def _holds(document: Document, citation: Citation, texts: dict[str, str]) -> bool:
    """Return whether a document holds the words of a citation; `texts` has the compared form of documents."""
    if not citation.passage:
        return not citation.digest or has_digest(document, citation.digest)
    if document.product_id not in texts:
        texts[document.product_id] = _normalize(f"{document.title}\n{document.text}")
    return _has_words(texts[document.product_id], _normalize(citation.passage))


def _has_words(text: str, words: str) -> bool:
    """Return whether a text has words, none of them cut: "1 million" is not in "11 million", nor "5 %" in "2.5 %"."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not (
            _IS_CUT_BEFORE.search(text[max(0, start - 2) : start]) or _IS_CUT_AFTER.match(text[end : end + 2])
        ):
            return True
        start = text.find(words, start + 1)
    return False


def has_digest(document: Document, digest: str) -> bool:
    """Return whether as many words from the beginning of any sentence have a digest.

    So a passage stands after another part of the article moved its borders.
    """
    text = document.text.translate(_INVISIBLE)
    count = int(digest.partition(":")[0])
    for start, _, _ in islice(split_sentences(text, 0, len(text)), _MOST_SENTENCES):
        words = [match[0] for match in islice(_TOKEN.finditer(text, start), count)]
        if len(words) == count and passage_digest(" ".join(words)) == digest:
            return True
    return False


def _normalize(text: str) -> str:
    """Return a text without differences that readers do not see: blanks, case, quotation marks, dashes, headings."""
    plain = unicodedata.normalize("NFKC", _HEADING.sub("", text).translate(_SPELLINGS | _INVISIBLE))
    return " ".join(plain.casefold().split()).strip(_FRAME)


def _find_successor(document: Document, passage: str) -> str:
    """Return the passage with the most words of an earlier one; empty if none has enough."""
    words = Counter(_WORD.findall(passage.casefold()))
    texts = [document.text[part.start : part.end] for part in document.passages]
    shared = [sum((words & Counter(_WORD.findall(text.casefold()))).values()) for text in texts]
    best = max(range(len(texts)), key=shared.__getitem__)
    return texts[best] if words and shared[best] >= _LEAST_SHARED * words.total() else ""


def _find_address(library: PassageLibrary, revisions: Mapping[str, ArticleRevision], url: str) -> str:
    """Return the product of an address; empty if no article has it."""
    address = canonical_address(url)
    product_id = library.find_address(address) if address else ""
    if product_id or not address:
        return product_id
    withdrawn = (
        product_id
        # A copy, since the follower's thread may add revisions meanwhile.
        for product_id, revision in list(revisions.items())
        if revision.status == WITHDRAWN and canonical_address(revision.url) == address
    )
    return next(withdrawn, "")
