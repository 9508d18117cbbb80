"""Every word start of all texts in alphabetical order, so that a prefix is one range of it.

The best of a range are found through blocks: the index stores the best rank of every 64 positions. The best few of a
range can only be in the few blocks with the best ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.prefix_edit_distance import CharCodes
from actors.vectors.types import Floats, Mask, Rows

BLOCK = 64
_SMALL = 2_048
# 24 characters are sorted at once; few word starts agree in all of them, and only these are sorted further.
_KEYS = 6
_PER_KEY = 4
_WORST = np.iinfo(np.int32).max

Ranks = npt.NDArray[np.int32]
"""int32 [n], 0 is the most popular."""

Allowed = Callable[[Rows], Mask]
"""Returns which of some texts may be returned: int64 [k] -> bool [k]."""


@dataclass(frozen=True, slots=True)
class PrefixIndex:
    """The sorted word starts of texts.

    Shapes:
        places: int32 or int64 [w], into the characters; owner: int32 [w], which text; key: uint64 [w], the first four
        characters; rank: int32 [w]; best: int32 [w / 64]
    """

    places: Rows
    owner: npt.NDArray[np.int32]
    key: npt.NDArray[np.uint64]
    rank: Ranks
    best: Ranks

    @classmethod
    def of(cls, texts: FoldedTexts, rank: Ranks) -> PrefixIndex:
        """Sort the word starts of texts.

        Shapes:
            rank int32 [t], one for each text, 0 is the most popular
        Cost:
            1,000,000 titles: 3 s
        """
        places = texts.word_starts()
        owner = texts.owners(places)
        keys = [_pack_keys(texts.codes, places + _PER_KEY * at) for at in range(_KEYS)]
        # The last key is the most important one: characters first, popularity among equals.
        order = np.lexsort(np.stack([rank[owner].astype(np.uint64), *reversed(keys)]))
        order = _sort_ties(order, places, keys, texts.codes)
        kind = np.int32 if texts.size < np.iinfo(np.int32).max else np.int64
        ranked = rank[owner[order]].astype(np.int32)
        return cls(
            places[order].astype(kind), owner[order].astype(np.int32), keys[0][order], ranked, _blocks(ranked)
        )

    def find_range(self, typed: CharCodes, text: CharCodes) -> tuple[int, int]:
        """Find the range of word starts with a prefix: first position, and the position after the last.

        Shapes:
            typed: codes of characters [c]; text: codes of all texts
        Cost:
            20 us
        """
        if not len(typed):
            return 0, len(self.places)
        head = typed[:_PER_KEY]
        low, high = _bounds(head)
        first = int(np.searchsorted(self.key, np.uint64(low), side="left"))
        last = int(np.searchsorted(self.key, np.uint64(high), side="right"))
        if len(typed) <= _PER_KEY or first == last:
            return first, last
        codes = typed.tolist()
        return self._bisect(codes, text, first, last, after=False), self._bisect(
            codes, text, first, last, after=True
        )

    def top(self, first: int, last: int, limit: int, allowed: Allowed | None) -> tuple[Rows, Rows]:
        """Find the most popular texts of a range, best first, and the positions of their word starts.

        Shapes:
            returns: int64 [m] each
        Cost:
            20 us for a small range, 0.3 ms for 3,000,000 places
        """
        # A filter may remove the best ones, so the range is read in growing parts.
        for reach in (limit * 4, limit * 64, last - first):
            at = self._leading(first, last, reach)
            owner = self.owner[at].astype(np.int64)
            if allowed is not None:
                kept = allowed(owner)
                at = at[kept]
                owner = owner[kept]
            order = np.lexsort((self.places[at], self.rank[at]))
            at = at[order]
            owner = owner[order]
            first_of_each = np.sort(np.unique(owner, return_index=True)[1])[:limit]
            if len(first_of_each) >= limit or reach >= last - first:
                break
        return owner[first_of_each], self.places[at[first_of_each]].astype(np.int64)

    def _leading(self, first: int, last: int, limit: int) -> Rows:
        """Return positions that include the best of a range."""
        if last - first <= max(_SMALL, limit):
            return np.arange(first, last)
        first_block = -(-first // BLOCK)
        last_block = last // BLOCK
        inner = self.best[first_block:last_block]
        # The best `limit` places can't be in more than `limit` blocks.
        if len(inner) > limit:
            blocks = np.argpartition(inner, limit)[:limit] + first_block
        else:
            blocks = np.arange(first_block, last_block)
        inside = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        edges = [np.arange(first, first_block * BLOCK), np.arange(last_block * BLOCK, last)]
        return np.concatenate([*edges, inside])

    def _bisect(self, codes: list[int], text: CharCodes, first: int, last: int, *, after: bool) -> int:
        length = len(codes)
        while first < last:
            middle = (first + last) // 2
            place = int(self.places[middle])
            prefix = text[place : place + length].tolist()
            # A 0 ends a text; behind it the next one begins.
            if 0 in prefix:
                prefix = prefix[: prefix.index(0)]
            if prefix < codes or (after and prefix == codes):
                first = middle + 1
            else:
                last = middle
        return first


def popularity_ranks(popularity: Floats | Rows, lengths: Rows | None = None) -> Ranks:
    """Rank by popularity, 0 first; of equals the shorter one, then the earlier one.

    Shapes:
        popularity [t]; lengths int [t]; returns int32 [t], each rank once
    """
    rank = np.empty(len(popularity), np.int32)
    order = np.argsort(-popularity, kind="stable") if lengths is None else np.lexsort((lengths, -popularity))
    rank[order] = np.arange(len(popularity), dtype=np.int32)
    return rank


def _pack_keys(text: CharCodes, places: Rows) -> npt.NDArray[np.uint64]:
    """Pack four characters into one number; those after the end of a text are 0."""
    key: npt.NDArray[np.uint64] = np.zeros(len(places), np.uint64)
    alive = np.ones(len(places), np.bool_)
    for at in range(_PER_KEY):
        code = text[np.minimum(places + at, len(text) - 1)]
        alive &= code != 0
        key = (key << np.uint64(16)) | np.where(alive, code, 0).astype(np.uint64)
    return key


def _sort_ties(order: Rows, places: Rows, keys: Sequence[npt.NDArray[np.uint64]], text: CharCodes) -> Rows:
    """Sort word starts that agree in all keys by the characters behind these; equal ones keep their order."""
    tied = np.arange(len(order))
    groups = _number_runs([key[order] for key in keys])
    last = keys[-1][order]
    offset = len(keys) * _PER_KEY
    while True:
        # A text that ended within its last key has no further characters.
        is_open = (np.bincount(groups)[groups] > 1) & (last & np.uint64(0xFFFF) != 0)
        tied = tied[is_open]
        groups = groups[is_open]
        if not len(tied):
            return order
        starts = order[tied]
        last = _pack_keys(text, places[starts] + offset)
        by_key = np.lexsort((last, groups))
        order[tied] = starts[by_key]
        last = last[by_key]
        groups = _number_runs([groups, last])
        offset += _PER_KEY


def _number_runs(columns: Sequence[npt.NDArray[Any]]) -> Rows:
    """Number the runs of neighbours that are equal in all columns."""
    differs = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.cumsum(np.append(0, differs)) if len(columns[0]) else np.zeros(0, np.int64)


def _bounds(head: CharCodes) -> tuple[int, int]:
    """Return the least and the greatest key with a prefix of up to four characters."""
    low = high = 0
    for at in range(_PER_KEY):
        code = int(head[at]) if at < len(head) else 0
        # Missing characters are 0 in the lower bound and 0xFFFF in the upper one.
        low = low << 16 | code
        high = high << 16 | (code if at < len(head) else 0xFFFF)
    return low, high


def _blocks(rank: Ranks) -> Ranks:
    padded = np.full(-(-len(rank) // BLOCK) * BLOCK, _WORST, np.int32)
    padded[: len(rank)] = rank
    best: Ranks = padded.reshape(-1, BLOCK).min(axis=1)
    return best
