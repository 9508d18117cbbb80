"""An index of the texts of one field, with the products that have them, bound to the rows of a catalog.

TextIndex       never changes: built here, or mapped from a snapshot, whose memory all replicas of a machine share
RowTextIndex    a TextIndex bound to rows, without the products that changed since it was built
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.completed_values import rows_by_code
from actors.retrieval.autocomplete.folded_texts import restore_article
from actors.retrieval.autocomplete.lookup import CompletionIndex, CompletionMatches
from actors.retrieval.packed_texts import PackedTexts
from actors.vectors.types import Floats, Mask, Rows

RowValues = Mapping[int, tuple[int, tuple[str, ...]]]
"By row: the fingerprint of the field, and its texts."


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An index, and for each text its holders: the products that have it.

    Shapes:
        starts: int64 [n + 1]; holders: int32 [m], ascending per text; fingerprints: uint64 [h], of each holder
    """

    index: CompletionIndex
    source_texts: PackedTexts
    starts: Rows
    holders: npt.NDArray[np.int32]
    fingerprints: npt.NDArray[np.uint64]

    @classmethod
    def of(
        cls, values: list[tuple[str, ...]], marks: npt.NDArray[np.uint64], popularity: Floats
    ) -> TextIndex:
        """Index the texts of holders; a text is as popular as the most popular holder that has it.

        Shapes:
            marks: uint64 [h]; popularity: float64 [h]
        Cost:
            100,000 titles: 1.5 s
        """
        numbers: dict[str, int] = {}
        pairs = [
            (numbers.setdefault(text, len(numbers)), holder)
            for holder, texts in enumerate(values)
            for text in texts
        ]
        by_text = np.array(pairs, np.int64).reshape(-1, 2)
        # `lexsort` sorts by its last key first: by text, then by holder.
        by_text = by_text[np.lexsort((by_text[:, 1], by_text[:, 0]))]
        starts = np.searchsorted(by_text[:, 0], np.arange(len(numbers) + 1)).astype(np.int64)
        worth = np.zeros(len(numbers))
        # A text counts as its most popular holder; plain assignment would keep the last one.
        np.maximum.at(worth, by_text[:, 0], popularity[by_text[:, 1]])
        index = CompletionIndex.of(list(numbers), worth)
        return cls(index, PackedTexts.of(numbers), starts, by_text[:, 1].astype(np.int32), marks)

    def __len__(self) -> int:
        return len(self.source_texts)


@dataclass(frozen=True, slots=True)
class CompletionHit:
    """One matching text."""

    text: str
    rows: tuple[int, ...]
    "Allowed rows that have it."
    edits: int
    cost: float
    place: tuple[int, int]
    "Where in the folded text the match begins and ends; (-1, 0) for a match by words in any order."


