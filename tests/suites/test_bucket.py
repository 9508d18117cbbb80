"""The artifact store in a bucket of a real S3 server, and what faults between both do."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from cluster.artifacts.manifest import FileEntry, Manifest, save_manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore, RetryPolicy, checksum
from cluster.artifacts.storage.node_cache import NodeCache
from cluster.errors import Conflict, Fault, NotFound, Unavailable
from cluster.store.connect import OpenStores
from cluster.store.writer_lock import lock_writer
from tests.fakes.fault_proxy import FaultProxy
from tests.suites.bucket_outage import Outage
from tests.suites.s3_server import ENVIRONMENT, SERVERS, address, run_server
from tests.suites.test_segments import SMALL, FixedClock, products

SOON = RetryPolicy(attempts=4, pause_s=0.02, longest_s=0.05)


@dataclass
class S3:
    """A server, a proxy in front of it, and what opens stores there."""

    kind: str
    proxy: FaultProxy
    folder: Path
    redis_url: str

    def store(self, node: str = "node", prefix: str = "", patience: RetryPolicy = SOON) -> ArtifactStore:
        cache = NodeCache(self.folder / node, 1 << 30, reserve_bytes=0)
        lock = partial(lock_writer, self.redis_url)
        where = address(self.proxy.port, prefix or self.folder.name)
        return ArtifactStore.open(where, cache=cache, patience=patience, writer_lock=lock)


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    try:
        with run_server(request.param, tmp_path_factory.mktemp(request.param)) as port:
            yield request.param, port
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def s3(server: tuple[str, int], tmp_path: Path, redis_url: str) -> Iterator[S3]:
    proxy = FaultProxy(server[1])
    proxy.markers = server[0] != "localbucket"
    try:
        yield S3(server[0], proxy, tmp_path, redis_url)
    finally:
        proxy.close()


def first(count: int, fault: str, *, verb: str = "") -> Callable[[str, str], str]:
    """The first requests (of a method) have a fault."""
    left = [count]

    def rule(method: str, path: str) -> str:
        if verb not in ("", method) or not left[0]:
            return ""
        left[0] -= 1
        return fault

    return rule


def after(count: int, fault: str) -> Callable[[str, str], str]:
    """All changes behind the first few have a fault."""
    left = [count]

    def rule(method: str, path: str) -> str:
        left[0] -= method != "GET" and method != "HEAD"
        return fault if left[0] < 0 else ""

    return rule


def test_what_is_written_is_read_listed_copied_and_removed(s3: S3, tmp_path: Path) -> None:
    store = s3.store()
    body = random.Random(1).randbytes(11 << 20)  # more than one part of an upload
    (tmp_path / "body").write_bytes(body)
    store.write("shop/a.bin", b"one")
    store.upload("shop/deep/b.bin", tmp_path / "body")
    assert store.read("shop/a.bin") == b"one"
    assert [(stored.path, stored.size) for stored in store.entries("shop")] == [
        ("shop/a.bin", 3),
        ("shop/deep/b.bin", len(body)),
    ]
    assert store.folders("shop") == ["deep"]
    assert store.entries("nobody") == []
    entry = FileEntry("b.bin", len(body), checksum(body))
    copy = store.node_copy("shop/deep/b.bin", "shop/deep", [entry])
    assert (copy / "b.bin").read_bytes() == body
    before = len(s3.proxy.requests)
    assert s3.store().node_copy("shop/deep/b.bin", "shop/deep", [entry]) == copy
    assert len(s3.proxy.requests) == before, "another process of the node asks the bucket for nothing"
    assert store.remove("shop/a.bin")
    assert store.size("shop/a.bin") is None
    with pytest.raises(NotFound):
        store.read("shop/a.bin")


def test_of_many_writers_of_one_manifest_one_wins(s3: S3) -> None:
    """By the server's own condition, or by the lock where it ignores the condition."""

    def write(number: int) -> bool:
        manifest = Manifest("segments", 1, number)
        try:
            save_manifest(stores[number], "shop/segments/manifest-000000000001.json", manifest)
        except Conflict:
            return False
        return True

    stores = [s3.store(f"node{number}") for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        won = list(threads.map(write, range(6)))
    assert sum(won) == 1
    stored = Manifest.parse(stores[0].read("shop/segments/manifest-000000000001.json"), kind="segments")
    assert stored.written_at_ms == won.index(True)
    conditions = [request for request in s3.proxy.requests if "kiosk-probe" in request[1]]
    assert conditions, "the server was asked whether it enforces conditions"
    assert not [entry for entry in stores[0].entries("") if "probe" in entry.path]


def test_a_write_whose_answer_was_lost_is_no_conflict_with_itself(s3: S3) -> None:
    if s3.kind != "localbucket":
        pytest.skip("this server has no conditional writes")
    store = s3.store()
    store.write("warm", b"up", new=True)
    with s3.proxy.faulty(first(1, "lost", verb="PUT")):
        store.write("manifest", b"ours", new=True)
    assert store.read("manifest") == b"ours"
    with s3.proxy.faulty(first(1, "500", verb="PUT")), pytest.raises(Conflict):
        store.write("manifest", b"theirs", new=True)


@pytest.mark.parametrize("fault", ["500", "cut", "wrong", "away", "slow 0.3"])
def test_a_fault_that_passes_costs_time_and_nothing_else(s3: S3, fault: str) -> None:
    store = s3.store()
    body = random.Random(2).randbytes(200_000)
    facts = {"size": len(body), "sha256": checksum(body)}
    store.write("a/b", body)
    with s3.proxy.faulty(first(2, fault, verb="GET")):
        assert store.read_copied("a/b", **facts) == body
    with s3.proxy.faulty(first(2, fault if fault in ("500", "away") else "slow 0.1", verb="PUT")):
        store.write("a/c", body)
    assert store.read_checked("a/c", **facts) == body


def test_bytes_that_stay_wrong_are_refused_and_leave_no_copy(s3: S3) -> None:
    store = s3.store()
    store.write("a/b", b"good")
    always = s3.proxy.faulty(lambda method, path: "wrong" if method == "GET" else "")
    with always, pytest.raises(Fault, match="damaged"):
        store.node_copy("a/b", "a", [FileEntry("b", 4, checksum(b"good"))])
    assert not list((s3.folder / "node").glob("*/b"))


def test_while_the_bucket_is_away_copies_serve_and_errors_are_plain(s3: S3) -> None:
    store = s3.store()
    store.write("a/b", b"good")
    facts = {"size": 4, "sha256": checksum(b"good")}
    store.read_copied("a/b", **facts)
    with s3.proxy.away():
        assert s3.store().read_copied("a/b", **facts) == b"good"
        with pytest.raises(Unavailable) as away:
            store.read("a/b")
    assert "secret" not in str(away.value)
    assert store.read("a/b") == b"good"


def test_a_compaction_that_the_bucket_interrupts_publishes_nothing_by_halves(s3: S3) -> None:
    def compact(segments: SegmentStore, number: int) -> None:
        offset = f"{number}-0"
        segments.append("shop", "product", products(offset, ("p1", number)), first=offset, last=offset)

    impatient = SegmentStore(s3.store(patience=RetryPolicy(attempts=1)), FixedClock(), SMALL)
    patient = SegmentStore(s3.store("other"), FixedClock(), SMALL)
    compact(impatient, 1)
    landed = []
    for broken in (1, 2, 3, 4, 5):
        with s3.proxy.faulty(after(broken - 1, "500")):
            try:
                compact(impatient, broken + 1)
                landed.append(True)
            except Unavailable:
                landed.append(False)
        for segments in (impatient, patient, SegmentStore(s3.store("new"), FixedClock(), SMALL)):
            state = segments.load("shop")
            # the whole change or nothing of it, whatever node asks
            assert state.offsets["product"] in (f"{broken}-0", f"{broken + 1}-0")
            version = state.offsets["product"].partition("-")[0]
            assert [product.json for product in state.products] == [
                b'{"product_id":"p1","v":%s}' % version.encode()
            ]
        compact(patient, broken + 1)
        assert patient.offsets("shop")["product"] == f"{broken + 1}-0"
    assert not all(landed)


def test_snapshots_are_published_and_fetched_through_the_bucket(s3: S3, tmp_path: Path) -> None:
    built = tmp_path / "built"
    (built / "part").mkdir(parents=True)
    body = random.Random(3).randbytes(50_000)
    (built / "part" / "x.npy").write_bytes(body)
    entry = FileEntry("part/x.npy", len(body), checksum(body))
    manifest = Manifest("snapshot", 1, facts={"version": "0123456789abcdef"}, files=(entry,))
    (built / "manifest.json").write_bytes(manifest.dump())
    ours = SnapshotStore(s3.store())
    before_last = s3.proxy.faulty(
        lambda method, path: "500" if "manifest" in path and method == "PUT" else ""
    )
    with before_last, pytest.raises(Unavailable):
        SnapshotStore(s3.store()).publish("shop", "default", built)
    assert ours.versions("shop", "default") == []
    assert ours.publish("shop", "default", built) == "0123456789abcdef"
    folder, stored = SnapshotStore(s3.store("other")).fetch("shop", "default", "0123456789abcdef")
    assert (folder / "part" / "x.npy").read_bytes() == body
    assert stored.files == manifest.files
    ours.remove("shop", "default", "0123456789abcdef")
    assert s3.store("other").sweep_copies() == 1
    assert not folder.exists()


async def test_while_the_bucket_is_away_an_engine_serves_and_jobs_wait(
    s3: S3, redis_stores: OpenStores, tmp_path: Path
) -> None:
    if s3.kind != "localbucket":
        pytest.skip("one server is enough for the time that this takes")
    outage = Outage(redis_stores, lambda node: s3.store(node), tmp_path / "scratch")
    await outage.prepare()
    result = await outage.run(s3.proxy.away(), 1.0)
    print(f"\naway for 1 s: {result}")
    assert (result.errors, result.versions) == (0, 2)
    assert result.answers > 20
    assert result.waited


def test_a_lock_excludes_other_writers_and_ends_with_its_owner(redis_url: str) -> None:
    with lock_writer(redis_url, "shop/manifest"):
        began_s = time.monotonic()
        second = lock_writer(redis_url, "shop/manifest", wait_s=0.1)
        with pytest.raises(Unavailable, match="another process writes"), second:
            pass
        assert time.monotonic() - began_s < 5
        with lock_writer(redis_url, "shop/other", wait_s=0.1):
            pass
    with lock_writer(redis_url, "shop/manifest", wait_s=0.1):
        pass
    nowhere = lock_writer("redis://127.0.0.1:9", "shop/manifest")
    with pytest.raises(Unavailable, match="the store can't be reached"), nowhere:
        pass
