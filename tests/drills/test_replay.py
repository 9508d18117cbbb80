"""A thousand lists of a lived-in day, ranked again: at least 99.9 % are equal, and all others have a reason.

And a process that ranks lists of a larger app again: it takes at most the memory that the estimate names.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.replay.answer_replay import REPLAYED_ENDPOINTS, AnswerReplayer
from actors.serving.replay.past_app import (
    PastSettings,
    estimate_memory,
    load_past_app,
    read_past_settings,
)
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.lived_in_shop import LivedInShop, live_a_day, make_product, open_lived_in_shop
from tests.suites.test_replay import check_answers, replay_all

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1_800)]
AT_ONCE = 500
LEAST_SHARE = 0.5
"Of the estimate that the peak reaches: a larger one would refuse replays without need."


@pytest.mark.usefixtures("allow_world")
async def test_a_thousand_lists_of_a_day_are_ranked_again_as_they_were(tmp_path: Path) -> None:
    async with open_lived_in_shop(tmp_path, seed=23) as shop:
        rows = [row for row in await live_a_day(shop, 600) if row["endpoint"] in REPLAYED_ENDPOINTS]
        sample = Random(1).sample(rows, 1_000)
        check_answers(await replay_all(shop, sample), 0.999)


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize(
    ("products", "words", "interactions"), [(10_000, 10, 0), (5_000, 400, 0), (500, 10, 100_000)]
)
async def test_a_replay_takes_at_most_the_memory_of_the_estimate(
    tmp_path: Path, products: int, words: int, interactions: int
) -> None:
    async with open_lived_in_shop(tmp_path, seed=3) as shop:
        await grow(shop, products, words, interactions)
        await shop.post("recommendation/user_to_products", {"rows": 6, "user_id": "u4"})
        await shop.post("search/search", {"q": "oak", "user_id": "u4"})
        await shop.settle()
        rows = ServedLogStore(shop.artifacts, shop.clock).read(APP, 0).to_pylist()
        settings = await read_past_settings(shop.stores, APP)
        estimate = estimate_memory(shop.artifacts, APP)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        peak = pool.submit(measure_replay, tmp_path / "artifacts", settings, rows).result()
    print(f"\n{products:,} products, {interactions:,} interactions: {peak:,} of {estimate:,} bytes")
    assert LEAST_SHARE * estimate < peak <= estimate


async def grow(shop: LivedInShop, products: int, words: int, interactions: int) -> None:
    """Add products with so many words, and interactions with them."""
    stores, random = cast(Any, shop.stores), Random(1)
    for first in range(0, products, AT_ONCE):
        numbers = range(100 + first, 100 + first + AT_ONCE)
        text = {"description": " ".join(f"word{random.randrange(9_999)}" for _ in range(words))}
        await upload(stores, [{**make_product(number, random), **text} for number in numbers])
    for _ in range(0, interactions, AT_ONCE):
        items = [
            {
                "type": "click", "user_id": f"w{random.randrange(interactions // 20)}",
                "product_ids": [f"p{100 + random.randrange(products)}"],
                "timestamp": iso_ms(shop.clock.now_ms() - random.randrange(10**9)),
            }
            for _ in range(AT_ONCE)
        ]  # fmt: skip
        await happen(stores, items)
    await shop.settle()
    await shop.follow()


def measure_replay(folder: Path, settings: PastSettings, rows: Sequence[dict[str, Any]]) -> int:
    """Rank lists again in a process of its own, and return by how many bytes its memory grew."""
    before = read_peak()
    users = [row["user"] for row in rows if row["user"]]
    past = load_past_app(ArtifactStore.open(folder), APP, settings, users)
    replayer = AnswerReplayer(past, HashingEmbedder())
    assert all(replayer.replay(row).is_equal for row in rows)
    return read_peak() - before


def read_peak() -> int:
    """Return the most memory that this program had so far; `ru_maxrss` would include that of its parent."""
    text = Path("/proc/self/status").read_text("utf-8")
    return int(text.split("VmHWM:")[1].split()[0]) * 1024
