"""The rate of an archive client: one for all replicas, and the same while the store is away."""

from __future__ import annotations

import pytest

from cluster.errors import TooMany, Unavailable
from cluster.records.archive.archive_client import ClientRule
from cluster.store.installation.rate_limits import RateLimitGrant
from deployments.archive.admission import ArchiveCaller, ClientAdmission
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

CALLER = ArchiveCaller("u-1", "c-1", "Example Agent")
RULE = ClientRule(client="Example Agent", calls_per_minute=60)


class AwayLimits:
    """A store of buckets that does not answer."""

    async def take(self, *_: str, **__: object) -> RateLimitGrant:
        raise Unavailable("away")


async def count_calls(admissions: list[ClientAdmission], tries: int) -> int:
    passed = 0
    for number in range(tries):
        try:
            await admissions[number % len(admissions)].spend(RULE, CALLER)
            passed += 1
        except TooMany:
            continue
    return passed


async def test_replicas_share_the_rate_of_a_user() -> None:
    clock = StillClock()
    stores = memory_stores(clock)
    admissions = [ClientAdmission(stores.client_rules, stores.limits, lambda: "news", clock) for _ in "ab"]
    assert await count_calls(admissions, 40) == 5
    clock.pass_ms(1_000)
    assert await count_calls(admissions, 40) == 1


async def test_a_store_that_is_away_lifts_no_limit() -> None:
    clock = StillClock()
    admission = ClientAdmission(memory_stores(clock).client_rules, AwayLimits(), lambda: "news", clock)  # type: ignore[arg-type]
    passed = await count_calls([admission], 40)
    for _ in range(10):
        clock.pass_ms(1_000)
        passed += await count_calls([admission], 40)
    assert 10 <= passed <= 16
    with pytest.raises(TooMany, match="try again in 1 s"):
        await admission.spend(RULE, CALLER)
    await admission.close()