class RowTextIndex:
    """An index bound to rows."""

    def __init__(self, built: TextIndex, codes: Rows, aside: Mask | None = None) -> None:
        """Bind an index to rows.

        Shapes:
            codes: int64 [r], row -> holder, -1 for none; aside: bool [r], changed rows
        """
        self.built = built
        self._codes = codes
        rows = rows_by_code(codes, len(built.fingerprints))
        if aside is not None:
            # The changed rows are served by the fresh index; this one must not show their old texts.
            # Rows without a code are left out: -1 would select the last holder.
            rows[codes[aside & (codes >= 0)]] = -1
        self._rows = rows
        self._has_single_holders = len(built.holders) == len(built)
        "Whether every text has one holder."

    @classmethod
    def of(cls, values: RowValues, popularity: Floats, largest: float = 0.0) -> RowTextIndex:
        """Index the values of rows.

        With `largest`, the popularity is scaled so that its largest value among these rows is this one, whatever
        other rows have.

        Shapes:
            popularity: float64 [r], by row; rows beyond have none
        """
        rows = np.fromiter(values, np.int64, len(values))
        weights = np.zeros(max(int(rows.max(initial=-1)) + 1, len(popularity)))
        # Rows that are newer than the popularity count as 0.
        weights[: len(popularity)] = popularity
        marks = np.array([mark for mark, _ in values.values()], np.uint64)
        worth = weights[rows]
        if largest and (most := float(worth.max(initial=0.0))) > 0:
            worth *= largest / most
        built = TextIndex.of([texts for _, texts in values.values()], marks, worth)
        codes = np.full(len(weights), -1, np.int64)
        codes[rows] = np.arange(len(rows))
        return cls(built, codes)

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory in bytes, that of a snapshot included."""
        arrays = (self._codes, self._rows, self.built.starts, self.built.holders, self.built.fingerprints)
        return sum(array.nbytes for array in arrays) + self.built.index.nbytes

    def __len__(self) -> int:
        """Count rows that are served."""
        return int(np.count_nonzero(self._rows >= 0))

    def copy(self) -> RowTextIndex:
        """Return an index that serves the same rows, and then others; texts are shared."""
        index = copy(self)
        index._rows = self._rows.copy()
        return index

    def restore(self, row: int, mark: int) -> bool:
        """Serve a row again if its product is as indexed; return whether it is."""
        code = self._code(row)
        if code < 0 or int(self.built.fingerprints[code]) != mark:
            return False
        self._rows[code] = row
        return True

    def remove(self, row: int) -> bool:
        """Stop serving a row; return whether it was served."""
        code = self._code(row)
        if code < 0 or self._rows[code] < 0:
            return False
        self._rows[code] = -1
        return True

    def values(self) -> dict[int, tuple[int, tuple[str, ...]]]:
        """Return fingerprints and texts of all rows that are served.

        Cost:
            100,000 titles: 0.2 s
        """
        texts: dict[int, tuple[str, ...]] = {}
        # A copy: this runs in another thread, and the caller may remove rows meanwhile.
        rows = self._rows.copy()
        marks = self.built.fingerprints
        originals = self.built.source_texts
        starts = self.built.starts.tolist()
        holders = self.built.holders.tolist()
        for text in range(len(self.built)):
            for holder in holders[starts[text] : starts[text + 1]]:
                if rows[holder] >= 0:
                    texts[holder] = (*texts.get(holder, ()), originals[text])
        return {int(rows[holder]): (int(marks[holder]), row_texts) for holder, row_texts in texts.items()}

    def look_up(self, typed: str, limit: int, page: int, rows: Mask) -> Iterator[CompletionHit]:
        """Find texts of allowed rows, best first; near ones only if exact ones do not fill the page.

        Shapes:
            rows: bool [r], at least as long as the largest row
        """
        if not len(self.built):
            return iter(())
        matches = self.built.index.look_up(typed, limit, page, lambda texts: self._allowed_texts(texts, rows))
        return self._hits(matches, rows)

    def _code(self, row: int) -> int:
        return int(self._codes[row]) if row < len(self._codes) else -1

    def _allowed_texts(self, texts: Rows, rows: Mask) -> Mask:
        """Mark texts that an allowed row has.

        Shapes:
            texts: int64 [k]; returns: bool [k]
        """
        holders = self.built.holders
        starts = self.built.starts
        if self._has_single_holders:
            mine = self._rows[holders[texts]]
            # `clip` only makes -1 a valid index; the second condition decides about it.
            allowed: Mask = rows.take(mine, mode="clip") & (mine >= 0)
            return allowed
        if not len(texts):
            return np.zeros(0, np.bool_)
        lengths = starts[texts + 1] - starts[texts]
        begins = np.cumsum(lengths) - lengths
        places = np.repeat(starts[texts] - begins, lengths) + np.arange(int(lengths.sum()))
        mine = self._rows[holders[places]]
        is_allowed: Mask = np.logical_or.reduceat(rows.take(mine, mode="clip") & (mine >= 0), begins)
        return is_allowed

    def _hits(self, matches: CompletionMatches, rows: Mask) -> Iterator[CompletionHit]:
        built = self.built
        columns = (matches.texts, matches.edits, matches.cost, matches.place, matches.cut)
        for text, edits, cost, place, cut in zip(*(column.tolist() for column in columns), strict=True):
            holders = built.holders[built.starts[text] : built.starts[text + 1]]
            kept = tuple(row for row in self._rows[holders].tolist() if row >= 0 and rows[row])
            if kept:
                original = built.source_texts[text]
                # positions are those of the text with its article in front: if it was moved, words are marked
                is_as_written = place >= 0 and restore_article(original) is original
                begin = place - int(built.index.texts.starts[text]) - 1 if is_as_written else -1
                ends = begin + cut if begin >= 0 else 0
                yield CompletionHit(original, kept, edits, cost, (begin, ends))


def merge_hits(hits: Iterable[CompletionHit], limit: int) -> list[CompletionHit]:
    """Merge the hits of several indexes by cost; a text that several have gets the rows of all."""
    best: dict[str, CompletionHit] = {}
    for hit in sorted(hits, key=lambda hit: hit.cost):
        other = best.setdefault(hit.text, hit)
        if other is not hit:
            rows_of_both = tuple(dict.fromkeys((*other.rows, *hit.rows)))
            best[hit.text] = CompletionHit(other.text, rows_of_both, other.edits, other.cost, other.place)
    return list(best.values())[:limit]
