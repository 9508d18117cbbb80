"""Commands of trainings as a person types them, without a cluster: from `kiosk train` to `kiosk rollback`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.master_keys import ensure_master_key
from cluster.artifacts.segments import SegmentStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.process.artifact_access import open_artifact_store
from cluster.records.apps import App
from cluster.settings import Settings
from cluster.store.connect import open_stores
from tests.fakes import generated_market
from tests.suites.forked_commands import ForkedCommands
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.timeout(180), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Shop:
    """An installation with an outer Redis and a market that has settled; nothing runs."""

    folder: Path
    url: str
    forked: ForkedCommands | None = None
    begun: set[tuple[str, str]] = field(default_factory=set)

    def kiosk(self, *words: str, module: str = "deployments.cli") -> subprocess.CompletedProcess[str]:
        """Run a command: the first one of each name in an interpreter of its own, later ones in a fork."""
        ours = {"KIOSK_DATA_DIR": str(self.folder), "KIOSK_REDIS_URL": self.url, "PYTHONPATH": str(ROOT)}
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
        environment = {**clean, **ours, "COLUMNS": "160"}
        if self.forked is not None and (module, words[0]) in self.begun:
            return self.forked.run(module, words, environment, self.folder)
        self.begun.add((module, words[0]))
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def run_json(self, *words: str) -> Any:
        """Run a command that must succeed, and read what it says."""
        done = self.kiosk(*words, "--json")
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *words: str) -> str:
        """Run a command that must fail, and read why."""
        done = self.kiosk(*words)
        assert done.returncode in (1, 2, 3), (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    server, forked = RedisProcess(), ForkedCommands(tmp_path_factory.mktemp("forked"))
    try:
        server.start()

        async def open_market() -> None:
            async with open_stores(server.url, slow_s=10.0) as stores:
                await generated_market.open_market(stores)

        asyncio.run(open_market())
        settings = Settings(data_dir=folder)
        ensure_master_key(settings)
        segments = SegmentStore(open_artifact_store(settings))
        generated_market.settle(segments, generated_market.table(2_000, 120, 60))
        yield Shop(folder, server.url, forked)
    finally:
        forked.close()
        server.stop()


def test_from_training_to_serving_and_back(shop: Shop) -> None:
    plan = shop.run_json("train", generated_market.APP, "--recipe", "fast", "--dry-run")
    assert (plan["events"], plan["fits"]) == (2_000, True)
    shown = shop.kiosk("train", generated_market.APP, "--recipe", "fast", "--dry-run").stdout
    assert re.search(r"2,000 events of [\d,]+ users with [\d,]+ products", " ".join(shown.split()))
    assert "reader" not in shown
    assert (plan["interactions"]["settled"], plan["interactions"]["waiting"]) == (2_000, 0)
    first = shop.run_json("train", generated_market.APP, "--recipe", "fast", "--local", "--promote")
    assert (first["status"], first["promoted"]) == ("finished", True)
    second = shop.run_json("train", generated_market.APP, "--recipe", "fast", "--set", "seed=7", "--local")
    assert second["version"] != first["version"]
    assert shop.run_json("engines", "history", generated_market.APP)["serving"] == first["version"]
    promoted = shop.run_json("promote", generated_market.APP, second["version"], "--force", "a test")
    assert (promoted["version"], promoted["before"]) == (second["version"], first["version"])
    assert shop.run_json("rollback", generated_market.APP)["version"] == first["version"]
    history = shop.run_json("engines", "history", generated_market.APP)
    assert [entry["kind"] for entry in history["history"]] == ["rolled_back", "promoted", "promoted"]
    assert [run["status"] for run in shop.run_json("runs", "list", generated_market.APP)["runs"]] == [
        "finished",
        "finished",
    ]
    orders = shop.run_json("audit", "list", "--operation", "runs.order")["rows"]
    assert [row["after"]["run_id"] for row in orders] == [second["run_id"], first["run_id"]]
    assert {(row["username"], row["outcome"]) for row in orders} == {("operator", "done")}
    shown = shop.kiosk("runs", "show", generated_market.APP, first["run_id"])
    assert "evaluate" in shown.stdout
    assert f"snapshot {first['version']}" in shown.stdout


def test_evaluation_writes_pictures_and_reports(shop: Shop, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    report = shop.run_json(
        "evaluate", generated_market.APP, "--recipe", "fast", "--out", str(out), "--readers", "50"
    )
    assert [outcome["protocol"] for outcome in report["reports"]] == ["by_time", "leave_last_out"]
    assert {path.name for path in out.iterdir()} >= {
        "leave_last_out-segments.svg",
        "report.json",
        "report.md",
    }
    table = shop.kiosk(
        "evaluate", generated_market.APP, "--recipe", "fast", "--protocol", "leave_last_out"
    ).stdout
    assert "popularity" in table
    assert "95 % interval" in table
    assert "new: no event before the test; light: 1 to 9 events; heavy: 10 or more" in table
    # a piped table wraps its cells: further lines of a row begin with blanks
    popularity = re.split(r"\n(?=\S)", table.partition("\npopularity")[2])[0]
    assert popularity.count("±") >= 5
    logged = shop.kiosk(
        "evaluate", generated_market.APP, "--logged", "--out", str(tmp_path / "logged")
    ).stdout
    refusal = "no estimate: the log has no list that can be judged (no answers)"
    assert refusal in " ".join(logged.split())
    assert refusal.capitalize() in (tmp_path / "logged/report.md").read_text()
    evaluate_help = shop.kiosk("evaluate", "--help").stdout
    assert "on two cores" in " ".join(evaluate_help.split())


def test_a_sweep_is_compared_and_names_the_best_training(shop: Shop, tmp_path: Path) -> None:
    fadings = 'parts.rules.fading={"half_life_items":2},{"half_life_items":9}'
    words = (
        "train",
        generated_market.APP,
        "--recipe",
        "fast",
        "--set",
        "seed=3",
        "--sweep",
        fadings,
        "--local",
    )
    done = shop.kiosk(*words, "--out", str(tmp_path / "out"))
    assert "No difference proven: 1 of the other 1 variants may be as good as the first" in done.stdout
    (first,) = [line for line in done.stdout.splitlines() if line.startswith("Train the ")]
    label, _, words_of_first = first.partition(": ")
    assert label == "Train the first one"
    _, command, *typed = shlex.split(words_of_first)
    assert (command, "--set=seed=3" in typed) == ("train", True)
    assert shop.run_json(command, *typed, "--dry-run")["fits"]
    assert len((tmp_path / "out" / "comparison.csv").read_text().splitlines()) == 3


def test_schedules_are_made_listed_and_removed(shop: Shop) -> None:
    shop.run_json("schedules", "add", generated_market.APP, "nightly", "--recipe", "fast")
    (schedule,) = shop.run_json("schedules", "list", generated_market.APP)["schedules"]
    assert (schedule["when"], schedule["recipe"], schedule["last"]) == ("nightly", "fast", None)
    assert "has a schedule nightly already" in shop.refused(
        "schedules", "add", generated_market.APP, "nightly"
    )
    changed = shop.run_json("schedules", "change", generated_market.APP, "nightly", "--when", "daily 04:30")
    assert (changed["when"], changed["recipe"]) == ("daily 04:30", "fast")
    assert shop.run_json("schedules", "remove", generated_market.APP, "nightly")["removed"]
    assert "has no schedule nightly" in shop.refused("schedules", "remove", generated_market.APP, "nightly")


def test_a_generated_command_imports_no_other_use_cases(shop: Shop) -> None:
    program = (
        "import sys; from deployments.cli.command_line import command_line; "
        "command_line('runs')(['runs', 'list'], standalone_mode=False); "
        "print(*sys.modules)"
    )
    ours = {"KIOSK_DATA_DIR": str(shop.folder), "KIOSK_REDIS_URL": shop.url}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **ours},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.splitlines()[-1].split())
    assert "deployments.operations.models.runs" in imported
    assert "deployments.operations.all_operations" not in imported
    assert not imported & {"jobs.ingest.preview", "polars", "scipy"}


@pytest.mark.parametrize(
    (("words", "message")),
    [
        (("train", "nowhere", "--local"), "there is no app named nowhere; there are: market"),
        (
            ("train", generated_market.APP, "--set", "parts.rules.windw=3"),
            "there is no such field; there are",
        ),
        (
            ("train", generated_market.APP, "--set", "limits.memory_mb=64", "--dry-run"),
            "limits.memory_mb allows 64",
        ),
        (("train", generated_market.APP, "--sweep", "seed=1,2", "--dry-run"), "leave out --dry-run"),
        (("train", generated_market.APP, "--sweep", "seed=1,2", "--promote"), "leave out --promote"),
        (("train", generated_market.APP, "--sweep", "seed=1,2", "--out", __file__), "is a file"),
        (("evaluate", generated_market.APP, "--out", __file__), "is a file"),
        (("evaluate", generated_market.APP, "--protocol", "guess"), "there is no protocol 'guess'"),
        (("evaluate", generated_market.APP, "--candidate", "other"), "--candidate needs --logged"),
        (("promote", generated_market.APP, "0" * 16), "has no snapshot 0000"),
        (("runs", "show", generated_market.APP, "nope"), "has no run nope; see `kiosk runs list market`"),
    ],
)
def test_an_impossible_command_explains_the_remedy(shop: Shop, words: tuple[str, ...], message: str) -> None:
    assert message in shop.refused(*words)


def test_a_learner_is_checked_from_the_command_line(shop: Shop) -> None:
    done = shop.kiosk("conform", "collections:OrderedDict", module="jobs.refresh")
    assert done.returncode == 2
    assert "needs the methods train(data, rng) and load(parts)" in done.stderr
    done = shop.kiosk("conform", "collections:OrderedDict", "--config", "{broken", module="jobs.refresh")
    assert (done.returncode, "--config is not JSON" in done.stderr) == (2, True)
    arguments = ("conform", "tests.suites.test_learners:Markov")
    done = shop.kiosk(*arguments, module="jobs.refresh")
    assert done.returncode == 0, done.stderr
    assert "13 of 13 promises are kept" in done.stdout


def test_a_learner_of_a_folder_trains_without_being_installed(shop: Shop) -> None:
    """Its class is known from nowhere but the folder; who serves can't import it, so it is not promoted."""
    examples = str(ROOT / "docs" / "examples")
    mine = ("train", generated_market.APP, "--local", "--recipe", f"{examples}/my_recipe.toml")
    message = shop.refused(*mine, "--working-dir", examples)
    assert "kiosk learners allow my_learner:NextItem" in message.replace("\n", " ")
    assert shop.kiosk("learners", "allow", "my_learner:NextItem").returncode == 0
    (row,) = shop.run_json("audit", "list", "--operation", "learners")["rows"]
    assert (row["operation"], row["before"], row["after"]) == ("learners.allow", [], {"added": True})
    assert "leave out --promote" in shop.refused(*mine, "--working-dir", examples, "--promote")
    done = shop.kiosk(*mine, "--working-dir", examples)
    (order,) = shop.run_json("audit", "list", "--operation", "runs.order", "--limit", "1")["rows"]
    assert len(order["after"]["code"]) == 64, "the audit log has the digest of the code"
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Chosen: " in done.stdout
    assert "next_item" in done.stdout
    assert "Its code was shipped for this run only" in done.stdout
    run = shop.run_json("runs", "list", generated_market.APP, "--limit", "1")["runs"][0]
    assert run["parts"][0]["part"] == "next_item"
    assert "weight" in shop.kiosk("runs", "show", generated_market.APP, run["run_id"]).stdout
    refused = shop.refused("promote", generated_market.APP, run["version"]).replace("\n", " ")
    assert "train again without --working-dir" in refused
    assert "kiosk train --working-dir DIR" in shop.refused(*mine)


