"""The end of a subscription over HTTP: both API replicas refuse the user's token within a second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.benchmarks.stack import Stack
from tests.drills.engines import NO_DASHBOARD, installed, replicas, say
from tests.fakes.small_archive import ARTICLES
from tests.fakes.tokens import token_of
from tests.suites.waiting import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(300)]
QUESTION = "Who signed the treaty about the water of the river?"
LOCKED = [
    {**article, "access": "subscriber"} if article["product_id"] == "river-treaty" else article
    for article in ARTICLES
]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with installed(KIOSK_REPLICAS_MIN="2", KIOSK_REPLICAS_MAX="2", **NO_DASHBOARD) as running:
        task = running.call("POST", "/v1/products", {"data": LOCKED})["data"]["task_id"]
        wait_until(lambda: running.call("GET", f"/v1/products/_status/{task}")["code"] == 200, 30)
        yield running


def call(stack: Stack, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request with a user token over a new connection; status and body."""
    headers = {**stack.headers, "Authorization": f"Bearer {token}", "Connection": "close"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{stack.port}{path}", data=data, method=method, headers=headers)
    try:
        with urlopen(request, timeout=30) as reply:
            return reply.status, json.loads(reply.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def test_an_ended_subscription_closes_on_both_replicas_within_a_second(stack: Stack) -> None:
    assert len(replicas(stack)) == 2
    claims = {"user_id": "gina", "tiers": ["subscriber"], "iat": int(time.time())}
    token = token_of(claims, stack.secret_key)
    other = token_of({**claims, "user_id": "harry"}, stack.secret_key)

    def cites(user_token: str, question_id: str) -> bool:
        status, answer = call(stack, user_token, "GET", f"/v1/ask/questions/{question_id}/answer")
        return status == 200 and "river-treaty" in str(answer["data"]["sources"])

    def post_question() -> str:
        return str(
            call(stack, token, "POST", "/v1/ask/questions", {"question": QUESTION})[1]["data"]["question_id"]
        )

    wait_until(
        lambda: "river-treaty" in str(call(stack, token, "POST", "/v1/ask/search", {"q": "treaty"})[1]), 30
    )
    question_id = post_question()
    wait_until(lambda: cites(token, question_id), 30)
    body = {"question_ids": [question_id]}
    answered: list[tuple[float, int]] = []

    def poll() -> None:
        while not answered or answered[-1][0] < until_s[0]:
            time.sleep(0.05)
            begun_s = time.time()
            answered.append((begun_s, call(stack, token, "POST", "/v1/ask/answers", body)[0]))

    until_s = [time.time() + 120]
    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll)
        wait_until(lambda: len(answered) > 20, 30)
        ended = say(stack, "keys", "end-tokens", stack.app_id, "gina")["issued_until"]
        ended_s = datetime.fromisoformat(ended).timestamp()
        until_s[0] = max(ended_s, time.time()) + 1.5
        polling.result()
    last_s = max(at_s for at_s, status in answered if status == 200) - ended_s
    print(f"\nthe last answer began {last_s:.3f} s after the end")
    assert last_s < 1.0
    after = [status for at_s, status in answered if at_s > ended_s + last_s]
    assert len(after) > 20
    assert set(after) == {401}
    assert not any(cites(token, question_id) for _ in range(10))
    assert call(stack, token, "POST", "/v1/ask/search", {"q": "treaty"}) == (
        401,
        {"message": "Invalid JWT token: ended"},
    )
    assert "river-treaty" in str(call(stack, other, "POST", "/v1/ask/search", {"q": "treaty"}))
    later = token_of({**claims, "iat": int(time.time())}, stack.secret_key)
    assert cites(later, question_id)
