"""`kiosk forget` and `kiosk export-user` on a stopped installation, whose own Redis keeps a file."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from actors.intake.erasure import EXTERNAL
from actors.intake.personal_data import PLACES
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Conflict, Invalid, NotFound
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.records.erasure import ErasedPlace, Erasure
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import Follower
from cluster.store.data.person_traces import REDIS_PLACES
from deployments.cli.content.personal_data import write_private_file
from deployments.cli.framework.installation import Installation, read_clock_ms
from tests.fakes.command_runner import run_command, run_json
from tests.suites.canary import MAIL, USER, VISITOR, a_recent, traces_in_files

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


def _live() -> None:
    """Put a person into the store; her profile still waits in the intake."""

    async def put(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        await stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
        at = read_clock_ms()
        body = orjson.dumps([{"user_id": USER, "custom_attributes": {"mail": MAIL}}])
        await stores.intake.accept("shop", "user", "put", body, task_id=new_task_id(), total=1, now_ms=at)
        click = {"type": "click", "user_id": USER, "anonymous_id": VISITOR, "product_ids": ["p1"]}
        payload = orjson.dumps([{**click, "timestamp": "2026-03-01T09:15:30.250Z"}])
        await stores.interactions.append("shop", payload, [(USER, VISITOR, a_recent("p1", at))])
        # a replica that followed the log until the installation was stopped a moment ago
        await stores.changes.record_follower(
            "shop", Follower("replica", at, {"user": "0", "interaction": "0"})
        )

    Installation().administer(put)


def test_a_person_is_forgotten_down_to_the_file_of_redis(data_dir: Path) -> None:
    _live()
    assert any(USER in trace for trace in traces_in_files(data_dir))
    receipt = run_json("forget", "shop", "--user", USER)
    assert traces_in_files(data_dir) == []
    assert (receipt["status"], receipt["left"], receipt["by"]) == ("finished", 0, "command")
    counts = {place["place"]: place["found"] for place in receipt["places"]}
    assert (counts["recent list"], counts["links to visitors"]) == (2, 1)
    again = run_json("forget", "shop", "--receipt", receipt["erasure_id"])
    assert again == receipt
    (listed,) = run_json("forget", "shop", "--receipts")["erasures"]
    assert listed["erasure_id"] == receipt["erasure_id"]


def test_later_leaves_the_file_for_an_hour_and_ends_with_one(data_dir: Path) -> None:
    _live()
    result = run_command("forget", "shop", "--user", "-", "--later")  # nothing comes on standard input
    assert isinstance(result.exception, Invalid)
    receipt = run_json("forget", "shop", "--user", "-", "--later", typed=f"{USER}\n", code=1)
    (left,) = [place for place in receipt["places"] if place["left"]]
    assert left["place"] == "append-only file"
    assert left["until"] > receipt["finished_at"]
    shown = run_command("forget", "shop", "--receipt", receipt["erasure_id"])
    assert shown.exit_code == 1
    assert max(map(len, shown.stdout.splitlines())) <= 80, shown.stdout
    assert USER not in shown.stdout


def test_a_receipt_fits_eighty_columns(data_dir: Path) -> None:
    _live()
    places = tuple(
        ErasedPlace(place=name, found=10**9, left=10**9, until="2026-03-01T09:15:30.250Z", reason=EXTERNAL)
        for name in (*REDIS_PLACES, *PLACES)
    )
    receipt = Erasure(
        erasure_id=new_task_id(), app_id="shop", subject="f" * 24, request_id="r" * 16, created_at=0,
        finished_at=0, status="finished", places=places,
    )  # fmt: skip

    async def put(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        await stores.erasures.write(receipt)

    Installation().administer(put)
    shown = run_command("forget", "shop", "--receipt", receipt.erasure_id)
    assert shown.exit_code == 1
    assert max(map(len, shown.stdout.splitlines())) <= 80, shown.stdout
    assert "BGREWRITEAOF" in shown.stdout


def test_what_makes_no_sense_is_refused(data_dir: Path) -> None:
    _live()
    assert isinstance(run_command("forget", "nowhere", "--user", "x").exception, NotFound)
    assert isinstance(run_command("forget", "shop").exception, Invalid)
    assert isinstance(run_command("forget", "shop", "--user", "a", "--anonymous", "b").exception, Invalid)
    assert isinstance(run_command("forget", "shop", "--anonymous", VISITOR).exception, Conflict)
    assert isinstance(run_command("export-user", "shop").exception, Invalid)


def test_a_file_that_cannot_be_made_private_keeps_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, mode: int) -> None:
        raise PermissionError

    out = tmp_path / "person.jsonl"
    out.write_text("older, and longer")
    with monkeypatch.context() as patch:
        patch.setattr("os.fchmod", refuse)
        with pytest.raises(PermissionError):
            write_private_file(out, b"{}")
    assert out.read_text() == "older, and longer"
    write_private_file(out, b"{}")
    assert out.read_bytes() == b"{}"


def test_an_export_is_one_private_file_of_json_lines(data_dir: Path, tmp_path: Path) -> None:
    _live()
    out = tmp_path / "person.jsonl"
    out.write_text("older")
    out.chmod(0o644)
    assert run_command("export-user", "shop", "--user", USER, "--out", str(out)).exit_code == 0
    about, *rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert out.stat().st_mode & 0o777 == 0o600
    assert (about["user_id"], about["anonymous_ids"]) == (USER, [VISITOR])
    assert sum(about["places"].values()) == len(rows) > 0
    printed = run_command("export-user", "shop", "--user", USER)
    assert [json.loads(line) for line in printed.stdout.splitlines()][1:] == rows
