from __future__ import annotations

import pytest

from deployments.edge.access.robot_detection import detect_robot
from tests.fakes.request_handler import BROWSER


@pytest.mark.parametrize(
    "agent",
    [
        b"Googlebot/2.1", b"curl/8.5.0", b"Wget/1.21", b"PostmanRuntime/7.3", b"python-requests/2.32", b"node",
        b"axios/1.7", b"okhttp/4.12", b"Java/17", b"Go-http-client/2.0", b"libwww-perl/6", b"HeadlessChrome/120",
        b"node-fetch/1.0", b"undici nodejs/20", b"Apache-HttpClient/4.5 (Java/17)", b"Java1.8.0_412", b"bot",
        b"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", b"Mozilla (CUBOT X30) Googlebot",
        b"TelegramBot (like TwitterBot)", b"robot",
        b"my CRAWLER", b"spider", b"python-httpx/0.28", b"aiohttp/3.9", b"", b"   ", None,
    ],
)  # fmt: skip
def test_automated_agents_are_detected(agent: bytes | None) -> None:
    assert detect_robot(agent)


@pytest.mark.parametrize(
    "agent",
    [
        b"Mozilla/5.0 (Linux; Android 10; CUBOT X30) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Mobile Safari",
        b"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/605.1 (KHTML, like Gecko) JavaFX/17 Safari/605.1",
        b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Anode/2",
    ],
)
def test_browsers_of_people_that_hold_such_letters_are_let_in(agent: bytes) -> None:
    assert detect_robot(agent) == ""


def test_a_browser_is_not_automated_and_the_reason_is_never_the_callers_text() -> None:
    assert detect_robot(BROWSER.encode()) == ""
    assert detect_robot(b"evil\r\nx: curl secret") == "curl"
