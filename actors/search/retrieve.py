"""Products that a search finds: by words, vectors, an advanced query, similar texts, or all that its filters allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.candidates import filter_rows
from actors.recommender.state.catalog import Catalog
from actors.retrieval.lexical.messages import Correction, Names, TextHits, TextQuery, no_names
from actors.retrieval.messages import SearchQuery
from actors.search.phrases import PhraseMatcher
from actors.vectors.types import Mask, Rows, Scores
from cluster.query.language.parser import FULL_TEXT
from cluster.query.language.tree import All, Any, Node, Not, Phrase, Term

_MEANING = 0.5
"Weight of vector search if the query requests it."
_LONGEST_LIKE = 2_000


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The hits of a search, best first by relevance.

    Shapes:
        rows: int64 [k]; relevance: float32 [k], 0 for a product that was added without a match
    """

    rows: Rows
    relevance: Scores
    matched: Callable[[Sequence[int]], list[Names]]
    missing: Callable[[Sequence[int]], list[Names]]
    corrections: tuple[Correction, ...] = ()
    used: str = ""
    "The text that was searched."
    partial: SearchHits | None = None
    "Products that match in part, if the query requests a separate list of them."

    def filter(self, kept: Mask) -> SearchHits:
        """Keep some hits.

        Shapes:
            kept: bool [k]
        """
        return replace(self, rows=self.rows[kept], relevance=self.relevance[kept])

    def with_rows(self, rows: Rows) -> SearchHits:
        """Add rows with relevance 0.

        Shapes:
            rows: int64 [m]
        """
        relevance = np.concatenate((self.relevance, np.zeros(len(rows), np.float32)))
        return replace(self, rows=np.concatenate((self.rows, rows)), relevance=relevance)


def filter_products(query: UserQuery, catalog: Catalog, category: tuple[str, ...] = ()) -> Mask:
    """Mark the products that the filters allow, within a category if one is given; facet filters and words
    come later.

    Products that are out of stock may be found.

    Shapes:
        returns: bool [n], fresh
    """
    # A copy: `&=` below would remove products from the catalog itself.
    mask: Mask = catalog.present.copy()
    filtered = filter_rows(query, catalog)
    if filtered is not None:
        mask &= filtered
    if query.exclude:
        mask[catalog.rows_of(query.exclude)] = False
    if category:
        code = catalog.categories.code_of(category)
        inside = np.zeros(len(mask), np.bool_)
        if code is not None:
            inside[catalog.categories.rows_of(code)] = True
        mask &= inside
    return mask


FindTexts = Callable[[TextQuery, Mask], TextHits]
"Finds products by words among marked rows, best first."


def retrieve(find: FindTexts, catalog: Catalog, search: SearchQuery, mask: Mask) -> SearchHits:
    """Find the products of a search among marked rows.

    Shapes:
        mask: bool [n]
    """
    hits = _all_hits(mask)
    if search.advanced is not None:
        hits = _advanced(find, catalog, search, search.advanced, mask)
        # The advanced query narrows what words and `like` may find.
        mask = _marked(hits.rows, len(mask))
    if search.text:
        hits = _by_words(find, search, mask)
    if search.like:
        hits = _add_similar(find, search, hits, mask)
    return hits


def build_text_query(
    search: SearchQuery, text: str, *, partial: bool = False, correct: bool = False
) -> TextQuery:
    """Build the query to the index."""
    fields = dict.fromkeys(search.left_out_fields, 0.0) or None
    query = TextQuery(
        text, search.prefer_language, partial=partial, correct=correct, tiers=search.tiers, fields=fields
    )
    if search.meaning is None:
        return query
    return replace(query, meaning=_MEANING, least_meaning=search.meaning)


def _by_words(find: FindTexts, search: SearchQuery, mask: Mask) -> SearchHits:
    """Find by words; products that match in part are added or listed apart."""
    limit = search.partial_threshold
    if search.partial and limit is None and not search.separated:
        return _hits(find(build_text_query(search, search.text, partial=True, correct=search.correct), mask))
    exact = find(build_text_query(search, search.text, correct=search.correct), mask)
    # Enough products have every word, so those that lack some are not asked for.
    if not search.partial or (limit is not None and len(exact.rows) > limit):
        return _hits(exact)
    every = find(build_text_query(search, search.text, partial=True, correct=search.correct), mask)
    if not search.separated:
        return _hits(every)
    # The second search finds the exact hits again; the separate list leaves them out.
    apart = ~_marked(exact.rows, len(mask))[every.rows]
    return _hits(exact, _hits(every).filter(apart))


