from __future__ import annotations

from typing import Any, cast

import h11
import pytest

from cluster.external_fetcher import DocumentError, ExternalFetcher, FetchedResponse
from jobs.feeds.polite_fetcher import (
    MOST_FAILURES,
    FetchError,
    HostResting,
    PoliteFetcher,
    format_conditions,
    read_validators,
)
from tests.suites.manual_clock import ManualClock


@pytest.mark.parametrize("value", ['"\u00c3\u0096"', '"x\u0080"'])
def test_validators_that_no_request_can_carry_are_left_out(value: str) -> None:
    headers = format_conditions(*read_validators({"etag": value, "last-modified": value}))
    h11.Request(method="GET", target="/", headers=[("Host", "a.example"), *headers.items()])
    assert headers == {}


def test_validators_come_back_as_the_host_sent_them() -> None:
    headers = format_conditions(*read_validators({"etag": 'W/"1"', "last-modified": "yesterday"}))
    assert headers == {"If-None-Match": 'W/"1"', "If-Modified-Since": "yesterday"}


class SlowPages:
    """A host whose pages below `/slow` do not end in time."""

    async def send(self, address: str, **_: Any) -> FetchedResponse:
        if "/slow" in address:
            raise DocumentError("does not answer in time")
        return FetchedResponse(200, {}, b"")


async def test_slow_pages_of_one_app_let_the_host_rest_for_that_app_alone() -> None:
    clock = ManualClock()

    async def pass_time(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    fetcher = PoliteFetcher(cast(ExternalFetcher, SlowPages()), clock, pass_time)

    async def get(path: str, app_id: str) -> int:
        address = f"https://news.example/{path}"
        reply = await fetcher.get(address, person=f"{app_id}/feed", until_s=clock.monotonic_s() + 100)
        return reply.status

    for _ in range(MOST_FAILURES):
        with pytest.raises(FetchError, match="in time"):
            await get("slow", "hostile")
    with pytest.raises(HostResting):
        await get("feed", "hostile")
    assert await get("feed", "news") == 200
    clock.advance(600_000)
    assert await get("feed", "hostile") == 200