def test_a_program_without_an_installation_gets_the_settings_it_needs(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
    for more, advice in (
        ({}, "no installation runs in"),
        ({"RAY_ADDRESS": "http://127.0.0.1:8265"}, "which is for `ray job submit`"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from jobs.refresh.driver import train; train('development')"],
            env={**clean, **more, "KIOSK_DATA_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert advice in done.stderr, done.stderr


@pytest.mark.parametrize("words", [("deployments.cli", "train"), ("jobs.refresh", "train")])
def test_nothing_is_promoted_on_the_read_only_playground(shop: Shop, words: tuple[str, str]) -> None:
    async def add() -> None:
        async with open_stores(shop.url, slow_s=10.0) as stores:
            await stores.access.put_app(App(app_id="playground", environment="playground", created_at=0))

    asyncio.run(add())
    module, command = words
    done = shop.kiosk(command, "playground", "--recipe", "fast", "--local", "--promote", module=module)
    assert done.returncode != 0
    assert "This is the playground environment, which is read-only. Name another app" in " ".join(
        done.stderr.split()
    )


def test_a_dry_run_counts_interactions_that_were_accepted_a_moment_ago(tmp_path: Path) -> None:
    """Nothing is compacted when the command begins; the intake compacts every half a minute by itself."""
    server, ends = RedisProcess(), threading.Event()
    settings = Settings(data_dir=tmp_path)
    ensure_master_key(settings)
    segments = SegmentStore(open_artifact_store(settings))
    clicks = [
        {
            "type": "click",
            "product_ids": [f"p{number % 7}"],
            "user_id": f"u{number % 9}",
            "timestamp": "2026-01-01T00:00:00.000Z",
        }
        for number in range(50)
    ]

    async def work_intake() -> None:
        async with open_stores(server.url, slow_s=10.0) as stores:
            await generated_market.open_market(stores)
            await stores.interactions.append(generated_market.APP, json.dumps(clicks).encode(), [])
            loop = IntakeLoop(
                stores, segments, HashingEmbedder(), SystemClock(), SilentMeter(), owner="intake"
            )
            working = asyncio.create_task(loop.run())
            accepted.set()
            await asyncio.to_thread(ends.wait)
            loop.stop()
            await working

    accepted = threading.Event()
    server.start()
    intake = threading.Thread(target=lambda: asyncio.run(work_intake()))
    intake.start()
    try:
        assert accepted.wait(30)
        plan = Shop(tmp_path, server.url).run_json(
            "train", generated_market.APP, "--recipe", "fast", "--dry-run"
        )
    finally:
        ends.set()
        intake.join()
        server.stop()
    assert (plan["events"], plan["interactions"]["waiting"]) == (50, 0)
