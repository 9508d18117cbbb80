"""Use cases of trials: started, shown and stopped through the store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import Conflict, NotFound
from cluster.records.apps import App, AppSettings
from cluster.records.engine import Engine
from cluster.records.served_list import ServedAnswer
from jobs.refresh.automation.trial_samples import SETTLING_MS, TrialSamples
from jobs.refresh.automation.trial_verdict import GroupSample
from tests.fakes.corner_shop import NOW_MS
from tests.fakes.model_shop import APP, ModelShop, open_model_shop


async def set_switches(shop: ModelShop, **settings: object) -> None:
    chosen = AppSettings(**{"automatic_models": True, **settings})
    await shop.stores.access.put_app(
        App(app_id=APP, environment="production", created_at=NOW_MS, settings=chosen)
    )


@pytest.fixture
async def shop(tmp_path: Path) -> ModelShop:
    shop = await open_model_shop(tmp_path)
    await set_switches(shop)
    return shop


async def test_a_trial_is_started_shown_and_stopped(shop: ModelShop, tmp_path: Path) -> None:
    serving, other = shop.publish(tmp_path / "one", seed=6), shop.publish(tmp_path / "two", seed=7)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=serving))
    given = {"engine_id": "default", "version": other[:6], "share": 0.2, "promote_when_better": True}
    started = (await shop.perform("trials.start", role="editor", **given)).to_dict()
    trial = started["trial"]
    assert (trial["version"], trial["share"], trial["is_candidate"], trial["by"]) == (other, 0.2, True, "ada")
    assert (trial["promote_when_better"], trial["roll_back_when_worse"]) == (True, True)
    assert trial["ends_at"] == NOW_MS + 14 * DAY_MS
    with pytest.raises(Conflict, match="has a trial of"):
        await shop.perform("trials.start", **given)
    rows = [
        ServedAnswer(
            f"s{at}", NOW_MS + SETTLING_MS + at, "search", "default", snapshot=version, user=f"p{at}", products=("a",),
        )
        for at, version in enumerate([serving, serving, other])
    ]  # fmt: skip
    ServedLogStore(shop.artifacts).append(APP, rows, f"{NOW_MS}-0")
    view = await shop.perform("trials.show", role="viewer", engine_id="default")
    verdict = view.to_dict()["verdict"]
    assert (verdict["candidate"]["people"], verdict["control"]["people"]) == (1, 2)
    assert (verdict["candidate"]["version"], verdict["outcome"]) == (other, "continues")
    first, table, last = view.to_lines()
    assert first.startswith(f"20% of the people of engine default get {other} instead of {serving}, until ")
    assert [row[:3] for row in table.rows] == [(other, "1", "1"), (serving, "2", "2")]
    assert last == "continues: fewer than 200 people in a group."
    stopped = (await shop.perform("trials.stop", role="editor", engine_id="default")).to_dict()
    assert (stopped["serving"], stopped["trial"]) == (serving, None)
    assert shop.audit.rows[-1].before["trial"]["version"] == other
    with pytest.raises(NotFound, match="has no trial"):
        await shop.perform("trials.stop", engine_id="default")
    (line,) = (await shop.perform("trials.show", engine_id="default")).to_lines()
    assert line == f"Engine default of {APP} has no trial of snapshots."


async def test_viewers_of_a_trial_read_the_log_once_in_half_a_minute(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, other = shop.publish(tmp_path / "one", seed=6), shop.publish(tmp_path / "two", seed=7)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=serving))
    reads: list[str] = []
    read = TrialSamples.read

    def count_reads(samples: TrialSamples, failures: Mapping[str, int]) -> tuple[GroupSample, GroupSample]:
        reads.append("read")
        return read(samples, failures)

    monkeypatch.setattr(TrialSamples, "read", count_reads)
    for turn in range(2):
        await shop.perform("trials.start", engine_id="default", version=other)
        views = [
            shop.perform("trials.show", role="viewer", app_id=APP, engine_id="default") for _ in range(20)
        ]
        verdicts = [view.to_dict()["verdict"]["outcome"] for view in await asyncio.gather(*views)]
        assert verdicts == ["continues"] * 20
        assert len(reads) == turn + 1
        await shop.perform("trials.stop", engine_id="default")


async def test_a_trial_needs_two_snapshots_people_in_the_log_and_the_switch(
    shop: ModelShop, tmp_path: Path
) -> None:
    version = shop.publish(tmp_path / "one", seed=6)
    given = {"engine_id": "default", "version": version}
    with pytest.raises(Conflict, match="serves no trained model"):
        await shop.perform("trials.start", **given)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=version))
    with pytest.raises(Conflict, match=f"serves {version}"):
        await shop.perform("trials.start", **given)
    with pytest.raises(NotFound):
        await shop.perform("trials.start", engine_id="default", version="nope")
    for switches in ({"automatic_models": False}, {"served_log": "anonymous"}):
        await set_switches(shop, **switches)
        with pytest.raises(Conflict, match="need the environment production and the switches"):
            await shop.perform("trials.start", **given)


async def test_a_snapshot_of_erased_people_is_tried_by_nobody(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, other = shop.publish(tmp_path / "one", seed=6), shop.publish(tmp_path / "two", seed=7)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=serving))
    monkeypatch.setattr(ErasureLog, "since", lambda *_: 1)
    with pytest.raises(Conflict, match="people who were erased since"):
        await shop.perform("trials.start", engine_id="default", version=other)


async def test_a_snapshot_that_needs_shipped_code_is_tried_by_nobody(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving, other = shop.publish(tmp_path / "one", seed=6), shop.publish(tmp_path / "two", seed=7)
    await shop.stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=serving))
    manifest = SnapshotStore(shop.services.artifacts).manifest(APP, "default", other)
    shipped = replace(manifest, facts={**manifest.facts, "code": "d" * 64})
    monkeypatch.setattr(SnapshotStore, "manifest", lambda *_: shipped)
    with pytest.raises(Conflict, match="code that was shipped for that run only"):
        await shop.perform("trials.start", engine_id="default", version=other)
