"""`kiosk products` over a real Redis, and the REST API on a port as `kiosk up` leaves it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from typer.testing import CliRunner, Result

from cluster.crypto import key_text
from cluster.errors import Conflict, Invalid, KioskError, NotFound, Unavailable, Unprocessable
from cluster.paths import InstallationPaths
from cluster.process.installation_state import InstallationLock, InstallationState, save_state
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from deployments.cli.__main__ import command_line
from deployments.cli.content.products import check_changes, read_changes
from tests.contract.oauth.test_browser import serving
from tests.fakes.request_handler import MASTER, Corner, open_corner
from tests.suites.redis_process import RedisProcess

FORK = {
    "product_id": "fork", "title": "Hand fork", "type": "tool", "price": 9.5,
    "custom_attributes": {"teeth": 4, "set": "a"},
}  # fmt: skip


async def _run(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command_line(), ["products", *words])


async def _refusal(*words: str) -> KioskError:
    error = (await _run(*words)).exception
    assert isinstance(error, KioskError), error
    return error


async def _stored(corner: Corner, product_id: str) -> Any:
    await corner.apply()
    body = await corner.stores.records.get("shop", "product", product_id)
    return None if body is None else json.loads(body)


def _save_state(url: str) -> InstallationLock:
    places = InstallationPaths.from_data_dir(Settings().data_dir)
    places.make()
    state = {
        "phase": "ready", "pid": 7, "version": "1", "host": "127.0.0.1", "port": urlsplit(url).port, "started_at": 1,
        "data_dir": str(places.data_dir), "run_dir": str(places.run_dir), "logs_dir": str(places.logs_dir),
    }  # fmt: skip
    save_state(places, InstallationState.model_validate(state))
    lock = InstallationLock(places.lock)
    assert lock.acquire()
    return lock


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_server: RedisProcess) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("KIOSK_MASTER_KEY", key_text(MASTER))


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world", "settings")
async def test_a_product_is_changed_added_and_shown(redis_stores: OpenStores) -> None:
    corner = await open_corner(stores=redis_stores)
    async with serving(Starlette(routes=[Mount("/", app=corner.handler)])) as url:
        assert isinstance(await _refusal("set", "shop", "rake", "price=1", "--new"), Unavailable)
        lock = _save_state(url)
        try:
            added = await _run(
                "set", "shop", "fork", "title=Hand fork", "type=tool", "price=9.5", "custom_attributes.set=a",
                "custom_attributes.teeth:=4", "--new", "--json",
            )  # fmt: skip
            assert json.loads(added.stdout)["product"] == FORK, added.output
            assert await _stored(corner, "fork") == FORK
            assert isinstance(await _refusal("set", "shop", "fork", "price=1", "--new"), Conflict)
            changed = await _run(
                "set", "shop", "fork", "price=7.25", "availability=OUT_OF_STOCK", "tags=steel|garden",
                "custom_attributes.set=", "type=",
            )  # fmt: skip
            assert "Product fork of shop is changed." in changed.output
            assert await _stored(corner, "fork") == {
                "product_id": "fork", "title": "Hand fork", "price": 7.25, "availability": "OUT_OF_STOCK",
                "tags": ["steel", "garden"], "custom_attributes": {"teeth": 4},
            }  # fmt: skip
            assert "7.25" in (await _run("show", "shop", "fork")).output
            assert isinstance(await _refusal("set", "shop", "rake", "price=1"), NotFound)
            assert isinstance(await _refusal("set", "nowhere", "rake", "price=1", "--new"), NotFound)
            cheap = await _refusal("set", "shop", "fork", "price=cheap")
            assert isinstance(cheap, Unprocessable)
            assert "data.0.price is invalid" in cheap.message
            assert (await _stored(corner, "fork"))["price"] == 7.25
        finally:
            lock.release()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("prise=3", "there is no field 'prise'; did you mean price?"),
        ("price", "no FIELD=VALUE"),
        ("product_id=b", "can't be changed"),
        ("=3", "no FIELD=VALUE"),
    ],
)
def test_a_mistyped_change_is_refused_before_anything_is_opened(change: str, words: str) -> None:
    with pytest.raises(Invalid, match=words.replace("?", r"\?")):
        check_changes([change])


@pytest.mark.parametrize("change", ["title.en=Oak", "title.en:=1", "title.en=", "custom_attributes.size.x=1"])
def test_a_path_through_a_text_is_refused(change: str) -> None:
    record = {"title": "Oak board", "custom_attributes": {"size": "large", "legs": None}}
    with pytest.raises(Invalid, match="is no object, so it has no member"):
        read_changes([change], record)
    changed = read_changes(["custom_attributes.legs.back:=2", "custom_attributes.size="], record)
    assert changed == {"custom_attributes": {"legs": {"back": 2}}}


def test_a_value_that_is_no_json_is_named() -> None:
    with pytest.raises(Invalid, match="texts need FIELD=VALUE"):
        read_changes(["title:=Fork"], {})
