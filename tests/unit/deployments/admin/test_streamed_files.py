"""Files over HTTP: the body is the file, the other arguments stand in the query string."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from cluster.artifacts.storage.artifact_store import ArtifactStore
from deployments.admin import endpoint
from deployments.edge.http.body_pace import MOST_UPLOADS_EACH, BodyPace
from deployments.operations.framework.services import AdminConfig
from deployments.operations.open_admin import open_admin
from tests.fakes.administration import VAULT, add_apps, add_person, bearer, give_token, serve
from tests.fakes.asgi import HungUp, call
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock


async def test_a_file_is_uploaded_in_pieces(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    stores = memory_stores(clock)
    await add_apps(stores)
    await add_person(stores, "ed", shop="editor")
    artifacts = ArtifactStore.open(tmp_path / "artifacts")
    config = AdminConfig(data_dir=tmp_path / "data")
    app = serve(open_admin(stores, VAULT, clock, artifacts, config=config))  # type: ignore[arg-type]
    headers = bearer(await give_token(stores, "ed"))
    path = "/v1/admin/apps/shop/imports"
    answer = await call(
        app,
        "POST",
        f"{path}?noun=product&file_name=a%2Fb.csv",
        headers=headers,
        chunks=[b"product_id\n", b"x\n"],
    )
    assert answer.status == 200, answer.body
    data = answer.json()["data"]
    assert (data["file_name"], data["size"], data["format"]) == ("a/b.csv", 13, "csv")
    preview = await call(app, "POST", f"{path}/{data['import_id']}/preview", headers=headers, json={})
    assert preview.json()["data"]["preview"]["rows"] == 1
    wrong = await call(app, "POST", f"{path}?noun=plant", headers=headers, chunks=[b"x"])
    assert wrong.status == 422
    with pytest.raises(HungUp):
        await call(app, "POST", f"{path}?noun=product", headers=headers, chunks=[b"x"], hang_up=True)
    listed = (await call(app, "GET", path, headers=headers)).json()["data"]["imports"]
    assert [stored["import_id"] for stored in listed] == [data["import_id"]]


async def test_slow_files_end_and_leave_places_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "FILE", BodyPace(0.1, 32 << 10))
    clock = ManualClock(NOW)
    stores = memory_stores(clock)
    await add_apps(stores)
    await add_person(stores, "ed", shop="editor")
    config = AdminConfig(data_dir=tmp_path / "data")
    artifacts = ArtifactStore.open(tmp_path / "artifacts")
    app = serve(open_admin(stores, VAULT, clock, artifacts, config=config))  # type: ignore[arg-type]
    headers = bearer(await give_token(stores, "ed"))

    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b"a"
            await asyncio.sleep(0.01)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:

        async def upload() -> int:
            path = "/v1/admin/apps/shop/imports?noun=product"
            return (await http.post(path, content=drip(), headers=headers)).status_code

        uploads = asyncio.gather(*(upload() for _ in range(30)))
        await asyncio.sleep(0.03)
        assert (await http.get("/v1/admin/apps", headers=headers)).status_code == 200
        assert Counter(await uploads) == {503: MOST_UPLOADS_EACH, 429: 30 - MOST_UPLOADS_EACH}
