from __future__ import annotations

import h11
import pytest

from jobs.feeds.crawler import format_conditions, read_validators


@pytest.mark.parametrize("value", ['"\u00c3\u0096"', '"x\u0080"'])
def test_validators_that_no_request_can_carry_are_left_out(value: str) -> None:
    headers = format_conditions(*read_validators({"etag": value, "last-modified": value}))
    h11.Request(method="GET", target="/", headers=[("Host", "a.example"), *headers.items()])
    assert headers == {}


def test_validators_come_back_as_the_host_sent_them() -> None:
    headers = format_conditions(*read_validators({"etag": 'W/"1"', "last-modified": "yesterday"}))
    assert headers == {"If-None-Match": 'W/"1"', "If-Modified-Since": "yesterday"}
