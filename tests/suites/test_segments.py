"""Settled segments over a local directory and over an object store: what is appended is loaded, crash or no crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.artifacts.compaction import MergeRules
from cluster.artifacts.replaced_products import read_versions
from cluster.artifacts.segment_format import INTERACTIONS, LOADED_INTERACTIONS, RECORDS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, RetryPolicy
from cluster.errors import Conflict, Fault
from tests.fakes.bucket import Bucket
from tests.fakes.dying_shelf import DyingArtifactStore, Killed

pytestmark = pytest.mark.slow

SMALL = MergeRules(runs=3, full_rows=1_000_000, piece_bytes=400)


class FixedClock:
    def __init__(self, at_ms: int = 1_800_000_000_000) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_s(self) -> float:
        return self.at_ms / 1000


@pytest.fixture(params=["directory", "bucket"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    if request.param == "directory":
        return ArtifactStore.open(tmp_path / "shelf")
    patience = RetryPolicy(attempts=2, pause_s=0.0)
    return ArtifactStore(Bucket().filesystem(), "store", local=False, patience=patience)


@pytest.fixture
def segments(artifacts: ArtifactStore) -> SegmentStore:
    return SegmentStore(artifacts, FixedClock(), SMALL)


def products(offset: str, *rows: tuple[str, int | None], embedder: str = "e-1") -> Any:
    """Rows of (id, version); a version of None is a removal."""
    return pa.Table.from_pylist(
        [
            {
                "id": product_id,
                "gone": version is None,
                "offset": offset,
                "product_type": None if version is None else "book",
                "embedder": None if version is None else embedder,
                "vector": None if version is None else np.full(4, version, np.float16).tobytes(),
                "json": None
                if version is None
                else b'{"product_id":"%s","v":%d}' % (product_id.encode(), version),
            }
            for product_id, version in rows
        ],
        schema=RECORDS,
    )


def clicks(offset: str, *user_keys: str) -> Any:
    return pa.Table.from_pylist(
        [
            {
                "reader": user_key,
                "type": "click",
                "at_ms": 1_000,
                "product_ids": ["p1"],
                "value": 0.0,
                "offset": offset,
                "json": b'{"type":"click"}',
            }
            for user_key in user_keys
        ],
        schema=INTERACTIONS,
    )


def jsons(segments: SegmentStore, app_id: str = "shop") -> set[bytes]:
    return {product.json for product in segments.load(app_id).products}


def readers(segments: SegmentStore) -> list[str]:
    user_keys: list[str] = segments.load("shop").interactions["reader"].to_pylist()
    return user_keys


def test_what_was_written_between_two_offsets_is_read_as_it_stands_now(segments: SegmentStore) -> None:
    segments.append("shop", "product", products("1-0", ("old", 1), ("again", 1)), first="1-0", last="1-0")
    second = pa.concat_tables([products("2-0", ("again", 2), ("gone", 2)), products("3-0", ("new", 3))])
    segments.append("shop", "product", second, first="2-0", last="3-0")
    segments.append("shop", "product", products("4-0", ("gone", None), ("last", 4)), first="4-0", last="4-0")
    for _ in range(2):
        records_between = segments.load_records_between("shop", "product", "1-0", "3-0")
        assert [(offset, len(records)) for offset, records in records_between] == [("2-0", 1), ("3-0", 1)]
        assert records_between[0][1] == [b'{"product_id":"again","v":2}']
        assert segments.load_records_between("shop", "product", "4-0", "9-0") == []
        assert len(segments.load_records_between("shop", "product", "0", "9-0")) == 4
        segments.compact("shop", "product", whole=True)


def test_nothing_settled_loads_as_nothing(segments: SegmentStore) -> None:
    state = segments.load("shop")
    assert (state.offsets, list(state.products), state.products.embedder) == ({}, [], "")
    assert state.interactions.schema == LOADED_INTERACTIONS
    assert state.interactions.num_rows == 0


def test_the_newest_version_of_a_product_is_loaded_with_its_vector(segments: SegmentStore) -> None:
    segments.append(
        "shop", "product", products("10-0", ("p1", 1), ("p2", 1), ("p1", 2)), first="10-0", last="10-0"
    )
    segments.append("shop", "product", products("11-0", ("p2", 7), ("p3", 1)), first="11-0", last="11-2")
    segments.append("shop", "product", products("12-0", ("p3", None)), first="12-0", last="12-0")

    state = segments.load("shop")

    vectors = {product.json: product.vector for product in state.products}
    assert set(vectors) == {b'{"product_id":"p1","v":2}', b'{"product_id":"p2","v":7}'}
    vector = vectors[b'{"product_id":"p2","v":7}']
    assert vector is not None
    assert vector.dtype == np.float16
    assert vector.tolist() == [7.0] * 4
    assert state.products.embedder == "e-1"
    assert state.offsets == {"product": "12-0"}


def test_vectors_of_an_older_embedder_are_left_out(segments: SegmentStore) -> None:
    segments.append("shop", "product", products("1-0", ("p1", 1), embedder="e-0"), first="1-0", last="1-0")
    segments.append("shop", "product", products("2-0", ("p2", 2), embedder="e-1"), first="2-0", last="2-0")
    state = segments.load("shop")
    assert state.products.embedder == "e-1"
    assert {p.json: p.vector is None for p in state.products} == {
        b'{"product_id":"p1","v":1}': True,
        b'{"product_id":"p2","v":2}': False,
    }


def test_interactions_stay_in_order_and_apps_apart(segments: SegmentStore) -> None:
    segments.append("shop", "interaction", clicks("1-0", "u:a", "a:b"), first="1-0", last="1-0")
    segments.append("other", "interaction", clicks("1-0", "u:z"), first="1-0", last="1-0")
    segments.append("shop", "interaction", clicks("9-0", "u:c"), first="2-0", last="10-0")
    segments.append("shop", "interaction", clicks("11-0", "u:d"), first="11-0", last="11-0")
    assert readers(segments) == ["u:a", "a:b", "u:c", "u:d"]
    assert segments.load("shop").interactions.schema == LOADED_INTERACTIONS


def test_appending_what_is_covered_changes_nothing(segments: SegmentStore) -> None:
    assert segments.append("shop", "interaction", clicks("5-0", "u:a"), first="4-0", last="5-0")
    assert not segments.append("shop", "interaction", clicks("5-0", "u:a"), first="4-0", last="5-0")
    with pytest.raises(Fault, match="overlap"):
        segments.append("shop", "interaction", clicks("6-0", "u:a"), first="5-0", last="6-0")
    assert readers(segments) == ["u:a"]


def test_an_empty_table_only_moves_the_offset(segments: SegmentStore) -> None:
    segments.append("shop", "interaction", INTERACTIONS.empty_table(), first="1-0", last="3-0")
    assert segments.offsets("shop") == {"interaction": "3-0"}
    assert readers(segments) == []


def test_erased_readers_are_in_no_file(segments: SegmentStore, artifacts: ArtifactStore) -> None:
    segments.append("shop", "interaction", clicks("1-0", "u:ann", "u:bob"), first="1-0", last="1-0")
    segments.append("shop", "interaction", clicks("2-0", "u:bob"), first="2-0", last="2-0")
    segments.append("shop", "interaction", clicks("3-0", "a:ann-phone"), first="3-0", last="3-0")

    assert segments.erase("shop", "interaction", ["u:ann", "a:ann-phone"]) == 2
    assert segments.erase("shop", "interaction", ["u:ann", "a:ann-phone"]) == 0

    assert readers(segments) == ["u:bob", "u:bob"]
    assert segments.offsets("shop") == {"interaction": "3-0"}
    for entry in artifacts.entries("shop"):
        if entry.path.endswith(".parquet"):
            table = pa.parquet.read_table(pa.BufferReader(artifacts.read(entry.path)))
            assert not {"u:ann", "a:ann-phone"} & set(table["reader"].to_pylist())


def test_erased_user_records_leave_no_row_behind(segments: SegmentStore) -> None:
    segments.append("shop", "user", products("1-0", ("ann", 1), ("bob", 1)), first="1-0", last="1-0")
    segments.append("shop", "user", products("2-0", ("ann", 2)), first="2-0", last="2-0")
    assert segments.erase("shop", "user", ["ann"]) == 2
    assert segments.records("shop", "user") == [b'{"product_id":"bob","v":1}']


def test_compaction_keeps_the_newest_and_drops_the_removed(
    segments: SegmentStore, artifacts: ArtifactStore
) -> None:
    for step in range(1, 7):
        table = products(f"{step}-0", ("p1", step), (f"p{step}", step), ("p2", None if step == 6 else step))
        segments.append("shop", "product", table, first=f"{step}-0", last=f"{step}-0")
    before = jsons(segments)

    assert segments.compact("shop", "product", whole=True)

    assert jsons(segments) == before
    ids = [
        row
        for entry in artifacts.entries("shop/segments")
        if entry.path.endswith(".parquet")
        for row in pa.parquet.read_table(pa.BufferReader(artifacts.read(entry.path)))["id"].to_pylist()
    ]
    assert sorted(ids) == ["p1", "p3", "p4", "p5", "p6"]
    versions = read_versions(artifacts, "shop").select(["offset", "id", "gone"]).to_pylist()
    names = [(f"{step}-0", name) for step in range(1, 7) for name in ("p1", f"p{step}", "p2")]
    assert [(row["offset"], row["id"]) for row in versions] == names
    assert [(row["offset"], row["id"]) for row in versions if row["gone"]] == [("6-0", "p2")]
    assert segments.offsets("shop") == {"product": "6-0"}


def test_versions_keep_the_order_of_their_upload_through_several_merges(artifacts: ArtifactStore) -> None:
    clock = FixedClock()
    segments = SegmentStore(artifacts, clock, SMALL)
    names = [f"p{number}" for number in (5, 3, 8, 1, 9, 2)]
    written = [("1-0", name) for name in names]
    segments.append(
        "shop", "product", products("1-0", *((name, 1) for name in names)), first="1-0", last="1-0"
    )
    for step, changed in enumerate((("p8", "p2"), ("p5",), ("p9", "p8"), ("p3",)), start=2):
        offset = f"{step}-0"
        written += [(offset, name) for name in changed]
        table = products(offset, *((name, step) for name in changed))
        segments.append("shop", "product", table, first=offset, last=offset)
        assert segments.compact("shop", "product", whole=True)
        clock.at_ms += 1_000
        versions = read_versions(artifacts, "shop").select(["offset", "id"]).to_pylist()
        assert [(row["offset"], row["id"]) for row in versions] == written


def test_a_removal_outlives_a_merge_that_leaves_older_segments_alone(segments: SegmentStore) -> None:
    many = [(f"p{n}", 1) for n in range(20)]
    segments.append("shop", "product", products("1-0", *many), first="1-0", last="1-0")
    for step, row in enumerate((("p0", None), ("p1", 2), ("p2", None)), start=2):
        segments.append("shop", "product", products(f"{step}-0", row), first=f"{step}-0", last=f"{step}-0")
    before = jsons(segments)
    assert len(before) == 18
    assert segments.compact("shop", "product")
    assert len(segments._files.manifest("shop").files) < 4, "nothing was merged"
    assert jsons(segments) == before


def test_compaction_merges_many_small_segments_into_few(
    segments: SegmentStore, artifacts: ArtifactStore
) -> None:
    for step in range(1, 41):
        user_keys = [f"u:{step}-{n}" for n in range(3)]
        segments.append(
            "shop", "interaction", clicks(f"{step}-0", *user_keys), first=f"{step}-0", last=f"{step}-0"
        )
        segments.compact("shop", "interaction")
    files = [entry for entry in artifacts.entries("shop") if entry.path.endswith(".parquet")]
    runs = {entry.path.split("-")[1] for entry in files}
    assert len(runs) <= 7
    assert readers(segments) == [f"u:{step}-{n}" for step in range(1, 41) for n in range(3)]


def test_a_merge_keeps_the_order_of_the_last_writes(segments: SegmentStore) -> None:
    writes = [["a", "b", "c"], ["d"], ["b", "e"], ["f"], ["a"], ["g"], ["h"]]
    for at, ids in enumerate(writes, 1):
        segments.append(
            "shop",
            "product",
            products(f"{at}-0", *((name, at) for name in ids)),
            first=f"{at}-0",
            last=f"{at}-0",
        )
    before = [product.json for product in segments.load("shop").products]
    assert [orjson.loads(json)["product_id"] for json in before] == list("cdbefagh")
    assert segments.compact("shop", "product", whole=True)
    assert [product.json for product in segments.load("shop").products] == before
    assert segments.records("shop", "product", newest=2) == before[:-3:-1]


def test_a_second_writer_of_the_same_sequence_gets_a_conflict(
    segments: SegmentStore, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = SegmentStore(artifacts, FixedClock(), SMALL)
    seen = late._files.manifest("shop")
    segments.append("shop", "interaction", clicks("1-0", "u:a"), first="1-0", last="1-0")
    monkeypatch.setattr(late._files, "manifest", lambda app_id: seen)
    with pytest.raises(Conflict):
        late.append("shop", "interaction", clicks("1-0", "u:a"), first="1-0", last="1-0")
    assert readers(segments) == ["u:a"]


# --- crashes ----------------------------------------------------------------------------------------------------


def _grow(segments: SegmentStore) -> None:
    for step in range(1, 4):
        segments.append(
            "shop",
            "product",
            products(f"{step}-0", ("p1", step), ("p2", 1)),
            first=f"{step}-0",
            last=f"{step}-0",
        )
        segments.append(
            "shop", "interaction", clicks(f"{step}-0", "u:a", "u:b"), first=f"{step}-0", last=f"{step}-0"
        )


CHANGES: dict[str, Callable[[SegmentStore], object]] = {
    "append": lambda s: s.append(
        "shop", "product", products("4-0", ("p1", None), ("p3", 1)), first="4-0", last="4-0"
    ),
    "erase": lambda s: s.erase("shop", "interaction", ["u:a"]),
    "compact": lambda s: s.compact("shop", "product", whole=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_writer_killed_at_any_step_leaves_the_old_or_the_new_state(
    artifacts: ArtifactStore, change: str
) -> None:
    steps = 0
    while True:
        dying = DyingArtifactStore(artifacts)
        segments = SegmentStore(dying, FixedClock(), SMALL)
        segments.drop("shop")
        _grow(segments)
        before = (jsons(segments), readers(segments), segments.offsets("shop"))
        dying.life = steps
        finished = True
        try:
            CHANGES[change](segments)
        except Killed:
            finished = False
        again = SegmentStore(artifacts, FixedClock(), SMALL)
        state = (jsons(again), readers(again), again.offsets("shop"))
        CHANGES[change](again)
        again.tidy("shop")
        after = (jsons(again), readers(again), again.offsets("shop"))
        assert state in (before, after)
        assert again.verify("shop") == []
        if finished:
            break
        steps += 1
    assert steps >= 4, "the change took no step that could be interrupted"


def test_what_a_killed_writer_left_is_tidied(artifacts: ArtifactStore) -> None:
    dying = DyingArtifactStore(artifacts)
    segments = SegmentStore(dying, FixedClock(), SMALL)
    _grow(segments)
    dying.life = 4  # segment and manifest are written, nothing is removed yet
    with pytest.raises(Killed):
        segments.erase("shop", "interaction", ["u:a"])
    paths = [entry.path for entry in artifacts.entries("shop")]
    again = SegmentStore(artifacts, FixedClock(), SMALL)
    assert again.tidy("shop") > 0
    assert len(artifacts.entries("shop")) < len(paths)
    assert again.verify("shop") == []


def test_a_reader_survives_the_files_being_replaced_while_it_reads(
    artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentStore(artifacts, FixedClock(), SMALL)
    _grow(writer)
    expected = jsons(writer)
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    read = artifacts.read
    left = [1]

    def read_late(path: str, most: int | None = None) -> bytes:
        if path.endswith(".parquet") and left[0]:
            left[0] = 0
            writer.compact("shop", "product", whole=True)
        return read(path, most)

    monkeypatch.setattr(artifacts, "read", read_late)
    assert jsons(segments) == expected
    assert left == [0]


# --- damage -----------------------------------------------------------------------------------------------------


def test_every_truncation_and_flipped_bit_is_refused_and_the_rest_can_be_salvaged(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    segments.append("shop", "product", products("1-0", ("p1", 1)), first="1-0", last="1-0")
    whole = segments.load("shop")
    (path,) = [entry.path for entry in artifacts.entries("shop") if entry.path.endswith(".parquet")]
    data = artifacts.read(path)
    segments.append("shop", "product", products("2-0", ("p2", 1)), first="2-0", last="2-0")
    rng = random.Random(16)
    damages = [data[: rng.randrange(len(data))] for _ in range(50)]
    for _ in range(1_000):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        damages.append(bytes(flipped))
    for damage in damages:
        (tmp_path / path).write_bytes(damage)
        with pytest.raises(Fault) as refused:
            segments.load("shop")
        assert refused.value.facts["path"] == path
    state = segments.load("shop", salvage=True)
    assert state.damaged == (path,)
    assert [product.json for product in state.products] == [b'{"product_id":"p2","v":1}']
    assert [damage.path for damage in segments.verify("shop")] == [path]
    assert len(whole.products) == 1


def test_swapped_segments_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    _grow(segments)
    first_path, second_path = [
        entry.path for entry in artifacts.entries("shop") if "/product-" in entry.path
    ][:2]
    first, second = artifacts.read(first_path), artifacts.read(second_path)
    (tmp_path / first_path).write_bytes(second)
    (tmp_path / second_path).write_bytes(first)
    with pytest.raises(Fault, match="damaged"):
        segments.load("shop")
    (tmp_path / first_path).write_bytes(first)
    (tmp_path / second_path).unlink()
    with pytest.raises(Fault, match="missing"):
        segments.load("shop")


def test_a_noun_can_be_written_anew_and_a_damaged_segment_given_up(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    _grow(segments)
    segments.rebuild(
        "shop", "product", [products("9-0", ("new", 9)), products("9-0", ("other", 9))], last="9-0"
    )
    assert jsons(segments) == {b'{"product_id":"new","v":9}', b'{"product_id":"other","v":9}'}
    assert segments.offsets("shop") == {"product": "9-0", "interaction": "3-0"}
    assert segments.append("shop", "product", products("10-0", ("new", None)), first="10-0", last="10-0")
    assert jsons(segments) == {b'{"product_id":"other","v":9}'}

    path = next(entry.path for entry in artifacts.entries("shop") if "/interaction-" in entry.path)
    (tmp_path / path).write_bytes(b"")
    (damage,) = segments.verify("shop")
    assert (damage.path, damage.noun) == (path, "interaction")
    assert segments.verify("shop", ["product"]) == []
    with pytest.raises(Fault):
        segments.erase("shop", "interaction", ["u:a"])
    assert segments.discard("shop", damage)
    assert not segments.discard("shop", damage)
    assert segments.erase("shop", "interaction", ["u:a"]) == 2
    assert segments.verify("shop") == []


def test_a_segment_with_other_columns_is_refused(tmp_path: Path) -> None:
    segments = SegmentStore(ArtifactStore.open(tmp_path), FixedClock(), SMALL)
    segments.append("shop", "product", clicks("1-0", "u:a"), first="1-0", last="1-0")
    with pytest.raises(Fault, match="can't be read"):
        segments.load("shop")


def test_a_damaged_manifest_is_refused_and_nothing_is_written_over_it(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    _grow(segments)
    path = [entry.path for entry in artifacts.entries("shop") if "manifest" in entry.path][-1]
    data = bytearray(artifacts.read(path))
    data[100] ^= 1
    (tmp_path / path).write_bytes(bytes(data))
    for act in (lambda: segments.load("shop"), lambda: CHANGES["append"](segments)):
        with pytest.raises(Fault, match="manifest is damaged"):
            act()
    assert (tmp_path / path).read_bytes() == bytes(data)


# --- any history ------------------------------------------------------------------------------------------------

PUT = st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=5))
CLICK = st.tuples(st.just("click"), st.lists(st.integers(0, 5), max_size=5))
ERASE = st.tuples(st.just("erase"), st.lists(st.integers(0, 5), min_size=1, max_size=2))
COMPACT = st.tuples(st.just("compact"), st.booleans())
HISTORY = st.lists(
    st.tuples(st.one_of(PUT, CLICK, ERASE, COMPACT), st.none() | st.integers(0, 8)), max_size=12
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORY)
def test_any_history_with_crashes_equals_the_same_history_in_a_dictionary(history: Any) -> None:
    """Every change interrupted somewhere and done again has the effect of being done once."""
    artifacts = ArtifactStore(Bucket().filesystem(), "store", local=False, patience=RetryPolicy(attempts=1))
    catalog: dict[str, int] = {}
    log: list[str] = []
    for at, ((kind, what), dies_at) in enumerate(history, start=1):
        offset = f"{at}-0"

        def change(
            segments: SegmentStore, kind: str = kind, what: Any = what, offset: str = offset, at: int = at
        ) -> None:
            if kind == "put":
                rows = [(f"p{n}", None if gone else at) for n, gone in what]
                segments.append("shop", "product", products(offset, *rows), first=offset, last=offset)
            elif kind == "click":
                segments.append(
                    "shop",
                    "interaction",
                    clicks(offset, *(f"u:{n}" for n in what)),
                    first=offset,
                    last=offset,
                )
            elif kind == "erase":
                segments.erase("shop", "interaction", [f"u:{n}" for n in what])
            else:
                segments.compact("shop", "product", whole=what)
                segments.compact("shop", "interaction", whole=what)

        if dies_at is not None:
            dying = DyingArtifactStore(artifacts)
            dying.life = dies_at
            try:
                change(SegmentStore(dying, FixedClock(), SMALL))
            except Killed:
                change(SegmentStore(artifacts, FixedClock(), SMALL))
        else:
            change(SegmentStore(artifacts, FixedClock(), SMALL))
        if kind == "put":
            for n, gone in what:
                catalog.pop(f"p{n}", None) if gone else catalog.__setitem__(f"p{n}", at)
        elif kind == "click":
            log += [f"u:{n}" for n in what]
        elif kind == "erase":
            log = [user_key for user_key in log if user_key not in {f"u:{n}" for n in what}]
    segments = SegmentStore(artifacts, FixedClock(), SMALL)
    assert jsons(segments) == {b'{"product_id":"%s","v":%d}' % (i.encode(), v) for i, v in catalog.items()}
    assert readers(segments) == log
