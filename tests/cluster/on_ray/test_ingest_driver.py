"""Several files at once over Ray tasks, the intake actor applying."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import orjson
import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import NotFound, Unavailable
from cluster.records.apps import App
from cluster.store.connect import OpenStores, open_stores
from jobs.ingest.pipeline import IngestSpec
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.ray, pytest.mark.redis]


@pytest.mark.usefixtures("local_ray")
async def test_files_are_ingested_side_by_side_and_a_refusal_comes_back_as_itself(
    private_server: RedisProcess, tmp_path: Path
) -> None:
    import asyncio

    from jobs.ingest.driver import ingest_on_ray, sum_reports

    folder = tmp_path / "files"
    folder.mkdir()
    for part in range(3):
        rows = [{"user_id": f"u{part}-{n}"} for n in range(40)]
        (folder / f"{part}.jsonl").write_bytes(b"\n".join(orjson.dumps(row) for row in rows) + b"\n{bad\n")
    connect = partial(open_stores, private_server.url, slow_s=10.0)
    addresses: list[str] = []
    async with connect() as stores:
        await stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
        reports = await asyncio.to_thread(
            ingest_on_ray,
            IngestSpec(str(folder), "user", "shop", chunk=16),
            connect,
            partial(ArtifactStore.open, str(tmp_path / "shelf")),
            state_dir=tmp_path / "state",
            at_once=2,
            on_file=lambda address, report: addresses.append(address),
        )
        whole = sum_reports(reports, 1.0)
        assert (whole.rows, whole.accepted, whole.refused, len(addresses)) == (123, 120, 3, 3)
        assert len(await stores.records.ids("shop", "user")) == 120
        with pytest.raises(NotFound):
            await asyncio.to_thread(
                ingest_on_ray,
                IngestSpec(str(folder), "user", "nobody"),
                connect,
                partial(ArtifactStore.open, str(tmp_path / "shelf")),
                state_dir=tmp_path / "state",
            )


@pytest.mark.usefixtures("local_ray")
def test_a_task_that_dies_is_named_with_what_to_do(tmp_path: Path) -> None:
    from jobs.ingest.driver import ingest_on_ray

    def die() -> OpenStores:
        raise RuntimeError("not an error of Kiosk")

    (tmp_path / "users.jsonl").write_bytes(b'{"user_id": "u"}\n')
    reason = r"users\.jsonl ended with RuntimeError: not an error of Kiosk; run the same command again"
    with pytest.raises(Unavailable, match=reason):
        ingest_on_ray(
            IngestSpec(str(tmp_path / "users.jsonl"), "user", "shop"),
            die,
            partial(ArtifactStore.open, str(tmp_path / "shelf")),
            state_dir=tmp_path / "state",
        )
