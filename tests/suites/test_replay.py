"""Lists of a day on which much changed, ranked again from what the log of answers and the artifact store keep."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot_models import SEARCH_RERANKER
from actors.models.reranker import Reranker
from actors.serving.replay.answer_replay import REPLAYED_ENDPOINTS, AnswerReplayer, ReplayedAnswer
from actors.serving.replay.past_app import load_past_app, read_past_settings
from actors.serving.replay.state_position import StatePosition
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.errors import Invalid, NotFound, Unavailable
from cluster.records.served_list import RULE
from jobs.refresh.runs import training_stages
from tests.fakes.corner_shop import APP
from tests.fakes.lived_in_shop import LivedInShop, live_a_day, open_lived_in_shop
from tests.fakes.reranked_shop import raise_frequent


async def replay_all(shop: LivedInShop, rows: list[dict[str, Any]]) -> list[ReplayedAnswer]:
    """Rank lists again in the order of their states."""
    settings = await read_past_settings(shop.stores, APP)
    users = [row["user"] for row in rows if row["user"]]
    past = await asyncio.to_thread(load_past_app, shop.artifacts, APP, settings, users)
    replayer = AnswerReplayer(past, HashingEmbedder())
    ordered = sorted(rows, key=lambda row: StatePosition.parse(row["state"]).order)
    return [await asyncio.to_thread(replayer.replay, row) for row in ordered]


def check_answers(answers: list[ReplayedAnswer], least: float) -> None:
    """Check the share of equal lists, and that all others have a reason."""
    different = [answer for answer in answers if not answer.is_equal]
    assert [answer for answer in different if not answer.reasons] == []
    assert 1 - len(different) / len(answers) >= least, different[:3]


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_lists_of_a_lived_in_day_are_ranked_again_as_they_were(tmp_path: Path) -> None:
    async with open_lived_in_shop(tmp_path, seed=11) as shop:
        rows = [row for row in await live_a_day(shop, 100) if row["endpoint"] in REPLAYED_ENDPOINTS]
        answers = await replay_all(shop, rows)
        assert len(rows) > 180
        assert {row["endpoint"] for row in rows} == set(REPLAYED_ENDPOINTS)
        assert len({row["snapshot"] for row in rows}) > 2
        assert any(row["sides"] for row in rows)
        check_answers(answers, 0.99)

        await check_one_answer(shop, rows)


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_searches_with_a_learned_order_are_ranked_again_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_extras = training_stages._build_extras

    def build_with_reranker(attempt: Any, engine: Any, source: Any, *more: Any) -> Any:
        reranker = raise_frequent(engine, 200, source.data)
        return {**build_extras(attempt, engine, source, *more), SEARCH_RERANKER: reranker.save()}

    monkeypatch.setattr(training_stages, "_build_extras", build_with_reranker)
    async with open_lived_in_shop(tmp_path, seed=13) as shop:
        await shop.live(40)
        await shop.train()
        await shop.live(40)
        log = ServedLogStore(shop.artifacts, shop.clock)
        rows = [row for row in log.read(APP, 0).to_pylist() if row["endpoint"] == "search"]
        answers = await replay_all(shop, rows)
        assert len({row["snapshot"] for row in rows}) == 2
        assert len(rows) > 15
        check_answers(answers, 1.0)
        monkeypatch.setattr(Reranker, "score", lambda reranker, past, items, *given: np.zeros(len(items)))
        without = await replay_all(shop, rows)
        assert sum(not answer.is_equal for answer in without) > len(rows) / 2


async def check_one_answer(shop: LivedInShop, rows: list[dict[str, Any]]) -> None:
    """Check the operation on one list, with and without changes."""
    ruled = [
        row
        for row in rows
        if row["endpoint"] == "user_to_products" and RULE in row["origins"] and row["level"] == "personal"
    ]
    row = [row for row in ruled if not row["sides"]][-1]

    async def replay(change: str = "", service_id: str = row["service_id"]) -> Any:
        return await shop.admin.perform(
            "answers.replay", role="analyst", service_id=service_id, change=change
        )

    plain = (await replay()).to_dict()
    assert (plain["is_equal"], plain["served"], plain["rebuilt"], plain["changed"]) == (
        True, row["products"], row["products"], None,
    )  # fmt: skip
    without = [await replay("no-rules", ruled_row["service_id"]) for ruled_row in ruled[-6:]]
    # a rule may pin a product that stands there anyway
    assert any(report.answer.changed != tuple(report.answer.row["products"]) for report in without)
    lines = without[0].to_lines()
    assert any("with no-rules" in line.columns for line in lines if not isinstance(line, str))
    former = (await replay(f"snapshot={shop.versions[0][:8]}")).to_dict()
    assert len(former["changed"]) == len(row["products"])
    weights = (await replay("weight.trend=9")).to_dict()
    assert weights["is_equal"]
    for change, message in (
        ("weight.nothing=1", "there is no part nothing"),
        ("no-rule=absent", "did not apply"),
    ):
        refused = (await replay(change)).to_dict()
        assert not refused["is_rebuilt"]
        assert message in refused["reasons"][0]
    users = {ruled_row["user"] for ruled_row in ruled[-6:]}
    replays = [key for key in shop.admin.services.cache._results if key[0] == "answers.replay"]
    assert len(users) > 1
    assert len(replays) == 1, "each is a whole app in memory"
    with pytest.raises(Invalid, match="is no change"):
        await replay("later")
    with pytest.raises(NotFound, match="has no answer"):
        await replay(service_id="00000000-0000-4000-8000-000000000000")


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_one_replay_runs_at_a_time_and_only_into_free_memory(tmp_path: Path) -> None:
    async with open_lived_in_shop(tmp_path, seed=7) as shop:
        await shop.live(4)
        log = ServedLogStore(shop.artifacts, shop.clock)
        names = [
            row["service_id"] for row in log.read(APP, 0).to_pylist() if row["endpoint"] in REPLAYED_ENDPOINTS
        ]

        async def replay(service_id: str) -> Any:
            return await shop.admin.perform("answers.replay", role="analyst", service_id=service_id)

        both = await asyncio.gather(replay(names[0]), replay(names[-1]), return_exceptions=True)
        assert sorted(type(result).__name__ for result in both) == ["AnswerReplayReport", "TooMany"]
        assert (await replay(names[-1])).answer.is_equal
        bounds = shop.admin.services.replay_bounds
        bounds._read_free = lambda: 100 << 20
        with pytest.raises(Unavailable, match="run `kiosk replay` on a machine with more memory"):
            await replay(names[0])
        bounds._read_free = lambda: 1 << 40
        assert (await replay(names[0])).answer.is_equal


@pytest.mark.usefixtures("allow_world")
@pytest.mark.timeout(300)
async def test_what_is_not_kept_any_more_is_named(tmp_path: Path) -> None:
    async with open_lived_in_shop(tmp_path, seed=5) as shop:
        await shop.live(6)
        log = ServedLogStore(shop.artifacts, shop.clock)
        rows = [row for row in log.read(APP, 0).to_pylist() if row["endpoint"] in REPLAYED_ENDPOINTS]
        row = next(row for row in rows if row["user"] and row["level"] == "personal")
        broken = {
            "an earlier release wrote this answer": {"state": ""},
            "was removed": {"snapshot": "0123456789abcdef"},
            "engine gone was deleted": {"engine_id": "gone"},
            "has no interaction and no record": {"user": "nobody"},
            "the request has more than": {"request": "too large"},
            "another release wrote the request": {"request": "{"},
            "another release wrote the state": {"state": "1-0"},
            "lists of autocomplete can't be ranked again": {"endpoint": "autocomplete"},
            "are not in the segments yet": {"state": ",".join(["9999999999999-0"] * 5)},
            "experiment x was deleted": {"experiments": [{"experiment": "x", "variant": "y"}]},
        }
        settings = await read_past_settings(shop.stores, APP)
        past = await asyncio.to_thread(load_past_app, shop.artifacts, APP, settings, [row["user"]])
        replayer = AnswerReplayer(past, HashingEmbedder())
        assert (await asyncio.to_thread(replayer.replay, row)).is_equal
        for reason, changed in broken.items():
            answer = await asyncio.to_thread(replayer.replay, {**row, **changed})
            assert not answer.is_rebuilt
            assert reason in answer.reasons[0], reason
