"""A restored installation is started by `kiosk up`: its identity is accepted, its answers are those of the first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.runtime.sockets import free_ports
from tests.benchmarks.data import interactions, products, users
from tests.benchmarks.stack import KIOSK, ROOT, Stack

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(600)]
APP = "development"
COUNT = 100


class Place:
    """A data directory and its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_ports(1)[0]

    def kiosk(self, *words: str, code: int = 0) -> Any:
        """Type a command; return its JSON."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KIOSK_")}
        done = subprocess.run(
            [*KIOSK, *words, "--json"], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False,
            env={**inherited, "KIOSK_DATA_DIR": str(self.folder)},
        )  # fmt: skip
        assert done.returncode == code, (
            f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
        return json.loads(done.stdout) if done.stdout.startswith("{") else None

    def up(self) -> Stack:
        """Start it."""
        told = self.kiosk("up", "--port", str(self.port))
        key = next(app["secret_key"] for app in told["apps"] if app["app_id"] == APP)
        return Stack(self.port, self.folder, key, 0.0)

    def down(self) -> None:
        """Stop it, whatever its state."""
        environment = {**os.environ, "KIOSK_DATA_DIR": str(self.folder)}
        subprocess.run(
            [*KIOSK, "down"], capture_output=True, cwd=ROOT, env=environment, timeout=120, check=False
        )


def answers(running: Stack) -> list[Any]:
    """Return records, recommendations and searches; scores of a moment are left out."""
    found: list[Any] = []
    for n in range(COUNT):
        body = {"user_id": f"u{n}", "rows": 10, "fl": ["title"]}
        told = running.call("POST", "/v1/recommendation/user_to_products", body)
        found.append([(one["product_id"], one["title"]) for one in told["data"]["products"]])
        body = {"product_ids": [f"p{n}"], "rows": 5}
        told = running.call("POST", "/v1/recommendation/product_to_products", body)
        found.append([one["product_id"] for one in told["data"]["products"]])
        found.append(running.call("GET", f"/v1/users/u{n}")["data"])
    return found


def settled(running: Stack) -> list[Any]:
    """Return the answers when two in a row are equal."""
    before = answers(running)
    for _ in range(10):
        time.sleep(1)
        now = answers(running)
        if now == before:
            return now
        before = now
    raise AssertionError("the answers do not come to rest")


def test_a_restored_installation_starts_and_answers_as_before(tmp_path: Path) -> None:
    first, second, place = Place(tmp_path / "first"), Place(tmp_path / "second"), str(tmp_path / "backups")
    try:
        running = first.up()
        first.kiosk("apps", "limit", APP, "--queries", "100000", "--writes", "100000")
        time.sleep(1)
        running.call("POST", "/v1/products", {"data": products(300)})
        running.call("POST", "/v1/users", {"data": users(COUNT)})
        running.call("POST", "/v1/interactions", {"data": interactions(500, COUNT, 300)})
        time.sleep(3)
        first.kiosk("train", APP, "--recipe", "fast", "--promote")
        expected = settled(running)
        first.kiosk("backup", place, "--pause", "0")
        verified = first.kiosk("backup", "verify", place)
        assert verified["different"] == []
        assert verified["answers"]["different"] == []
        print(f"\nverified: {verified['compared']} records, {verified['answers']}")
        first.down()
        second.folder.mkdir()
        shutil.copy2(first.folder / "master.key", second.folder / "master.key")
        restored = second.kiosk("restore", place)
        began_s = time.monotonic()
        again = second.up()
        print(f"restored {restored['keys']} keys; kiosk up took {time.monotonic() - began_s:.0f} s")
        assert again.secret_key == running.secret_key
        assert settled(again) == expected
        identity = [
            json.loads((one.folder / "shelf" / "installation.json").read_text()) for one in (first, second)
        ]
        assert identity[0] == identity[1]
        assert again.call("GET", "/-/ready") is not None
    finally:
        first.down()
        second.down()
