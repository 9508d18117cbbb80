"""Random histories between two backups, restored to moments in between: every record is that of the moment.

Compaction trims the change logs, and a moment whose changes were trimmed is refused. So none is due between the two
backups here, and what orders one is left out: trainings, erasures, and deletions of users.

`HOUSE_MOMENTS` is the number of moments of each of the five histories.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from cluster.backup.restoring import RestoreJob, empty_for_restore, plan_restore
from cluster.errors import Conflict
from tests.suites.restore_histories import APPS, MARK, Dump, History, is_record_key, open_histories

pytestmark = [pytest.mark.redis, pytest.mark.timeout(1800), pytest.mark.usefixtures("allow_world")]
MOMENTS = int(os.environ.get("HOUSE_MOMENTS", "12"))


@pytest.mark.parametrize("seed", range(5))
async def test_every_moment_between_two_backups_is_restored(tmp_path: Path, seed: int) -> None:
    async with open_histories(tmp_path, seed=500 + seed) as history:
        history.compaction_s = (3_600.0,)
        for name in ("compact", "train", "erase", "delete users"):
            del history.operations[name]
        history.start_intake()
        await act(history, 20)
        await history.back_up()
        moments = [await live_until_a_moment(history) for _ in range(MOMENTS)]
        await history.back_up()
        await history.stop_intake()
        compared, trimmed = 0, 0
        for at_ms, expected in moments:
            try:
                restored = await restore_moment(history, at_ms)
            except Conflict:
                trimmed += 1
                continue
            different = {
                key for key in restored.keys() | expected.keys() if restored.get(key) != expected.get(key)
            }
            assert not different, (at_ms, sorted(different)[:5])
            compared += len(expected)
    print(
        f"\n{MOMENTS - trimmed} moments restored, {compared} keys of records compared, 0 differ; {trimmed} refused, "
        f"their changes were trimmed; {sum(history.figures.operations.values())} operations"
    )
    assert compared


async def act(history: History, most: int) -> None:
    """Do some operations; the intake follows them."""
    for _ in range(history.rng.randint(1, most)):
        await history.act()
    if history._work is None or history._work.done():
        history.start_intake()


async def live_until_a_moment(history: History) -> tuple[int, Dump]:
    """Do some operations; return a time at which all of them are done, and the records of that time."""
    await act(history, 8)
    until_s = asyncio.get_running_loop().time() + 60
    while (
        any([await history.stores.intake.depth(app) for app in APPS])
        or await history.stores.erasures.list_orders()
    ):
        assert asyncio.get_running_loop().time() < until_s
        await asyncio.sleep(0.02)
    async with history.frozen():
        at_ms = history.now_ms
        await asyncio.sleep(0.005)
    history.start_intake()
    return at_ms, only_records(history.dumps[-1])


async def restore_moment(history: History, at_ms: int) -> Dump:
    """Restore a time into the other side; return its records."""
    other = history.empty_other()
    plan = plan_restore(history.target, MARK, at_ms=at_ms)
    await empty_for_restore(other.stores, other.artifacts, plan.backup.facts.backup_id)
    await RestoreJob(plan, history.target, other.stores, other.artifacts, history.now_ms).run()
    return only_records(await other.read_all())


def only_records(dump: Dump) -> Dump:
    """Return the keys of users and products, and their types."""
    return {key: value for key, value in dump.items() if is_record_key(key)}
