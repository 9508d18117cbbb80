"""Every command, filter and snippet of docs/api.md does what the page says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from cluster.records.validation.json_limits import (
    BYTES_OF_CONTAINER,
    MAX_COMMAS,
    MAX_CONTAINERS,
    MAX_CONTAINERS_OF_LARGE_BODY,
    MAX_DEPTH,
    MAX_NAMES,
)
from tests.contract.example_player import ExamplePlayer
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER
from tests.house.tree import ROOT

GUIDE = (ROOT / "docs" / "api.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[int, str]]:
    """List the commands, each with the status it is answered by."""
    for block in blocks("bash"):
        status, lines = 200, list[str]()
        for line in [*block.splitlines(), "curl"]:
            if (line.startswith(("curl", "# "))) and lines:
                yield status, "\n".join(lines)
                status, lines = 200, []
            if line.startswith("# "):
                status = int(line[2:])
            else:
                lines.append(line)


def filters() -> list[str]:
    section = GUIDE.split("| Filter | Finds products |")[1].split("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.fixture
async def player() -> AsyncIterator[ExamplePlayer]:
    player = await ExamplePlayer.open()
    yield player
    await player.close()


def proofs(player: ExamplePlayer) -> dict[str, str]:
    """Run the Python of the page and take what it makes."""
    # The page signs for a clock that goes; the one of this app stands still.
    code = "\n".join(blocks("python")).replace("time.time()", str(player.corner.clock.now_ms() / 1000))
    made: dict[str, Any] = {"SECRET_KEY": player.corner.secret()}
    exec(code, made)
    return {
        "URL": "", "KEY": player.corner.secret(), "PUBLISHABLE": player.corner.publishable(), "BROWSER": BROWSER,
        "USER_HASH": made["user_hash"], "TOKEN": made["token"],
    }  # fmt: skip


async def run(player: ExamplePlayer, command: str, variables: dict[str, str]) -> Answer:
    """Send a curl command in this process."""
    for name, value in variables.items():
        command = re.sub(rf"\${name}\b", lambda _, value=value: value, command)
    words = iter(shlex.split(command)[1:])
    method, target, body, headers = "GET", "", None, {"User-Agent": "curl/8"}
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word == "-A":
            headers["User-Agent"] = next(words)
        elif word == "-d":
            method, body = "POST", next(words).encode()
        elif word != "-s":
            target = word
    answer = await call(player.corner.handler, method, target, headers=headers, body=body)
    await player.apply()
    return answer


async def test_every_command_of_the_page_gets_the_documented_answer(player: ExamplePlayer) -> None:
    variables, statuses = proofs(player), []
    for status, command in commands():
        answer = await run(player, command, variables)
        assert answer.status == status, (command, answer.body)
        statuses.append(status)
        if "user_to_products" in command and status == 200:
            assert answer.json()["data"]["products"], command
    assert len(statuses) >= 12
    assert {200, 405, 422} <= set(statuses)


async def test_every_filter_of_the_table_finds_something_and_not_everything(player: ExamplePlayer) -> None:
    variables = proofs(player)
    uploading = next(command for _, command in commands() if "/v1/products" in command)
    assert (await run(player, uploading, variables)).status == 200
    totals = {}
    for text in filters():
        answer = await call(
            player.corner.handler, "POST", "/v1/search/search",
            headers=player.corner.headers(), json={"q": "*", "fq": text},
        )  # fmt: skip
        assert answer.status == 200, (text, answer.body)
        totals[text] = answer.json()["data"]["total"]
    assert len(totals) >= 20
    assert totals.pop("*:*") == 3
    assert {text: total for text, total in totals.items() if total not in (1, 2)} == {}


async def test_errors_have_the_shapes_of_the_page(player: ExamplePlayer) -> None:
    shapes = {"detail": False, "errors": False}
    for status, command in commands():
        if status == 422:
            body = (await run(player, command, proofs(player))).json()
            shapes |= dict.fromkeys(set(shapes) & set(body), True)
            shown = json.dumps(body["detail"][0]["msg"] if "detail" in body else body["data"][0])[1:-1]
            if "filter" not in str(body):
                assert shown.replace("data.0.", "") in GUIDE.replace("data.0.", ""), shown
    assert all(shapes.values())


@pytest.mark.parametrize("page", ["api.md", "reference/errors.md"])
def test_the_pages_name_every_limit_of_json(page: str) -> None:
    limits = (
        f"{MAX_DEPTH} levels, {MAX_NAMES:,} names in an object, {MAX_CONTAINERS:,} objects and arrays "
        f"(bodies of more than {MAX_CONTAINERS * BYTES_OF_CONTAINER / 1_000_000:g} MB: one for each "
        f"{BYTES_OF_CONTAINER} bytes, at most {MAX_CONTAINERS_OF_LARGE_BODY:,}), {MAX_COMMAS:,} values"
    )
    assert limits in (ROOT / "docs" / page).read_text("utf-8")
