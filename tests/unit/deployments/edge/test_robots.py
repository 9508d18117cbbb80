from __future__ import annotations

import pytest

from deployments.edge.robots import looks_automated
from tests.fakes.door import BROWSER


@pytest.mark.parametrize(
    "agent",
    [
        b"Googlebot/2.1", b"curl/8.5.0", b"Wget/1.21", b"PostmanRuntime/7.3", b"python-requests/2.32", b"node",
        b"axios/1.7", b"okhttp/4.12", b"Java/17", b"Go-http-client/2.0", b"libwww-perl/6", b"HeadlessChrome/120",
        b"my CRAWLER", b"spider", b"python-httpx/0.28", b"aiohttp/3.9", b"", b"   ", None,
    ],
)  # fmt: skip
def test_automated_agents_are_told(agent: bytes | None) -> None:
    assert looks_automated(agent)


def test_a_browser_is_not_automated_and_the_reason_is_never_the_callers_text() -> None:
    assert looks_automated(BROWSER.encode()) == ""
    assert looks_automated(b"evil\r\nx: curl secret") == "curl"
