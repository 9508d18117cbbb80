"""The texts of product fields as completions: a main index of each field, and indexes of later changes.

    main     most texts: out of a snapshot, or built in another thread and swapped in
    later    thousands of rows that changed since, built in another thread, too
    fresh    rows that neither has as they are now: a small index that is built again as they change

A text is found if a product that has it is allowed. A changed product no longer counts for its old text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.access_rows import LockedRows
from actors.retrieval.autocomplete.field_values import FieldFingerprints, field_fingerprint, values_of_field
from actors.retrieval.autocomplete.lookup import BYTES_A_CHARACTER
from actors.retrieval.autocomplete.snapshot_format import CompletionSnapshot, SavedFieldIndexes
from actors.retrieval.autocomplete.text_index import CompletionHit, RowTextIndex, TextIndex, merge_hits
from actors.retrieval.product_texts import ProductRows
from actors.vectors.types import Floats, Mask, Rows
from cluster.access_tier import access_of
from cluster.errors import Unavailable

_LITTLE = 1_000
_SHARE = 0.05
_AT_ONCE = 100
"Number of changed rows up to which the fresh index is built again after each change."
_SETTLE_MS = 600
"Longest time until a change is in the fresh index."

Popularity = Callable[[], Floats]
"Returns the popularity by row, as it is now."


class FieldIndex:
    """Completions of one field, of all products or of those with one access."""

    def __init__(
        self, name: str, language: str = "", *, only: bool = False, access: str | None = None
    ) -> None:
        self.name = name
        self.access = access
        self.language = language
        self._only = only
        self._main = _empty_index()
        self._later = _empty_index()
        self._fresh: RowTextIndex | None = None
        self._fresh_at_ms = 0
        self._fresh_stale = True
        self._changed: dict[int, tuple[int, tuple[str, ...]]] = {}
        "Row -> fingerprint and values, of rows that changed since the indexes were built."
        self._left_main = 0
        "Rows that the main index no longer serves."
        self._changed_meanwhile: dict[int, tuple[int, tuple[str, ...]]] | None = None
        "Rows that changed since the running rebuild began; None if there is none."
        self._replaces_main = True
        "Whether the running rebuild replaces the main index."

    def __len__(self) -> int:
        """Count rows with a value."""
        return len(self._main) + len(self._later) + len(self._changed)

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory in bytes."""
        return self._main.nbytes + self._later.nbytes + sum(map(self.changed_bytes, self._changed))

    def changed_bytes(self, row: int) -> int:
        """Return the memory that a changed row takes in an index, in bytes."""
        _, texts = self._changed.get(row, (0, ()))
        return BYTES_A_CHARACTER * sum(map(len, texts))

    @property
    def changed_count(self) -> int:
        """Count rows that changed since an index was built."""
        return len(self._changed)

    def record(self, row: int, product: Mapping[str, Any] | None, mark: int | None = None) -> None:
        """Record that a product changed, or was removed (None); `mark` is the fingerprint of its field, if known."""
        values: tuple[str, ...] = ()
        if product is not None and (self.access is None or access_of(product) == self.access):
            values = values_of_field(product, self.name, self.language, self._only)
        mark = field_fingerprint(product, self.name) if mark is None else mark
        if self._changed_meanwhile is not None:
            self._changed_meanwhile[row] = mark, values
        self._assign_row(row, mark, values)

    @property
    def needs_rebuild(self) -> bool:
        """Return whether an index should be built again because of changed rows."""
        return len(self._changed) > _LITTLE or self._is_old(len(self._main))

    def plan_rebuild(self, popularity: Floats) -> Callable[[], RowTextIndex]:
        """Return a function that builds an index again in another thread; rows that change meanwhile stay fresh.

        That is the main index if much of it is stale, else the later index.

        Shapes:
            popularity float [n], one for each row of the catalog
        """
        served = len(self._main)
        self._changed_meanwhile = {}
        self._replaces_main = not served or self._is_old(served)
        layers = [self._main, self._later] if self._replaces_main else [self._later]
        changed = dict(self._changed)

        def build() -> RowTextIndex:
            # a row that left a layer meanwhile is in `_changed_meanwhile`
            values = {row: entry for layer in layers for row, entry in layer.values().items()}
            return RowTextIndex.of({**values, **changed}, popularity)

        return build

    def adopt(self, built: RowTextIndex) -> None:
        """Serve an index that was built."""
        again = self._changed_meanwhile or {}
        self._changed_meanwhile = None
        if self._replaces_main:
            self._serve(built)
        else:
            self._later = built
            self._changed = {}
            self._fresh_stale = True
        for row, (mark, values) in again.items():
            self._assign_row(row, mark, values)

    def bind_rows(self, built: TextIndex, codes: Rows, aside: Mask) -> None:
        """Serve an index out of a snapshot; the caller records the changed rows afterwards.

        Shapes:
            codes: int64 [r], row -> holder of the index, -1 for none; aside: bool [r], changed rows
        """
        self._serve(RowTextIndex(built, codes, aside))

    def copy_of_open(self) -> FieldIndex:
        """Return an index of open products from one of all products, while none is locked."""
        index = FieldIndex(self.name, self.language, only=self._only, access="")
        index._main = self._main.copy()
        index._later = self._later.copy()
        index._changed = dict(self._changed)
        index._left_main = self._left_main
        return index

    def look_up(
        self, typed: str, limit: int, page: int, rows: Mask, now_ms: int, popularity: Popularity
    ) -> list[CompletionHit]:
        """Find texts of allowed rows, best first; if there are `page` exact ones, near ones are not looked for.

        Shapes:
            rows: bool [r], allowed rows
        """
        hits = list(self._main.look_up(typed, limit, page, rows))
        if not self._changed and not len(self._later.built):
            return hits
        hits += self._later.look_up(typed, limit, page, rows)
        if self._changed:
            fresh = self._fresh_index(now_ms, popularity)
            hits += self._without_changed(fresh.look_up(typed, limit, page, rows))
        return merge_hits(hits, limit)

    def _is_old(self, served: int) -> bool:
        """Return whether a main index that serves so many rows is too stale."""
        return max(len(self._later) + len(self._changed), self._left_main) > rebuild_threshold(served)

    def _serve(self, main: RowTextIndex) -> None:
        self._main = main
        self._later = _empty_index()
        self._changed = {}
        self._left_main = 0
        self._fresh_stale = True

    def _assign_row(self, row: int, mark: int, values: tuple[str, ...]) -> None:
        """Serve a row from an index that has it unchanged; else count it as changed."""
        self._fresh_stale = True
        # A value came back that the main index has: it serves the row again, and nothing is built.
        if values and self._main.restore(row, mark):
            self._later.remove(row)
            self._changed.pop(row, None)
            return
        self._left_main += self._main.remove(row)
        if values and self._later.restore(row, mark):
            self._changed.pop(row, None)
            return
        self._later.remove(row)
        if values:
            self._changed[row] = mark, values
        else:
            self._changed.pop(row, None)

    def _fresh_index(self, now_ms: int, popularity: Popularity) -> RowTextIndex:
        """Index the changed rows; the more there are, the less often, but within a second."""
        # Half a millisecond of pause for each row, so that an import does not build the index for each
        # look-up.
        settle_ms = min(_SETTLE_MS, len(self._changed) // 2) if len(self._changed) > _AT_ONCE else 0
        soon = 0 <= now_ms - self._fresh_at_ms < settle_ms
        if self._fresh is None or (self._fresh_stale and not soon):
            self._fresh = RowTextIndex.of(self._changed, popularity())
            self._fresh_at_ms = now_ms
            self._fresh_stale = False
        return self._fresh

    def _without_changed(self, hits: Iterator[CompletionHit]) -> Iterator[CompletionHit]:
        """Leave out rows that changed again since the fresh index was built."""
        changed = self._changed
        for hit in hits:
            rows = tuple(row for row in hit.rows if row in changed and hit.text in changed[row][1])
            if rows:
                yield (
                    hit if rows == hit.rows else CompletionHit(hit.text, rows, hit.edits, hit.cost, hit.place)
                )


def rebuild_threshold(served: int) -> float:
    """Return how many changed rows justify a rebuild, for an index that serves so many rows."""
    return max(_LITTLE, _SHARE * served)


def _empty_index() -> RowTextIndex:
    marks: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
    return RowTextIndex(TextIndex.of([], marks, np.zeros(0)), np.zeros(0, np.int64))


# A product is served from the snapshot only while its fingerprint is the same; changed products are indexed here.
MOST_FIELDS = 32
"Fields whose indexes are in memory at a time; a field may have an index for each access."

ALWAYS = "title"
"The field whose fingerprints are kept from the start, because nearly all apps complete it."


class FieldKey(NamedTuple):
    """Name, language, and whether texts of other languages are left out."""

    name: str
    language: str
    only: bool
    access: str | None = None
    "Access of the products of the index: empty for open ones, None for all products."


@dataclass(slots=True)
class _FieldBuild:
    """An index that is being built; it gets every change meanwhile."""

    index: FieldIndex
    fingerprints: FieldFingerprints


class FieldIndexes:
    """The completion indexes of an app by field and language, kept up to date."""

    def __init__(self) -> None:
        self.most_bytes = 0
        "Memory of one index above which it is not built; 0: any."
        self._refused: dict[FieldKey, int] = {}
        "Indexes that did not fit, with the number of rows at that time."
        self._fields: dict[FieldKey, FieldIndex] = {}
        self._builds: dict[FieldKey, _FieldBuild] = {}
        self._fingerprints: dict[str, FieldFingerprints] = {ALWAYS: FieldFingerprints()}
        self._saved: CompletionSnapshot | None = None
        self._locked = LockedRows()
        self._had_locked = False

    def readable_keys(self, key: FieldKey, tiers: frozenset[str] | None) -> list[FieldKey]:
        """Return the keys of the indexes that a user with these tiers completes by; None: by all products.

        A word of locked products can change what an index answers, so open products have a separate one.
        """
        if tiers is None or not self._locked:
            return [key]
        return [key._replace(access=access) for access in ("", *self._locked.readable(tiers))]

    def record(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Record that a product changed, or was removed (None)."""
        access = "" if product is None else access_of(product)
        if self._locked.record(row, access):
            self._begin_access(access)
        for name, fingerprints in self._fingerprints.items():
            fingerprint = field_fingerprint(product, name)
            if fingerprints.put(row, fingerprint):
                for key, field in self._fields.items():
                    if key[0] == name:
                        field.record(row, product, fingerprint)
        for key, build in self._builds.items():
            fingerprint = field_fingerprint(product, key[0])
            build.fingerprints.put(row, fingerprint)
            build.index.record(row, product, fingerprint)

    def _begin_access(self, access: str) -> None:
        """Add the indexes of an access that no product has yet, so that no query waits until they are built."""
        if not self._had_locked and not (self._saved and self._saved.has_locked):
            for key, field in list(self._fields.items()):
                if key.access is None:
                    self._fields.setdefault(key._replace(access=""), field.copy_of_open())
        # For good: an index of all products may hold words of products that were locked once.
        self._had_locked = True
        for key in [key for key in self._fields if key.access == ""]:
            index = FieldIndex(key.name, key.language, only=key.only, access=access)
            self._fields.setdefault(key._replace(access=access), index)

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory of all indexes in bytes."""
        return sum(field.nbytes for field in self._fields.values())

    def has_field(self, key: FieldKey) -> bool:
        """Return whether the index of a field is in memory."""
        return key in self._fields

    @property
    def field_keys(self) -> list[FieldKey]:
        """Return the fields whose indexes are in memory."""
        return list(self._fields)

    @property
    def version(self) -> str:
        """Return the snapshot whose indexes serve; empty if this process built all."""
        return "" if self._saved is None else self._saved.version

    def adopt(self, saved: CompletionSnapshot, catalog: ProductRows) -> None:
        """Serve the indexes of a snapshot, except those with too many changed products."""
        if self._saved is not None and self._saved.version == saved.version:
            return
        self._saved = saved
        for key in list(self._fields):
            saved_field = saved.fields.get(key[0])
            if (
                saved_field is not None
                and saved_field.get(*key[1:]) is not None
                and self._is_fit(saved_field, catalog)
            ):
                del self._fields[key]

    def get_field(self, key: FieldKey, catalog: ProductRows, popularity: Callable[[], Floats]) -> FieldIndex:
        """Return the index of a field; without a snapshot the first call reads every product.

        Shapes:
            popularity: float [n], one for each row of the catalog
        Errors:
            Unavailable: the index would take more than `most_bytes`
        Cost:
            the first call for a field: 2 ms for 100,000 products of a snapshot, 3 s without; then nothing
        """
        if not self.bind_saved(key, catalog):
            for _ in self.collect_in_steps(key, catalog):
                pass
            self.adopt_build(key, self.plan_build(key, popularity())())
        self._fields[key] = self._fields.pop(key)
        return self._fields[key]

    def bind_saved(self, key: FieldKey, catalog: ProductRows) -> bool:
        """Return whether the index of a field is in memory, or comes out of the snapshot now."""
        if key not in self._fields:
            index = self._bind_rows(key, catalog)
            if index is None:
                return False
            self._put(key, index)
        return True

    def collect_in_steps(self, key: FieldKey, catalog: ProductRows) -> Iterator[None]:
        """Read the values of a field, one product each step; changes may be recorded between two steps.

        `plan_build` and `adopt_build` finish the build, `drop_build` ends it early.

        Errors:
            Unavailable: the index would take more than `most_bytes`
        """
        self._check_refused(key, len(catalog))
        name, language, only, access = key
        index = FieldIndex(name, language, only=only, access=access)
        shared = self._fingerprints.get(name)
        fingerprints = FieldFingerprints() if shared is None else shared
        self._builds[key] = _FieldBuild(index, fingerprints)
        size = 0
        row = 0
        # the catalog may grow between two steps
        while row < len(catalog):
            if catalog.present[row]:
                product = catalog.record(row)
                if shared is None:
                    fingerprints.put(row, field_fingerprint(product, name))
                index.record(row, product, fingerprints.get(row))
                size += index.changed_bytes(row)
            if self.most_bytes and size > self.most_bytes:
                self.drop_build(key)
                self._refused[key] = len(catalog)
                self._check_refused(key, len(catalog))
            row += 1
            yield

    def plan_build(self, key: FieldKey, popularity: Floats) -> Callable[[], RowTextIndex]:
        """Return a function that builds the collected index in another thread.

        Shapes:
            popularity: float [n], one for each row of the catalog
        """
        return self._builds[key].index.plan_rebuild(popularity)

    def adopt_build(self, key: FieldKey, built: RowTextIndex) -> None:
        """Serve an index that was built."""
        build = self._builds.pop(key)
        build.index.adopt(built)
        self._refused.pop(key, None)
        self._fingerprints.setdefault(key[0], build.fingerprints)
        self._put(key, build.index)

    def drop_build(self, key: FieldKey) -> None:
        """End a build, if there is one."""
        self._builds.pop(key, None)

    def _put(self, key: FieldKey, index: FieldIndex) -> None:
        fields = dict.fromkeys(existing[:3] for existing in self._fields)
        if key[:3] not in fields and len(fields) >= MOST_FIELDS:
            # All indexes of one field go together: a user with tiers needs every one of them.
            oldest = next(iter(fields))
            self._fields = {
                existing: field for existing, field in self._fields.items() if existing[:3] != oldest
            }
        self._fields[key] = index

    def plan_rebuild(
        self, popularity: Callable[[], Floats]
    ) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Return an index that has changed much and a function that rebuilds it; None if there is none.

        Shapes:
            popularity: float [n], one for each row of the catalog
        """
        for field in self._fields.values():
            if field.needs_rebuild:
                return field, field.plan_rebuild(popularity())
        return None

    def _bind_rows(self, key: FieldKey, catalog: ProductRows) -> FieldIndex | None:
        """Bind the snapshot's index to the catalog; None if there is none, or too many products changed."""
        name, language, only, access = key
        saved = None if self._saved is None else self._saved.fields.get(name)
        built = None if saved is None else saved.get(language, only, access)
        if saved is None or built is None or not self._is_fit(saved, catalog):
            return None
        index = FieldIndex(name, language, only=only, access=access)
        codes, aside = self._compare_rows(saved, catalog)
        index.bind_rows(built, codes, aside)
        fingerprints = self._fingerprints[name]
        for row in np.flatnonzero(aside & catalog.present).tolist():
            index.record(row, catalog.record(row), fingerprints.get(row))
        return index

    def _check_refused(self, key: FieldKey, rows: int) -> None:
        """Refuse an index that did not fit, until the catalog is smaller by more than a little."""
        before = self._refused.get(key)
        if before is not None and rows > before * (1 - _SHARE):
            raise Unavailable(
                f"completions of the field {key[0]} need more than {self.most_bytes >> 20} MB of memory; "
                "raise KIOSK_MEMORY_MB, or complete another field",
                retry_after_s=60,
                told=True,
            )

    def _field_fingerprints(self, name: str, catalog: ProductRows) -> FieldFingerprints:
        """Return the fingerprints of a field; the first call reads every product."""
        fingerprints = self._fingerprints.get(name)
        if fingerprints is None:
            fingerprints = self._fingerprints[name] = FieldFingerprints()
            for row in np.flatnonzero(catalog.present).tolist():
                fingerprints.put(row, field_fingerprint(catalog.record(row), name))
        return fingerprints

    def _is_fit(self, saved: SavedFieldIndexes, catalog: ProductRows) -> bool:
        """Return whether nearly all products are unchanged since the snapshot."""
        _, aside = self._compare_rows(saved, catalog)
        present = int(np.count_nonzero(catalog.present))
        return int(np.count_nonzero(aside & catalog.present)) <= rebuild_threshold(present)

    def _compare_rows(self, saved: SavedFieldIndexes, catalog: ProductRows) -> tuple[Rows, Mask]:
        """Find each row's product in the snapshot, and the changed rows.

        Shapes:
            returns: int64 [r], -1 where the snapshot has none, and bool [r], changed rows
        """
        assert self._saved is not None
        count = len(catalog)
        codes = np.full(count, -1, np.int64)
        saved_count = min(count, len(self._saved.codes))
        codes[:saved_count] = self._saved.codes[:saved_count]
        fingerprints = self._field_fingerprints(saved.name, catalog).first(count)
        saved_fingerprints = (
            saved.fingerprints[codes] if len(saved.fingerprints) else np.zeros(count, np.uint64)
        )
        aside: Mask = (fingerprints != saved_fingerprints) | (codes < 0)
        # a product without values of the field needs no index
        aside &= (fingerprints != 0) | (codes >= 0)
        aside |= ~catalog.present
        return codes, aside
