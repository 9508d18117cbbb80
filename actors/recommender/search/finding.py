"""Which products a search means: by words, by meaning, by an advanced query, or all that its filters let through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any as Anything

import numpy as np

from actors.recommender.recall import admitted
from actors.recommender.request import Request
from actors.search.messages import SearchQuery
from actors.search.products.found import Correction, Names, TextAsk, TextFound, no_names
from actors.vectors.types import Mask, Rows, Scores
from cluster.query.parser import FULL_TEXT
from cluster.query.tree import All, Any, Node, Not, Phrase, Term
from cluster.query.words import words_of

MOST_PHRASES: int = 5_000
"Products with all words of a phrase, the best first, that are read to see whether they stand together."
MOST_READ: int = 10_000
"Products that are read for all phrases of one query."

_MEANING = 0.5
"Share of meaning in the score when it is asked for."
_LONGEST_LIKE = 2_000
_SKIPPED = frozenset({"product_id", "product_group_id", "url", "cover_image", "images"})


@dataclass(frozen=True, slots=True)
class Hits:
    """What was found, best first by relevance.

    Shapes:
        rows: int64 [k]; relevance: float32 [k], 0 where nothing matches but the product is wanted
    """

    rows: Rows
    relevance: Scores
    matched: Callable[[Sequence[int]], list[Names]]
    missing: Callable[[Sequence[int]], list[Names]]
    corrections: tuple[Correction, ...] = ()
    used: str = ""
    "The text that was searched for."
    partial: Hits | None = None
    "Products that match in part, when they are wanted apart."

    def only(self, kept: Mask) -> Hits:
        """Keep some.

        Shapes:
            kept: bool [k]
        """
        return replace(self, rows=self.rows[kept], relevance=self.relevance[kept])

    def with_rows(self, rows: Rows) -> Hits:
        """Add rows whatever they match.

        Shapes:
            rows: int64 [m]
        """
        relevance = np.concatenate((self.relevance, np.zeros(len(rows), np.float32)))
        return replace(self, rows=np.concatenate((self.rows, rows)), relevance=relevance)


def allowed_by(request: Request, category: tuple[str, ...] = ()) -> Mask:
    """Mark what may be found at all, within a category if one is given; facet filters and words come later.

    Products that are out of stock may be found.

    Shapes:
        returns: bool [n], fresh
    """
    query, catalog = request.query, request.catalog
    mask: Mask = catalog.present.copy()
    found = admitted(query, catalog)
    if found is not None:
        mask &= found
    if query.exclude:
        mask[catalog.rows_of(query.exclude)] = False
    if category:
        code = catalog.categories.code_of(category)
        inside = np.zeros(len(mask), np.bool_)
        if code is not None:
            inside[catalog.categories.rows_of(code)] = True
        mask &= inside
    return mask


def find(request: Request, search: SearchQuery, mask: Mask) -> Hits:
    """Find what a search means among marked rows."""
    hits = _everything(mask)
    if search.advanced is not None:
        hits = _advanced(request, search, search.advanced, mask)
        mask = _marked(hits.rows, len(mask))
    if search.text:
        hits = _by_words(request, search, mask)
    if search.like:
        hits = _alike(request, search, hits, mask)
    return hits


def ask_for(search: SearchQuery, text: str, *, partial: bool = False, correct: bool = False) -> TextAsk:
    """Make the question to the index."""
    fields = dict.fromkeys(search.left_out_fields, 0.0) or None
    if search.meaning is None:
        return TextAsk(text, search.prefer_language, partial=partial, correct=correct, fields=fields)
    return TextAsk(
        text, search.prefer_language, partial=partial, correct=correct, fields=fields,
        meaning=_MEANING, least_meaning=search.meaning,
    )  # fmt: skip


def _by_words(request: Request, search: SearchQuery, mask: Mask) -> Hits:
    """Find by words; what matches in part joins in or stands apart."""
    texts, now_ms = request.holdings.texts, request.now_ms
    limit = search.partial_threshold
    if search.partial and limit is None and not search.separated:
        return _hits(
            texts.find(ask_for(search, search.text, partial=True, correct=search.correct), mask, now_ms)
        )
    exact = texts.find(ask_for(search, search.text, correct=search.correct), mask, now_ms)
    if not search.partial or (limit is not None and len(exact.rows) > limit):
        return _hits(exact)
    every = texts.find(ask_for(search, search.text, partial=True, correct=search.correct), mask, now_ms)
    if not search.separated:
        return _hits(every)
    apart = ~_marked(exact.rows, len(mask))[every.rows]
    return _hits(exact, _hits(every).only(apart))


def _alike(request: Request, search: SearchQuery, hits: Hits, mask: Mask) -> Hits:
    """Let what is like a text count: half of the relevance beside words, all of it without them."""
    ask = TextAsk(
        search.like[:_LONGEST_LIKE], search.prefer_language, partial=True, correct=False, meaning=_MEANING
    )
    like = request.holdings.texts.find(ask, mask, request.now_ms)
    if not search.text and search.advanced is None:
        return _hits(like)
    added = np.zeros(len(mask), np.float32)
    if len(like.rows):
        added[like.rows] = like.scores / max(float(like.scores.max()), 1e-9)
    own = hits.relevance / max(float(hits.relevance.max(initial=0.0)), 1e-9)
    return replace(hits, relevance=(own + added[hits.rows]).astype(np.float32))


# --- advanced queries -------------------------------------------------------------------------------------------------


def _advanced(request: Request, search: SearchQuery, node: Node, mask: Mask) -> Hits:
    """Decide a boolean query; the words it asks for say how relevant a product is."""
    found = _decided(request, search, node, mask, {})
    hits = _everything(found)
    words = list(dict.fromkeys(_words_wanted(node)))
    if not words:
        return hits
    scored = request.holdings.texts.find(
        ask_for(search, " ".join(words), partial=True), found, request.now_ms
    )
    relevance = np.full(len(mask), 1e-3, np.float32)
    relevance[scored.rows] = scored.scores
    return Hits(hits.rows, relevance[hits.rows], scored.matched, no_names, used=" ".join(words))


def _decided(
    request: Request, search: SearchQuery, node: Node, mask: Mask, read: dict[int, list[str]]
) -> Mask:
    """Decide a tree for all marked rows; `full_text` asks the index, everything else the columns."""
    if isinstance(node, Not):
        return mask & ~_decided(request, search, node.child, mask, read)
    if isinstance(node, Any):
        found = np.zeros(len(mask), np.bool_)
        for child in node.children:
            found |= _decided(request, search, child, mask, read)
        return found
    if isinstance(node, All):
        words = [
            child.value for child in node.children if isinstance(child, Term) and child.field == FULL_TEXT
        ]
        left = mask
        if words:
            left = _holding(request, search, " ".join(words), left)
        for child in node.children:
            if not (isinstance(child, Term) and child.field == FULL_TEXT):
                left = left & _decided(request, search, child, left, read)
        return left
    if isinstance(node, (Term, Phrase)) and node.field == FULL_TEXT:
        found = _holding(request, search, node.value, mask)
        return _together(request, found, node.value, search, read) if isinstance(node, Phrase) else found
    return mask & request.catalog.matching(node)


def _holding(request: Request, search: SearchQuery, text: str, mask: Mask) -> Mask:
    found = request.holdings.texts.find(
        TextAsk(text, search.prefer_language, correct=False), mask, request.now_ms
    )
    return _marked(found.rows, len(mask))


def _together(
    request: Request, mask: Mask, phrase: str, search: SearchQuery, read: dict[int, list[str]]
) -> Mask:
    """Keep the products in one of whose texts the words of a phrase follow each other; `read` keeps what was read."""
    words = words_of(phrase)
    if len(words) < 2:
        return mask
    sought = f" {' '.join(words)} "
    found = np.zeros(len(mask), np.bool_)
    ranked = request.holdings.texts.find(
        TextAsk(phrase, search.prefer_language, correct=False), mask, request.now_ms
    )
    for row in ranked.rows[:MOST_PHRASES].tolist():
        texts = read.get(row)
        if texts is None:
            if len(read) == MOST_READ:
                continue
            texts = [f" {' '.join(words_of(text))} " for text in _texts_of(request.catalog.record(row))]
            read[row] = texts
        found[row] = any(sought in text for text in texts)
    return found


def _texts_of(record: Mapping[str, Anything]) -> Iterator[str]:
    waiting: list[Anything] = [value for name, value in record.items() if name not in _SKIPPED]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())


def _words_wanted(node: Node) -> Iterator[str]:
    """List the texts a tree wants, not those it bars."""
    if isinstance(node, (All, Any)):
        for child in node.children:
            yield from _words_wanted(child)
    elif isinstance(node, (Term, Phrase)) and node.field == FULL_TEXT:
        yield node.value


# --- small parts ------------------------------------------------------------------------------------------------------


def _everything(mask: Mask) -> Hits:
    rows = np.flatnonzero(mask)
    return Hits(rows, np.ones(len(rows), np.float32), no_names, no_names)


def _hits(found: TextFound, partial: Hits | None = None) -> Hits:
    return Hits(
        found.rows, found.scores, found.matched, found.missing, found.corrections, found.used, partial
    )


def _marked(rows: Rows | Sequence[int], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask
