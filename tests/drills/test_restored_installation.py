"""A restored installation is started by `kiosk up`: its identity is accepted, its answers are those of the first."""

from __future__ import annotations

import collections
import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import list_processes
from cluster.settings import Settings
from deployments.cli.framework.installation import Installation
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
        installation = self.kiosk("up", "--port", str(self.port))
        key = next(app["secret_key"] for app in installation["apps"] if app["app_id"] == APP)
        return Stack(self.port, self.folder, key, 0.0)

    def down(self) -> None:
        """Stop it, whatever its state."""
        environment = {**os.environ, "KIOSK_DATA_DIR": str(self.folder)}
        subprocess.run(
            [*KIOSK, "down"], capture_output=True, cwd=ROOT, env=environment, timeout=120, check=False
        )


def answers(running: Stack) -> list[Any]:
    """Return records, recommendations and searches; scores of a moment are left out."""
    answer_parts: list[Any] = []
    for n in range(COUNT):
        body = {"user_id": f"u{n}", "rows": 10, "fl": ["title"]}
        reply = running.call("POST", "/v1/recommendation/user_to_products", body)
        answer_parts.append(
            [(product["product_id"], product["title"]) for product in reply["data"]["products"]]
        )
        body = {"product_ids": [f"p{n}"], "rows": 5}
        reply = running.call("POST", "/v1/recommendation/product_to_products", body)
        answer_parts.append([product["product_id"] for product in reply["data"]["products"]])
        answer_parts.append(running.call("GET", f"/v1/users/u{n}")["data"])
    return answer_parts


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
            json.loads((place.folder / "shelf" / "installation.json").read_text())
            for place in (first, second)
        ]
        assert identity[0] == identity[1]
        assert again.call("GET", "/-/ready") is not None
    finally:
        first.down()
        second.down()


class Life:
    """Requests and operations of an installation that go on while it is backed up, and processes that die."""

    def __init__(self, place: Place, running: Stack, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self._place, self._running = place, running
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Life:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def act(self) -> None:
        """Do one operation; what a killed process leaves unanswered is counted."""
        rng, call = self.rng, self._running.call
        steps: dict[str, Callable[[], Any]] = {
            "products": lambda: call("POST", "/v1/products", {"data": products(300)[: rng.randrange(1, 50)]}),
            "users": lambda: call("POST", "/v1/users", {"data": users(COUNT)[: rng.randrange(1, 20)]}),
            "interactions": lambda: call("POST", "/v1/interactions", {"data": interactions(20, COUNT, 300)}),
            "more products": lambda: call("POST", "/v1/products", {"data": products(300)[200:]}),
            "recommend": lambda: call(
                "POST", "/v1/recommendation/user_to_products", {"user_id": f"u{rng.randrange(COUNT)}"}
            ),
        }
        name = rng.choice(list(steps))
        try:
            steps[name]()
        except (OSError, AssertionError, http.client.HTTPException):
            name = "unanswered"
        self.counts[name] += 1

    def wait_until_answered(self) -> None:
        """Wait until killed processes are replaced: fifty requests in a row are answered."""
        until, row = time.monotonic() + 120, 0
        while row < 50:
            assert time.monotonic() < until, self.counts
            before = self.counts["unanswered"]
            self.act()
            row = row + 1 if self.counts["unanswered"] == before else 0
            time.sleep(0.05)

    def _go_on(self) -> None:
        while not self._ended.wait(0.2):
            self.act()

    def kill(self, part: str) -> None:
        """Kill the processes of a part."""
        paths = InstallationPaths.from_data_dir(self._place.folder)
        killed = [
            process
            for process in list_processes(paths)
            if part in " ".join([process.name(), *process.cmdline()])
        ]
        assert killed, part
        for process in killed[:1]:
            process.kill()
        self.counts[f"killed {part}"] += 1


def assert_same(restored: list[Any], expected: list[Any]) -> None:
    """Compare what two installations answer at different times.

    Records are equal. Lists may differ at their end: the weight of an interaction falls with time. `kiosk backup
    verify` compares them at one time, to the last digit.
    """
    pairs = list(zip(restored, expected, strict=True))
    assert [left for left, _ in pairs[2::3]] == [right for _, right in pairs[2::3]]
    lists = [(left, right) for number, (left, right) in enumerate(pairs) if number % 3 != 2]
    shared = [len({*map(str, left)} & {*map(str, right)}) / max(1, len(right)) for left, right in lists]
    equal, overlap = sum(left == right for left, right in lists), sum(shared) / len(shared)
    print(f"{equal} of {len(lists)} lists equal, overlap {overlap:.4f}")
    assert overlap > 0.98


def administer(place: Place, *steps: tuple[str, dict[str, Any]]) -> None:
    """Perform operations of the administration."""
    settings = Settings(data_dir=place.folder)
    for name, arguments in steps:
        Installation(settings).perform(name, app_id=APP, **arguments)


@pytest.mark.timeout(1800)
def test_installations_with_a_history_are_backed_up_while_they_serve_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, place = str(tmp_path / "backups"), Place(tmp_path / "0")
    places = [place]
    monkeypatch.setenv("KIOSK_DATA_DIR", str(place.folder))
    try:
        running = place.up()
        place.kiosk("apps", "limit", APP, "--queries", "100000", "--writes", "100000")
        running.call("POST", "/v1/products", {"data": products(300)})
        running.call("POST", "/v1/users", {"data": users(COUNT)})
        running.call("POST", "/v1/interactions", {"data": interactions(500, COUNT, 300)})
        for number in range(int(os.environ.get("RESTORE_LIVES", "2"))):
            rules = [
                ("rules.put", {"rules": [{"name": f"r{n}", "boost_fq": "brand:Birk"}]}) for n in range(20)
            ]
            draft = {"name": f"test {number}", "variants": [{"name": "a"}, {"name": "b"}]}
            rotation = ("keys.rotate", {"kind": "publishable"})
            administer(place, *rules, ("experiments.create", {"experiments": [draft]}), rotation)
            place.kiosk("forget", APP, "--user", f"u{number}")
            place.kiosk("train", APP, "--recipe", "fast", "--promote")
            with Life(place, running, number) as life:
                life.kill(("IntakeHost", "redis-server" if number % 2 else "valkey-server")[number % 2])
                made = place.kiosk("backup", target, "--pause", "0.5")
                life.kill("ServeReplica")
            assert made["verified"]["good"], made
            life.wait_until_answered()
            expected = settled(running)
            final = place.kiosk("backup", target, "--pause", "0")
            verified = place.kiosk("backup", "verify", target, "--require-answers")
            print(f"\nlife {number}: {dict(life.counts)}, {final['keys']} keys, {verified['answers']}")
            place.kiosk("backup", "verify", target, "--backup", made["backup"])
            place.down()
            restored = Place(tmp_path / str(number + 1))
            places.append(restored)
            restored.folder.mkdir()
            shutil.copy2(place.folder / "master.key", restored.folder / "master.key")
            restored.kiosk("restore", target)
            place, running = restored, restored.up()
            monkeypatch.setenv("KIOSK_DATA_DIR", str(place.folder))
            assert_same(settled(running), expected)
    finally:
        for opened in places:
            opened.down()
