"""All passages of an app: a snapshot's segment and later records, as segments that merge as they grow.

One thread writes. Any number of threads read, because a query takes the tuple of segments once, and segments only
change their marks of removed documents. Each segment is at most half as large as the one before. So there are few
segments, and every passage is merged a dozen times at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from actors.archive.joined_postings import JoinedPostings, SegmentRun, select_lasting
from actors.archive.passages import Document
from actors.archive.segment import PassageSegment, build_segment, merge_segments
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import Embedder
from cluster.access_tier import MOST_TIERS, may_read

_TYPICAL_LENGTH = 90.0
_BATCH = 200
_LARGEST_MERGE = 400_000
"Size from which later segments do not merge with a segment; the next snapshot includes it."
_LANGUAGES = 4
"Languages in which a question is analyzed: the most frequent ones."
_MOST_VIEWS = 32
"Sets of tiers whose views are in memory."


@dataclass(frozen=True, slots=True)
class LibraryView:
    """The segments of a library that some tiers may read. A row is a number over all of their passages."""

    segments: tuple[PassageSegment, ...]
    offsets: tuple[int, ...]
    "The first row of each segment, and the number of all rows."
    languages: tuple[str, ...]
    "The most frequent languages first."
    runs: tuple[SegmentRun, ...]
    "The postings of all segments, in their order: of one segment each, or joined."
    run_offsets: tuple[int, ...]
    "The first row of each run, and the number of all rows."
    accesses: frozenset[str]
    "Accesses of the segments."
    passages: int
    "Number of passages, removed ones included."

    @classmethod
    def of(cls, segments: tuple[PassageSegment, ...], joined: SegmentRun | None = None) -> LibraryView:
        """Number the passages of segments, the first of which may be joined."""
        counts: Counter[str] = Counter()
        for segment in segments:
            counts.update(segment.languages)
        languages = tuple(language for language, _ in counts.most_common(_LANGUAGES))
        first = () if joined is None else (joined,)
        apart = segments if joined is None else segments[len(joined.segments) :]
        runs = (*first, *map(SegmentRun.of, apart))
        offsets = (0, *accumulate(map(len, segments)))
        return cls(
            segments,
            offsets,
            languages,
            runs,
            (0, *accumulate(len(run.postings) for run in runs)),
            frozenset(segment.access for segment in segments),
            offsets[-1],
        )

    @property
    def is_joined(self) -> bool:
        """Return whether the postings of several segments are joined."""
        return len(self.runs) < len(self.segments)


class PassageIndex:
    """Segments, newest last."""

    def __init__(
        self,
        embedder: Embedder | None,
        *,
        segments: Iterable[PassageSegment] = (),
        share: float = 0.0,
        snapshot_version: str = "",
        writing: Embedder | None = None,
        knows_access: bool = True,
    ) -> None:
        """`knows_access` is false for the snapshot of a release that knew no locked articles."""
        self.knows_access = knows_access
        self.embedder = embedder
        self._writing = writing or embedder
        "Embeds new documents; gives the same vectors as the embedder of queries."
        self.vector_share = share if embedder is not None else 0.0
        "Weight of meaning beside words, 0 to 1."
        self.score_exponent = float(getattr(embedder, "bend", 1.0))
        "Exponent of BM25 scores before they are scaled."
        self.segments = tuple(segments)
        self.analyzers = Analyzers()
        "Analyzers of queries; `_analyzers` belongs to the writer, since analyzers cache words."
        self.version = 0
        "Grows with every change."
        self.snapshot_version = snapshot_version
        self._analyzers = Analyzers()
        self._views: tuple[Sequence[PassageSegment], dict[frozenset[str] | None, LibraryView]] = (), {}
        "By tiers; of the segments at that time."
        self._joined = JoinedPostings()
        self._fixed = len(self.segments)
        "Segments from the front that are never merged: they are mapped from disk."

    @property
    def documents(self) -> int:
        """Count living documents."""
        return sum(segment.documents - segment.removed_count for segment in self.segments)

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments) + self._joined.nbytes

    @property
    def is_slow(self) -> bool:
        """Return whether embedding a question takes long."""
        return bool(getattr(self.embedder, "is_slow", False))

    def product_ids(self) -> Iterator[str]:
        """Return the ids of all documents that were not removed."""
        for segment in self.segments:
            for number in range(segment.documents):
                if segment.alive[segment.frame.first[number]]:
                    yield segment.document_source.document(number).product_id

    def view(self, tiers: frozenset[str] | None) -> LibraryView:
        """Return what some tiers may read, or everything if `tiers` is None.

        A view is built once for each change of the segments. So what is locked is no work for a question.
        """
        segments = self.segments
        # A change replaces the whole tuple of segments, so identity tells whether a view still fits.
        cached_segments, views = self._views
        # There may be many combinations of tiers, and each view takes memory.
        if cached_segments is not segments or len(views) > _MOST_VIEWS:
            views = {}
            self._views = segments, views
        view = views.get(tiers)
        if view is None:
            accesses = frozenset(segment.access for segment in segments)
            if tiers is not None:
                accesses = frozenset(access for access in accesses if may_read(access, tiers))
            view = views[tiers] = self._build_view(segments, accesses)
        return view

    def _build_view(self, segments: Sequence[PassageSegment], accesses: frozenset[str]) -> LibraryView:
        fixed, later = self._select(segments, accesses)
        readable = (*fixed, *later)
        return LibraryView.of(readable, self._joined.find(accesses, readable))

    def _select(
        self, segments: Sequence[PassageSegment], accesses: frozenset[str]
    ) -> tuple[list[PassageSegment], list[PassageSegment]]:
        """Return the segments of some accesses: those that are never merged, and the others."""
        fixed = [segment for segment in segments[: self._fixed] if segment.access in accesses]
        later = [segment for segment in segments[self._fixed :] if segment.access in accesses]
        if len(accesses) > 1:
            # Large segments come first, so the joined ones stay the first when others are added.
            later.sort(key=len, reverse=True)
        return fixed, later

    def count_search(self, view: LibraryView) -> None:
        """Count a question that read several accesses; those often read together are worth joining."""
        if not view.is_joined:
            self._joined.count(view.accesses)

    @property
    def needs_join(self) -> bool:
        """Return whether postings should be joined, or those of merged segments be dropped."""
        return self._joined.has_stale(self.segments) or bool(self._list_joinable())

    def join_segments(self) -> None:
        """Join the postings of accesses that are often read together.

        Any one thread may join beside the writer and the questions: segments do not change, and a copy of those that
        the writer merges meanwhile is not used.
        """
        self._joined.drop_stale(self.segments)
        for accesses, segments in self._list_joinable()[:1]:
            self._joined.join(accesses, segments)
        # After the join: views that were built before it read the segments one by one.
        self._views = (), {}

    def _list_joinable(self) -> list[tuple[frozenset[str], list[PassageSegment]]]:
        """Return the accesses that are worth joining, and their segments that last."""
        segments = self.segments
        lasting = [
            (accesses, select_lasting(*self._select(segments, accesses)))
            for accesses in self._joined.list_frequent()
        ]
        return [(accesses, chosen) for accesses, chosen in lasting if self._joined.has_room(accesses, chosen)]

    def put(self, documents: Iterable[Document]) -> None:
        """Add documents or replace those of the same id."""
        for _ in self.put_steps(documents):
            pass

    def put_steps(self, documents: Iterable[Document]) -> Iterator[None]:
        """Add or replace documents in steps of some milliseconds."""
        newest: dict[str, list[Document]] = {}
        # Of several documents with one id the last one counts, as in the log.
        for document in {document.product_id: document for document in documents}.values():
            newest.setdefault(document.access, []).append(document)
        for access, of_access in newest.items():
            if self._has_room(access):
                yield from self._put_steps_of(access, of_access)
            else:
                self.remove(document.product_id for document in of_access)

    def _has_room(self, access: str) -> bool:
        """Return whether documents of an access are taken; those of too many tiers are not."""
        if not access:
            return True
        tiers = frozenset(segment.access for segment in self.segments if segment.access)
        return access in tiers or len(tiers) < MOST_TIERS

    def _put_steps_of(self, access: str, documents: Sequence[Document]) -> Iterator[None]:
        """Add documents of one access, whose segments hold no others: so locked ones change nothing in open ones."""
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            made = build_segment(batch, self._analyzers, self._writing, self._mean_length(access))
            # the new version is added before the old one is removed: a query in between sees both rather than none
            before = self.segments
            self.segments = (*before, made)
            for document in batch:
                self._mark_removed(before, document.product_id)
            self.version += 1
            yield
            while self._merge_last(access):
                yield

    def remove(self, product_ids: Iterable[str]) -> None:
        """Remove documents; unknown ids are ignored."""
        for product_id in product_ids:
            self._mark_removed(self.segments, product_id)
        self.version += 1

    def find(self, product_id: str, tiers: frozenset[str] | None = None) -> Document | None:
        """Return a document; None when it is not in the library, or some given tiers may not read it."""
        # Newest first: while a document is replaced, both versions are there, and the new one counts.
        for segment in reversed(self.segments if tiers is None else self.view(tiers).segments):
            number = segment.find(product_id)
            if number is not None:
                return segment.document_source.document(number)
        return None

    def find_address(self, address: str, tiers: frozenset[str]) -> str:
        """Return the article of a canonical web address; empty if no present one has it that the tiers may read.

        Cost:
            the first call for a segment reads all of its documents, 15 us each
        """
        for segment in reversed(self.segments):
            product_id = segment.find_address(address) if may_read(segment.access, tiers) else ""
            if product_id:
                return product_id
        return ""

    def _mark_removed(self, segments: Sequence[PassageSegment], product_id: str) -> None:
        for segment in segments:
            number = segment.find(product_id)
            if number is not None:
                segment.mark_removed(number)

    def _mean_length(self, access: str) -> float:
        """Return the mean length of passages of one access; others must not change their scores."""
        of_access = [segment.postings.lengths for segment in self.segments if segment.access == access]
        largest = max(of_access, key=len, default=None)
        # The mean of a few passages is chance, and postings store scores that were computed with it.
        return float(largest.mean()) if largest is not None and len(largest) > 50 else _TYPICAL_LENGTH

    def _merge_last(self, access: str) -> bool:
        """Merge the last two segments of one access when the older one is not at least twice as large."""
        places = [
            at
            for at, segment in enumerate(self.segments[self._fixed :], self._fixed)
            if segment.access == access
        ]
        if len(places) < 2:
            return False
        first, last = places[-2:]
        older = self.segments[first]
        newer = self.segments[last]
        # While sizes double from segment to segment, each passage is merged a logarithmic number of times.
        if len(older) >= 2 * len(newer) or len(older) + len(newer) > _LARGEST_MERGE:
            return False
        merged = merge_segments((older, newer))
        self.segments = (
            *self.segments[:first],
            *self.segments[first + 1 : last],
            merged,
            *self.segments[last + 1 :],
        )
        return True