def _add_similar(find: FindTexts, search: SearchQuery, hits: SearchHits, mask: Mask) -> SearchHits:
    """Add the relevance of texts similar to `like`: half of the sum if there are words, all of it without
    words.
    """
    text_query = TextQuery(
        search.like[:_LONGEST_LIKE], search.prefer_language, partial=True, correct=False, meaning=_MEANING
    )
    like = find(text_query, mask)
    if not search.text and search.advanced is None:
        return _hits(like)
    added = np.zeros(len(mask), np.float32)
    if len(like.rows):
        added[like.rows] = like.scores / max(float(like.scores.max()), 1e-9)
    # Both lists scaled to 1 before the sum: their scores have no common scale.
    scaled = hits.relevance / max(float(hits.relevance.max(initial=0.0)), 1e-9)
    return replace(hits, relevance=(scaled + added[hits.rows]).astype(np.float32))


def _advanced(find: FindTexts, catalog: Catalog, search: SearchQuery, node: Node, mask: Mask) -> SearchHits:
    """Find the products of a boolean query; its words determine the relevance."""
    phrases = PhraseMatcher(catalog, sum(isinstance(leaf, Phrase) for leaf in _full_texts(node)))
    matched = _evaluate(find, catalog, search, node, mask, phrases)
    hits = _all_hits(matched)
    words = list(dict.fromkeys(leaf.value for leaf in _full_texts(node, barred=False)))
    if not words:
        return hits
    scored = find(build_text_query(search, " ".join(words), partial=True), matched)
    # A product that matched without a word is relevant, but little.
    relevance = np.full(len(mask), 1e-3, np.float32)
    relevance[scored.rows] = scored.scores
    return SearchHits(hits.rows, relevance[hits.rows], scored.matched, no_names, used=" ".join(words))


def _evaluate(
    find: FindTexts, catalog: Catalog, search: SearchQuery, node: Node, mask: Mask, phrases: PhraseMatcher
) -> Mask:
    """Evaluate a tree for all marked rows: `full_text` by the index, other fields by the columns."""
    if isinstance(node, Not):
        return mask & ~_evaluate(find, catalog, search, node.child, mask, phrases)
    if isinstance(node, Any):
        matched: Mask = np.zeros(len(mask), np.bool_)
        for child in node.children:
            matched |= _evaluate(find, catalog, search, child, mask, phrases)
        return matched
    if isinstance(node, All):
        words = [
            child.value for child in node.children if isinstance(child, Term) and child.field == FULL_TEXT
        ]
        left = mask
        if words:
            # All words of one AND in one look-up, in place of a mask for each.
            left = _mask_with_words(find, search, " ".join(words), left)
        for child in node.children:
            if not (isinstance(child, Term) and child.field == FULL_TEXT):
                # Not `&=`: without words, `left` is still the mask of the caller.
                left = left & _evaluate(find, catalog, search, child, left, phrases)
        return left
    if isinstance(node, Phrase) and node.field == FULL_TEXT:
        return phrases.match_rows(_rows_with_words(find, search, node.value, mask), node.value, len(mask))
    if isinstance(node, Term) and node.field == FULL_TEXT:
        return _mask_with_words(find, search, node.value, mask)
    return mask & catalog.filter_mask(node)


def _rows_with_words(find: FindTexts, search: SearchQuery, text: str, mask: Mask) -> Rows:
    """Find the marked products that have every word of a text, best first."""
    text_query = TextQuery(text, search.prefer_language, correct=False, tiers=search.tiers)
    return find(text_query, mask).rows


def _mask_with_words(find: FindTexts, search: SearchQuery, text: str, mask: Mask) -> Mask:
    return _marked(_rows_with_words(find, search, text, mask), len(mask))


def _full_texts(node: Node, *, barred: bool = True) -> Iterator[Term | Phrase]:
    """Yield the `full_text` leaves of a tree; without `barred` those under NOT are left out."""
    if isinstance(node, (All, Any)):
        for child in node.children:
            yield from _full_texts(child, barred=barred)
    elif isinstance(node, Not) and barred:
        yield from _full_texts(node.child)
    elif isinstance(node, (Term, Phrase)) and node.field == FULL_TEXT:
        yield node


def _all_hits(mask: Mask) -> SearchHits:
    rows = np.flatnonzero(mask)
    return SearchHits(rows, np.ones(len(rows), np.float32), no_names, no_names)


def _hits(text_hits: TextHits, partial: SearchHits | None = None) -> SearchHits:
    return SearchHits(
        text_hits.rows,
        text_hits.scores,
        text_hits.matched,
        text_hits.missing,
        text_hits.corrections,
        text_hits.used,
        partial,
    )


def _marked(rows: Rows | Sequence[int], count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask
