"""All completion indexes of an app by field, language and access, kept up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from actors.retrieval.autocomplete.completed_values import FieldFingerprints, field_fingerprint
from actors.retrieval.autocomplete.field_index import (
    STALE_SHARE,
    FieldIndex,
    join_accesses,
    rebuild_threshold,
    split_accesses,
)
from actors.retrieval.autocomplete.row_access import RowAccess
from actors.retrieval.autocomplete.snapshot_format import CompletionSnapshot, SavedFieldIndexes
from actors.retrieval.autocomplete.text_index import RowTextIndex
from actors.retrieval.product_search import ProductRows
from actors.vectors.types import Floats, Mask, Rows
from cluster.access_tier import access_of
from cluster.errors import Unavailable

# A product is served from the snapshot only while its fingerprint is the same; changed products are indexed here.
MOST_FIELDS = 32
"Fields whose indexes are in memory at a time; a field may have an index for each access."

MOST_JOINED = 50_000
"Rows of all indexes together that join several accesses: about 100 MB of titles."
FREQUENT = 64
"Look-ups by several accesses after which their indexes are joined; a request looks twice."
_MOST_COUNTED = 256
"Keys whose look-ups are counted."

ALWAYS = "title"
"The field whose fingerprints are kept from the start, because nearly all apps complete it."


class FieldKey(NamedTuple):
    """Name, language, and whether texts of other languages are left out."""

    name: str
    language: str
    only: bool
    access: str | None = None
    "Access of the products of the index: empty for open ones, None for all, several as `join_accesses` has them."


def _is_joined(key: FieldKey) -> bool:
    return len(split_accesses(key.access or "")) > 1


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
        self._locked = RowAccess()
        self._had_locked = False
        self._searches: Counter[FieldKey] = Counter()
        "Look-ups in several indexes that a joined one would answer."

    def readable_keys(self, key: FieldKey, tiers: frozenset[str] | None) -> list[FieldKey]:
        """Return the keys of the indexes that a user with these tiers completes by; None: by all products.

        A word of locked products can change what an index answers, so open products have a separate one.
        """
        if tiers is None or not self._locked:
            return [key]
        accesses = ("", *self._locked.readable(tiers))
        joined_key = key._replace(access=join_accesses(accesses))
        joined = self._fields.get(joined_key)
        if joined is not None and joined.is_ready:
            return [joined_key]
        if len(accesses) > 1 and joined is None and len(self._searches) < _MOST_COUNTED:
            self._searches[joined_key] += 1
        return [key._replace(access=access) for access in accesses]

    def access_key_of(self, tiers: frozenset[str]) -> str:
        """Return a name of the accesses that a user with these tiers may read; empty where all products are."""
        return ",".join(("open", *self._locked.readable(tiers))) if self._locked.has_hidden(tiers) else ""

    def hidden_rows(self, tiers: frozenset[str]) -> Rows:
        """Return the rows of products that a user with these tiers may not read.

        Shapes:
            returns: int64 [h]
        """
        return self._locked.hidden_rows(tiers)

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
        return sum(field.nbytes for field in self._fields.values())

    def has_field(self, key: FieldKey) -> bool:
        return key in self._fields

    @property
    def field_keys(self) -> list[FieldKey]:
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
            ) or _is_joined(key):
                # other accesses may be read together now
                del self._fields[key]

    def get_field(self, key: FieldKey, catalog: ProductRows, popularity: Callable[[], Floats]) -> FieldIndex:
        """Return the index of a field; without a snapshot the first call reads every product.

        Shapes:
            popularity: float [n], one for each row of the catalog
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
            self._drop_fingerprints({ALWAYS, key.name, *(existing.name for existing in self._fields)})
        self._fields[key] = index

    def _drop_fingerprints(self, used: set[str]) -> None:
        """Drop the fingerprints of fields without an index, as clients may complete any number of names."""
        if self._saved is not None:
            # The snapshot's fields are few, and the next binding would read every product.
            used |= self._saved.fields.keys()
        self._fingerprints = {
            name: fingerprints for name, fingerprints in self._fingerprints.items() if name in used
        }

    def plan_rebuild(
        self, popularity: Callable[[], Floats]
    ) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Return an index that has changed much, or a joined one, and a function that builds it; None if there is none.

        Shapes:
            popularity: float [n], one for each row of the catalog
        """
        # One build runs at a time: that of an index that is not ready has failed.
        self._fields = {key: field for key, field in self._fields.items() if field.is_ready}
        for field in self._fields.values():
            if field.needs_rebuild:
                return field, field.plan_rebuild(popularity())
        return self._plan_join(popularity)

    def _plan_join(
        self, popularity: Callable[[], Floats]
    ) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Plan the index of accesses that are often read together, so that their number costs nothing."""
        for key in [key for key, count in self._searches.items() if count >= FREQUENT]:
            del self._searches[key]
            accesses = split_accesses(key.access or "")
            parts = [self._fields.get(key._replace(access=access)) for access in accesses]
            present = [part for part in parts if part is not None]
            joined = sum(len(self._fields[key]) for key in self._fields if _is_joined(key))
            if len(present) < len(parts) or joined + sum(map(len, present)) > MOST_JOINED:
                continue
            self._fields[key], build = FieldIndex.join(present, popularity())
            return self._fields[key], build
        if len(self._searches) == _MOST_COUNTED:
            self._searches.clear()
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
        if before is not None and rows > before * (1 - STALE_SHARE):
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
