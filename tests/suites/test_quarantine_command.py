"""`kiosk quarantine` over a real Redis: everything that ends there is listed, shown, replayed and dropped."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from click.testing import Result
from typer.testing import CliRunner

from actors.intake.applier import BatchApplier
from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import Embedder, HashingEmbedder, Vectors
from cluster.admin.refused_rows import RefusedRows
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.apps import App, AppSettings
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from deployments.cli.__main__ import command_line, main
from jobs.ingest.pipeline import IngestSpec, ingest
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]
APP = "shop"
EASY = {"hot_s": 5.0, "slow_s": 10.0}


class _Broken(HashingEmbedder):
    """Can't embed one word."""

    def embed(self, texts: Any) -> Vectors:
        if any("poison" in text for text in texts):
            raise ValueError("poison")
        return super().embed(texts)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    _log_nothing()
    yield
    structlog.reset_defaults()


def _log_nothing() -> None:
    """Keep lines of the intake's thread out of what the runner captures."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture
def url(redis_server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    redis_server.say("FLUSHALL")
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_server.url)
    (tmp_path / "data").mkdir()
    do(
        redis_server.url,
        lambda stores: stores.access.put_app(App(app_id=APP, environment="development", created_at=0)),
    )
    return redis_server.url


def do(url: str, work: Callable[[OpenStores], Awaitable[Any]]) -> Any:
    """Do something with the stores."""

    async def run() -> Any:
        async with open_stores(url, **EASY) as stores:
            return await work(stores)

    return asyncio.run(run())


def run(*words: str, answer: str = "") -> Result:
    """Run `kiosk quarantine`."""
    result = CliRunner().invoke(command_line(), ["quarantine", *words], input=answer)
    _log_nothing()  # the command logs to the runner's stream, which is closed now
    return result


def run_json(*words: str, code: int = 0) -> Any:
    """Run it with `--json`."""
    result = run(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


@contextmanager
def applying(url: str, embedder: Embedder | None = None) -> Iterator[None]:
    """Apply what the intake is given, as a running installation does."""
    ended, loops = threading.Event(), []

    async def run() -> None:
        async with open_stores(url, **EASY) as stores:
            loop = IntakeLoop(
                stores, None, embedder or HashingEmbedder(), SystemClock(), SilentMeter(), owner="test"
            )
            loops.append((asyncio.get_running_loop(), loop))
            await loop.run()
        ended.set()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        yield
    finally:
        while not loops:
            ended.wait(0.02)
        events, loop = loops[0]
        events.call_soon_threadsafe(loop.stop)
        thread.join()


async def upload(stores: OpenStores, task_id: str, records: list[Any], noun: Any = "product") -> None:
    """Queue a batch, as the API does."""
    await stores.intake.accept(
        APP, noun, "put", orjson.dumps(records), task_id=task_id, total=len(records), now_ms=1_700_000_000_000
    )


async def apply_one(stores: OpenStores, embedder: Embedder) -> None:
    """Apply the next batch."""
    (batch,) = await stores.intake.claim("worker", [APP], count=1, block_ms=0)
    await BatchApplier(stores.intake, embedder, SystemClock(), SilentMeter()).apply(batch)


def stored(url: str, noun: Any, record_id: str) -> Any:
    """Read a record."""
    record = do(url, lambda stores: stores.records.get(APP, noun, record_id))
    return None if record is None else orjson.loads(record)


def test_a_record_the_intake_could_not_apply_goes_in_after_the_cause_is_gone(url: str) -> None:
    poison = {"product_id": "p1", "title": "poison"}

    async def fill(stores: OpenStores) -> None:
        await upload(stores, "t1", [poison, {"product_id": "p2", "title": "rake"}])
        await apply_one(stores, _Broken())

    do(url, fill)
    listed = run_json("list", APP)
    (entry,) = listed["newest"]
    assert (listed["entries"], entry["kind"], entry["noun"], entry["is_damaged"]) == (
        1,
        "record",
        "product",
        False,
    )
    assert "ValueError" in entry["reason"]
    assert entry["time"].startswith("20")
    assert json.loads(run_json("show", APP, entry["id"])["payload"]) == poison
    with applying(url, _Broken()):
        again = run_json("replay", APP, "--all", code=1)
    assert [result["status"] for result in again["results"]] == ["refused"]
    (anew,) = run_json("list", APP)["newest"]
    assert anew["id"] != entry["id"]
    with applying(url):
        assert run_json("replay", APP, anew["id"])["replayed"] == 1
    assert stored(url, "product", "p1")["title"] == "poison"
    assert run_json("list", APP) == {"app": APP, "entries": 0, "newest": []}


def test_a_damaged_record_is_replayed_only_on_purpose_and_never_over_a_newer_one(url: str) -> None:
    async def fill(stores: OpenStores) -> None:
        await upload(stores, "t1", [{"product_id": "p1", "title": "rake"}])
        await apply_one(stores, HashingEmbedder())
        key = keys.record(APP, "product", "p1")
        sealed = await stores.server.execute("GET", key)
        await stores.server.execute("SET", key, sealed.replace(b"rake", b"rale"))
        assert await stores.records.get(APP, "product", "p1") is None

    do(url, fill)
    (entry,) = run_json("list", APP)["newest"]
    assert (entry["name"], entry["is_damaged"], entry["why_not_replayed"]) == ("p1", True, "")
    with applying(url):
        (entry_result,) = run_json("replay", APP, entry["id"], code=1)["results"]
        assert "--damaged" in entry_result["reason"]
        do(url, lambda stores: upload(stores, "t2", [{"product_id": "p1", "title": "newer"}]))
        while stored(url, "product", "p1") is None:
            pass
        (entry_result,) = run_json("replay", APP, entry["id"], "--damaged", code=1)["results"]
        assert "--overwrite" in entry_result["reason"]
        assert stored(url, "product", "p1")["title"] == "newer"
        assert run_json("replay", APP, entry["id"], "--damaged", "--overwrite")["replayed"] == 1
    assert stored(url, "product", "p1")["title"] == "rale"


def test_a_batch_that_was_given_up_goes_in_whole_and_a_removal_is_one(url: str) -> None:
    async def fill(stores: OpenStores) -> None:
        await upload(stores, "t1", [{"user_id": "u1"}, {"user_id": "u2"}], "user")
        await stores.intake.accept(APP, "user", "remove", b'["u9"]', task_id="t2", total=1, now_ms=1)
        await upload(stores, "t3", [{"user_id": 7}], "user")
        for batch in await stores.intake.claim("worker", [APP], count=9, block_ms=0):
            await stores.intake.give_up(batch, "the process ended every time it was tried", now_ms=9)

    do(url, fill)
    with applying(url):
        again = run_json("replay", APP, "--all", "--kind", "batch", code=1)
    assert sorted(result["status"] for result in again["results"]) == ["refused", "replayed", "replayed"]
    assert stored(url, "user", "u2") == {"user_id": "u2"}
    (left,) = run_json("list", APP)["newest"]
    assert left["name"] == "t3"


def test_rows_an_ingest_refused_are_there_too(url: str, tmp_path: Path) -> None:
    rows = [{"product_id": "a"}, {"product_id": "b", "price": "cheap"}, {"title": "no id"}]
    file = tmp_path / "products.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    state = tmp_path / "data" / "ingest"
    do(url, lambda stores: ingest(IngestSpec(str(file), "product", APP), stores, state_dir=state))
    report = run_json("list", APP, "--kind", "row")
    assert report["entries"] == 3
    by_row = {entry["name"].split()[1]: entry for entry in report["newest"]}
    assert "no JSON" in by_row["4"]["why_not_replayed"]
    refused = run_json("show", APP, by_row["2"]["id"])
    assert (refused["noun"], json.loads(refused["payload"])["price"]) == ("product", "cheap")
    path = next(state.glob("*/quarantine.jsonl"))
    path.write_text(path.read_text().replace('\\"cheap\\"', "12345.0"))
    with applying(url):
        again = run_json("replay", APP, by_row["2"]["id"], by_row["3"]["id"], code=1)
    assert [result["status"] for result in again["results"]] == ["replayed", "refused"]
    assert stored(url, "product", "b")["price"] == 12345.0
    assert run_json("drop", APP, by_row["4"]["id"], "--yes")["dropped"] == 1
    assert [entry["name"].split()[1] for entry in run_json("list", APP)["newest"]] == ["3"]
    lines = [json.loads(line)["reason"] for line in path.read_text().splitlines()]
    assert (lines[0], lines[2]) == ("replayed", "dropped")


def test_interactions_of_an_ingest_go_into_the_log(url: str, tmp_path: Path) -> None:
    file = tmp_path / "clicks.jsonl"
    file.write_text(json.dumps({"type": "click", "product_ids": ["p"], "user": "ada"}) + "\n")
    state = tmp_path / "data" / "ingest"
    do(url, lambda stores: ingest(IngestSpec(str(file), "interaction", APP), stores, state_dir=state))
    path = next(state.glob("*/quarantine.jsonl"))
    path.write_text(path.read_text().replace('\\"user\\"', '\\"user_id\\"'))
    assert run_json("replay", APP, "--all")["replayed"] == 1
    assert len(do(url, lambda stores: stores.interactions.recent(APP, ["u:ada"]))) == 1
    assert run_json("list", APP)["entries"] == 0


def test_what_no_app_owns_and_what_nothing_can_replay_is_shown_and_dropped(url: str) -> None:
    async def fill(stores: OpenStores) -> None:
        await stores.server.execute_slow("HSET", keys.account(), "ada", b"1deadbeef{}")
        assert await stores.accounts.get("ada") is None
        await stores.server.execute_slow("HSET", keys.engine(APP), "e1", b"1deadbeef{}")
        await stores.engines.all(APP)

    do(url, fill)
    (account,) = run_json("list", "@installation")["newest"]
    assert (account["noun"], account["name"]) == ("account", "ada")
    (engine,) = run_json("list", APP)["newest"]
    assert "anew" in engine["why_not_replayed"]
    assert run_json("replay", APP, "--all", code=1)["results"][0]["status"] == "skipped"
    result = run("drop", APP, "--all", answer="n\n")
    assert result.exit_code == 2
    assert run_json("list", APP)["entries"] == 1
    result = run("drop", APP, "--all", answer="y\n")
    assert result.exit_code == 0
    assert run_json("list", APP)["entries"] == 0
    assert run_json("drop", "@installation", account["id"], "--yes")["dropped"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("list", "nope"), ("list", APP, "--kind", "nope"), ("show", APP, "1-1"), ("replay", APP),
        ("replay", APP, "1-1", "--all"), ("replay", APP, "1-1"), ("drop", APP, "1-1", "--yes"),
    ],
)  # fmt: skip
def test_wrong_use_ends_with_2(
    url: str,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["kiosk", "quarantine", *words, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    _log_nothing()
    assert ended.value.code == 2
    assert set(json.loads(capsys.readouterr().out)) == {"error"}


def test_a_read_only_app_takes_nothing_back(url: str) -> None:
    settings = AppSettings()
    app = App(app_id=APP, environment="playground", created_at=0, settings=settings)
    do(url, lambda stores: stores.access.put_app(app))
    result = run("replay", APP, "--all")
    assert result.exit_code == 1


def test_a_stopped_installation_lists_and_drops_and_replays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    assert run_json("list", "@installation")["entries"] == 0
    assert run_json("drop", "@installation", "--all", "--yes")["dropped"] == 0
    result = run("replay", "shop", "--all")
    assert (result.exit_code, "kiosk up" in result.output) == (3, True)


def test_hostile_words_do_not_steer_the_terminal(url: str) -> None:
    async def fill(stores: OpenStores) -> None:
        await stores.server.execute_slow(
            "XADD", keys.quarantine(APP), "*", "kind", "record", "noun", "product", "id", "\x1b[31mred",
            "reason", "[bold]no[/] \x1b]0;title\x07", "at", "1", "payload", b'{"product_id": "\x1b[2J"}',
        )  # fmt: skip

    do(url, fill)
    entry_id = run_json("list", APP)["newest"][0]["id"]
    for words in (["list", APP], ["show", APP, entry_id]):
        shown = run(*words)
        assert shown.exit_code == 0
        assert "\x1b" not in shown.output
        assert "\x07" not in shown.output


def test_a_file_of_many_rows_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.admin.refused_rows.MOST_ROWS", 2)
    folder = tmp_path / "ingest" / "run"
    folder.mkdir(parents=True)
    row = b'{"file":"f","row":1,"reason":"no","text":"{}"}\n'
    (folder / "quarantine.jsonl").write_bytes(row * 3)
    rows = RefusedRows.from_data_dir(tmp_path)
    first = [entry.entry_id for entry in rows.entries(APP)]
    assert first == ["run:0", "run:1"]
    rows.overwrite_rows(first, "dropped")
    assert [entry.entry_id for entry in rows.entries(APP)] == ["run:2"]
