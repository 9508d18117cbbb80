"""Data out of a running installation: exports complete to the moment, bulk scores beside the API, both from Python."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import psutil
import pytest

from tests.cluster.installed import ROOT, Installed
from tests.fakes.request_handler import BROWSER

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(400)]
APP = "playground"
EMPTY = "without-products"
FILTER = "price:[* TO 40]"
IN_A_NOTEBOOK = """
import asyncio, json, sys
from jobs.export.driver import export_frame
from jobs.scoring.driver import recommend

async def cell():  # a notebook has a running event loop
    users = export_frame("playground", "users")
    scores = recommend("playground", users.head(20), rows=4)
    return users.height, scores.height, scores.columns

print(json.dumps(asyncio.run(cell())))
"""


class Running:
    """A running installation and its keys."""

    def __init__(self, installed: Installed, installation: dict[str, Any], keys: dict[str, str]) -> None:
        self.installed = installed
        self._keys = {app["app_id"]: app["secret_key"] for app in installation["apps"]} | keys
        self._http = httpx.Client(base_url=installation["api_url"], timeout=30)

    def post(self, app: str, path: str, body: Any) -> Any:
        """Send one request with the secret key until there is room for it."""
        headers = {"X-API-KEY": self._keys[app], "User-Agent": BROWSER}
        for _ in range(60):
            reply = self._http.post(path, json=body, headers=headers)
            if reply.status_code not in (429, 503):
                break
            time.sleep(0.5)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


@pytest.fixture(scope="module")
def running(installed: Installed, up: dict[str, Any]) -> Iterator[Running]:
    running = Running(installed, up, {EMPTY: installed.create_app(EMPTY)})
    yield running
    running.close()


def test_what_was_accepted_a_moment_ago_is_in_the_file(running: Running, tmp_path: Path) -> None:
    products = [{"product_id": f"p{n}", "title": f"Thing {n}"} for n in range(50)]
    running.post(EMPTY, "/v1/products", {"data": products})
    out = tmp_path / "products.jsonl"
    report = running.installed.run_json("export", EMPTY, "products", "--out", str(out))
    assert (report["rows"], report["waiting"]) == (50, 0)
    assert sorted(json.loads(line)["product_id"] for line in out.read_text().splitlines()) == sorted(
        product["product_id"] for product in products
    )
    click = {
        "type": "click",
        "user_id": "ada",
        "product_ids": ["p1"],
        "timestamp": "2026-03-01T09:15:30.250Z",
    }
    running.post(EMPTY, "/v1/interactions", {"data": [click]})
    done = running.installed.kiosk("export", EMPTY, "interactions", "--out", "-", "--format", "jsonl")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [click]


def _lists(frame: pl.DataFrame) -> dict[str, list[str]]:
    """Group the products of a scored file by user."""
    grouped = frame.group_by("user_id", maintain_order=True).agg("product_id")
    return dict(zip(grouped["user_id"].to_list(), grouped["product_id"].to_list(), strict=True))


def test_workers_on_the_cluster_answer_as_the_api_does(running: Running, tmp_path: Path) -> None:
    users, out = tmp_path / "users.parquet", tmp_path / "scores.parquet"
    running.installed.kiosk("export", APP, "users", "--out", str(users))
    people = pl.read_parquet(users)["user_id"].to_list()[:200]
    pl.DataFrame({"user_id": people}).write_csv(tmp_path / "some.csv")
    words = ("recommend", APP, "--users", str(tmp_path / "some.csv"), "--rows", "6", "--fq", FILTER)
    report = running.installed.run_json(*words, "--out", str(out), "--workers", "2")
    assert report["users"] == len(people)
    frame = pl.read_parquet(out)
    assert frame["user_id"].unique(maintain_order=True).to_list() == people
    different = 0
    for user_id, rows in frame.group_by("user_id", maintain_order=True):
        body = {"user_id": user_id[0], "rows": 6, "fq": FILTER}
        products = running.post(APP, "/v1/recommendation/user_to_products", body)["data"]["products"]
        ids = [product["product_id"] for product in products]
        if rows["product_id"].to_list() != ids:
            different += 1  # trends fade between the two
        else:
            scores = [product["_personalization_score"] for product in products]
            assert rows["score"].to_list() == pytest.approx(scores, abs=2e-3)
    assert different <= len(people) // 50
    local_file = tmp_path / "here.parquet"
    running.installed.kiosk(*words, "--out", str(local_file), "--local")
    alone = _lists(pl.read_parquet(local_file))
    assert alone.keys() == _lists(frame).keys()
    assert sum(alone[user_id] != ids for user_id, ids in _lists(frame).items()) <= len(people) // 50


def test_workers_run_when_nobody_else_wants_to(running: Running, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("".join(f"user-{n}\n" for n in range(40_000)))
    words = ("recommend", APP, "--users", str(tmp_path / "ids.txt"), "--out", str(tmp_path / "x.csv"))
    scoring = subprocess.Popen(
        [sys.executable, "-m", "deployments.cli", *words],
        env={**running.installed.environment, "PYTHONPATH": str(ROOT)},
        cwd="/",
    )
    try:
        until_s = time.monotonic() + 90
        before: dict[int, float] = {}
        busiest, most_s = 0, 0.0
        while most_s < 0.2:  # of one second; loading and importing come first
            assert time.monotonic() < until_s
            assert scoring.poll() is None
            now = _thread_seconds("ray::ScoringWorker.score")
            grown = {thread: spent_s - before[thread] for thread, spent_s in now.items() if thread in before}
            busiest, most_s = max(grown.items(), key=lambda entry: entry[1], default=(0, 0.0))
            before = now
            time.sleep(1)
        assert os.sched_getscheduler(busiest) == os.SCHED_IDLE
    finally:
        scoring.send_signal(signal.SIGINT)
        assert scoring.wait(30) != 0
    assert not (tmp_path / "x.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["ids.txt"]


def _thread_seconds(title: str) -> dict[int, float]:
    """Read how long each thread of the workers of one kind has computed, by thread id."""
    seconds = {}
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            if (process.info["cmdline"] or [""])[0].startswith(title):
                seconds |= {thread.id: thread.user_time for thread in process.threads()}
    return seconds


def test_wrong_use_starts_no_worker(running: Running, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("ada\n")
    words = ("recommend", APP, "--users", str(tmp_path / "ids.txt"), "--out", str(tmp_path / "x.csv"))
    for more, reason in (
        (("--engine", "no"), "engine is not found"),
        (("--snapshot", "no"), "there is no snapshot"),
    ):
        done = running.installed.kiosk(*words, *more, check=False)
        assert done.returncode == 2
        assert reason in done.stderr


def test_a_notebook_finds_the_installation_by_its_data_directory(running: Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK],
        env={**running.installed.environment, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    users, rows, columns = json.loads(done.stdout.splitlines()[-1])
    assert users > 0
    assert rows == 4 * min(users, 20)
    assert columns == ["user_id", "anonymous_id", "rank", "product_id", "score", "served_by"]
