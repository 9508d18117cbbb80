from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.edge.access.identity_proof import sign_user_id
from tests.contract.scenario import Scenario, differences, filled, load
from tests.contract.ways import Way
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import BROWSER
from tests.fakes.tokens import token_of

SCENARIOS = load(Path(__file__).parent / "rest")
_STEPS = {
    "send", "as", "in", "agent", "headers", "json", "text", "hash", "token", "expect", "body", "exactly", "header",
    "keep", "settle",
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_the_interface_keeps_its_word(scenario: Scenario, way: Way, unknown_key: str) -> None:
    if way.live and scenario.needs:
        pytest.skip(f"needs {', '.join(scenario.needs)}")
    await play(scenario, way, unknown_key)


async def play(scenario: Scenario, way: Way, unknown_key: str) -> None:
    """Play the steps of a scenario one after another."""
    kept = {"unknown_key": unknown_key}
    for number, step in enumerate(scenario.steps, 1):
        assert set(step) <= _STEPS, set(step) - _STEPS
        step = filled(step, kept)
        answer = await _send(way, step, unknown_key)
        _check(step, answer, f"step {number}, {step['send']}")
        for name, path in step.get("keep", {}).items():
            kept[name] = _dig(answer.json(), path)
        if step.get("settle"):
            reply = answer.json()
            await way.settle(
                step.get("as", "shop secret").split()[0], reply.get("task_id") or reply["data"]["task_id"]
            )


async def _send(way: Way, step: dict[str, Any], unknown_key: str) -> Answer:
    method, _, target = step["send"].partition(" ")
    who = step.get("as", "shop secret")
    app, _, kind = who.partition(" ")
    headers: dict[str, str | bytes] = {"User-Agent": step.get("agent", BROWSER), **step.get("headers", {})}
    if who != "nobody":
        key = unknown_key if who == "someone" else way.key(app, kind)
        if step.get("in", "query" if kind == "publishable" else "header") == "header":
            headers["X-API-KEY"] = key
        else:
            target += ("&" if "?" in target else "?") + "api_key=" + key
    body = _body(way, step, app)
    if "token" in step:
        headers["Authorization"] = "Bearer " + _token(way, step["token"], app)
    return await way.send(method, target, headers, body)


def _body(way: Way, step: dict[str, Any], app: str) -> bytes | None:
    if "text" in step:
        return str(step["text"]).encode()
    if "json" not in step:
        return None
    value = step["json"]
    if "hash" in step:
        value = {**value, "user_hash": sign_user_id(way.key(app, "secret").encode(), step["hash"])}
    return json.dumps(value).encode()


def _token(way: Way, claims: dict[str, Any], app: str) -> str:
    made = dict(claims)
    secret = way.key(made.pop("signed_by", app), "secret")
    header = made.pop("header", {"alg": "HS256", "typ": "JWT"})
    for name in ("exp", "nbf"):
        if isinstance(made.get(name), str) and made[name][0] in "+-":
            made[name] = way.now_s() + int(made[name])
    return token_of(made, secret, header)


def _check(step: dict[str, Any], answer: Answer, where: str) -> None:
    assert answer.status == step["expect"], f"{where}: {answer.status} {answer.body[:500]!r}"
    lines: list[str] = []
    if "body" in step:
        lines += differences(step["body"], answer.json(), whole=False)
    if "exactly" in step:
        lines += differences(step["exactly"], answer.json(), whole=True)
    for name, value in step.get("header", {}).items():
        lines += differences(value, answer.headers.get(name), whole=True, path=name)
    assert not lines, f"{where}:\n" + "\n".join(lines)


def _dig(value: Any, path: str) -> str:
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return str(value)
