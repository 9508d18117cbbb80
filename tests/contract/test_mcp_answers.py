"""What the archive's tools answer, to whom, and what stays when things go wrong."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.archive.messages import ArchiveQuery, ArchiveResult
from cluster.crypto import Vault
from cluster.errors import Fault, Unavailable
from cluster.records.archive.archive_client import ClientRule
from cluster.store.refreshing_cache import RefreshingCache
from deployments.archive.text_fence import PURPOSE, fence_line
from deployments.archive.tools import TOOLS
from tests.fakes.archive import NOT_ISSUED, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import HungUp, call
from tests.fakes.request_handler import MASTER, StillClock
from tests.suites.waiting import until


@pytest.fixture
async def corner() -> ArchiveCorner:
    """A small archive."""
    return await open_archive_corner()


def pair(result: dict[str, Any]) -> dict[str, Any]:
    """Take what names a snippet."""
    return {"product_id": result["product_id"], "offset": result["offset"]}


def quoted(text: str) -> str:
    """Fence a line as the tools do."""
    return fence_line(text, Vault(MASTER).derive(PURPOSE))


def message_of(answer: Any) -> str:
    """Read the message of an error answer."""
    assert answer["error"]["code"] == -32603
    text: str = answer["error"]["message"]
    return text


# --- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "proposed", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2099-01-01", ""]
)
async def test_initialize_speaks_one_version_whatever_is_proposed(
    corner: ArchiveCorner, proposed: str
) -> None:
    params = {
        "protocolVersion": proposed,
        "capabilities": {"x": {}},
        "clientInfo": {"name": "a", "version": "b"},
    }
    answer = await corner.rpc("initialize", params, id=0)
    assert answer["id"] == 0
    result = answer["result"]
    assert result["protocolVersion"] == "2024-11-05"
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert result["serverInfo"] == {"name": "archive", "title": "News Archive Search", "version": "0.1.0"}
    assert "citation_format" in result["instructions"]


async def test_initialize_ignores_the_version_header(corner: ArchiveCorner) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = await corner.post(json.dumps(body).encode(), headers={"mcp-protocol-version": "2025-11-25"})
    assert "result" in answer.json()


async def test_tools_are_listed_on_one_page(corner: ArchiveCorner) -> None:
    result = (await corner.rpc("tools/list", {"cursor": "x"}))["result"]
    assert result == {"tools": [tool.to_dict() for tool in TOOLS]}


async def test_a_snippet_has_the_fields_of_an_agent_and_omits_unset_ones(
    corner: ArchiveCorner,
) -> None:
    first, *_ = await corner.ask("river water rules")
    offset = first.pop("offset")
    assert 0 <= offset < 2**53
    assert first == {
        "product_id": "na-1002",
        "product_title": quoted("Parliament votes on river water rules"),
        "child_title": quoted("Metering"),
        "snippet": quoted("Farms must meter water from April."),
        "authors": ["L. Brandt", "S. Iyer"],
        "published_date": "2020-11-19",
        "url": "https://news.example.com/articles/na-1002",
        "score": 1.0,
    }
    bare = (await corner.ask("seen again in June"))[0]
    assert set(bare) == {"product_id", "offset", "product_title", "snippet", "authors", "score"}


async def test_text_and_structured_content_are_the_same_and_no_member_is_null(corner: ArchiveCorner) -> None:
    answer = await corner.tool("ask_archive", {"question": "comet"})
    result = answer["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False
    assert "null" not in json.dumps(answer)


async def test_an_article_comes_with_its_citation_and_licence(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    article = (await corner.tool("get_archive_article", pair(first)))["result"]["structuredContent"]
    content = article.pop("content")
    assert article == {
        "product_id": "na-1002",
        "product_title": "Parliament votes on river water rules",
        "child_title": "Metering",
        "authors": ["L. Brandt", "S. Iyer"],
        "published_date": "2020-11-19",
        "url": "https://news.example.com/articles/na-1002",
        "citation_format": (
            "[Parliament votes on river water rules](https://news.example.com/articles/na-1002)"
        ),
        "citation_instruction": (
            "Cite this content with the markdown link in citation_format. Licence: Creative Commons Attribution 2.5 "
            "(https://creativecommons.org/licenses/by/2.5/). Credit the authors."
        ),
    }
    assert "Farms must meter water from April.\n\nThe river rules passed by nine votes." in content
    assert content.startswith("<article-text ")


async def test_results_fit_the_schemas_that_are_announced(corner: ArchiveCorner) -> None:
    announced = {
        tool["name"]: tool["outputSchema"] for tool in (await corner.rpc("tools/list"))["result"]["tools"]
    }
    asked = await corner.tool("ask_archive", {"question": "comet river"})
    _fits(asked["result"]["structuredContent"], announced["ask_archive"])
    for found in asked["result"]["structuredContent"]["results"]:
        article = await corner.tool("get_archive_article", pair(found))
        _fits(article["result"]["structuredContent"], announced["get_archive_article"])


async def test_context_and_question_reach_the_archive(corner: ArchiveCorner) -> None:
    await corner.ask("river", context="x" * 20_000, skill_used="brief")
    (query,) = corner.archive.queries
    assert (query.app_id, query.question, len(query.context)) == ("playground", "river", 8_000)


# --- pairs -------------------------------------------------------------------------------------------------------


async def test_a_pair_belongs_to_the_person_not_to_token_client_or_process(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    corner.clock.pass_ms(1000)
    other_client = corner.token("ida", client="client-2")
    for _ in range(2):
        answer = await corner.tool("get_archive_article", pair(first), token=other_client)
        assert "result" in answer
    restarted = await open_archive_corner()
    assert "result" in await restarted.tool("get_archive_article", pair(first))


async def test_somebody_elses_pair_reads_as_never_returned(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    answer = await corner.tool("get_archive_article", pair(first), token=corner.token("eve"))
    assert message_of(answer) == NOT_ISSUED


async def test_a_pair_is_valid_for_its_product_only(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    answer = await corner.tool("get_archive_article", {**pair(first), "product_id": "na-8"})
    assert message_of(answer) == NOT_ISSUED


async def test_an_article_that_is_gone_reads_as_never_returned(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    del corner.archive.articles["na-1002"]
    assert message_of(await corner.tool("get_archive_article", pair(first))) == NOT_ISSUED


async def test_a_product_that_is_no_article_any_more_reads_as_never_returned(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    corner.archive.articles["na-1002"] = replace(corner.archive.articles["na-1002"], is_article=False)
    assert message_of(await corner.tool("get_archive_article", pair(first))) == NOT_ISSUED


async def test_another_archive_does_not_take_pairs_of_this_one(corner: ArchiveCorner) -> None:
    first, *_ = await corner.ask("river water rules")
    other = await open_archive_corner(app_id="other")
    assert message_of(await other.tool("get_archive_article", pair(first))) == NOT_ISSUED


# --- when things go wrong ----------------------------------------------------------------------------------------


async def test_an_archive_that_is_away_is_a_sentence_not_a_status(corner: ArchiveCorner) -> None:
    corner.archive.wrong = Unavailable("redis is away at 10.0.0.7", retry_after_s=3)
    answer = await corner.tool("ask_archive", {"question": "river"})
    assert answer["error"] == {
        "code": -32603,
        "message": "The archive is busy or restarting; try again in 3 s",
    }


@pytest.mark.parametrize(
    "wrong", [ValueError("secret of ours"), Fault("secret of ours"), RecursionError("secret")]
)
async def test_a_fault_of_ours_tells_a_request_id_and_nothing_else(
    corner: ArchiveCorner, wrong: Exception
) -> None:
    corner.archive.wrong = wrong
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
               "params": {"name": "ask_archive", "arguments": {"question": "river"}}}  # fmt: skip
    answer = await corner.post(json.dumps(message).encode(), headers={"x-request-id": "abc-1"})
    assert answer.status == 200
    assert answer.json()["error"] == {
        "code": -32603, "message": "Internal error", "data": "request abc-1 failed",
    }  # fmt: skip
    assert b"secret" not in answer.body


async def test_nobody_is_sent_to_sign_in_while_revocations_can_not_be_read(
    corner: ArchiveCorner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> int:
        raise Unavailable("away", retry_after_s=1)

    token = corner.token()
    bearer = corner.services.oauth.access_tokens
    monkeypatch.setattr(bearer, "_cache", RefreshingCache(bearer._load, bearer._clock))
    monkeypatch.setattr(corner.stores.grants, "version", away)
    answer = await corner.rpc("ping", token=token, id="a")
    assert answer == {
        "jsonrpc": "2.0", "id": "a",
        "error": {"code": -32603, "message": "The archive is busy or restarting; try again in 1 s"},
    }  # fmt: skip
    notified = await corner.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', token=token)
    assert (notified.status, notified.body) == (202, b"")


async def test_a_body_that_drips_is_cut_off() -> None:
    corner = await open_archive_corner()
    corner.services.endpoint._body_s = 0.05
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {corner.token()}".encode()), (b"host", b"news.example.com")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    await asyncio.wait_for(corner.services.endpoint(scope, receive, send), 2)
    assert sent[0]["status"] == 200
    assert b"did not arrive in time" in sent[1]["body"]


async def test_a_caller_who_hangs_up_is_not_answered(corner: ArchiveCorner) -> None:
    headers = {"host": "news.example.com", "authorization": f"Bearer {corner.token()}"}
    with pytest.raises(HungUp):
        await call(corner.app, "POST", "/mcp", headers=headers, body=b"{", hang_up=True)


async def test_calls_beyond_the_bound_get_a_retry_answer(corner: ArchiveCorner) -> None:
    corner.services.endpoint._most_at_once = 3
    corner.archive.gate = asyncio.Event()
    calls = [asyncio.ensure_future(corner.tool("ask_archive", {"question": "river"})) for _ in range(8)]
    await until(lambda: sum(call.done() for call in calls) >= 5)
    refused = [(await call)["error"]["message"] for call in calls if call.done()]
    assert refused == ["The archive is busy or restarting; try again in 1 s"] * 5
    corner.archive.gate.set()
    assert sum("result" in answer for answer in await asyncio.gather(*calls)) == 3
    assert "result" in await corner.tool("ask_archive", {"question": "river"})


@given(body=st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
@settings(max_examples=60, deadline=None)
async def test_any_bytes_are_answered_by_json_rpc(body: bytes) -> None:
    corner = await open_archive_corner()
    answer = await corner.post(body)
    assert answer.status in (200, 202)
    if answer.status == 200:
        assert answer.json()["jsonrpc"] == "2.0"


@given(
    arguments=st.dictionaries(
        st.sampled_from(["question", "context", "skill_used", "product_id", "offset", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    ),
    tool=st.sampled_from(["ask_archive", "get_archive_article"]),
)
@settings(max_examples=100, deadline=None)
async def test_any_arguments_are_answered_or_refused_by_name(tool: str, arguments: dict[str, Any]) -> None:
    corner = await open_archive_corner()
    message = {
        "jsonrpc": "2.0",
        "id": "i",
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    told = (await corner.post(json.dumps(message).encode())).json()
    if "error" in told:
        assert told["error"]["code"] == -32700 or tool in told["error"]["message"]
    else:
        assert told["result"]["isError"] is False
    await corner.services.workers.usage.write()


# --- clients -----------------------------------------------------------------------------------------------------


async def test_a_denied_client_is_refused_by_name_or_id_and_others_are_not(corner: ArchiveCorner) -> None:
    await corner.stores.client_rules.put("playground", ClientRule(client="Greedy  bot", decision="deny"))
    await corner.services.workers.gate.read()
    greedy = corner.token(client="client-9", name="GREEDY bot")
    for method in ("initialize", "tools/list", "ping"):
        answer = await corner.rpc(method, {}, token=greedy)
        assert message_of(answer) == "This client is not allowed to use the archive; ask its publisher"
    assert "result" in await corner.rpc("ping")
    await corner.stores.client_rules.remove("playground", "greedy bot")
    await corner.services.workers.gate.read()
    assert "result" in await corner.rpc("ping", token=greedy)


async def test_everybody_can_be_denied_but_for_one(corner: ArchiveCorner) -> None:
    await corner.stores.client_rules.put("playground", ClientRule(client="*", decision="deny"))
    await corner.stores.client_rules.put("playground", ClientRule(client="Example Agent"))
    await corner.services.workers.gate.read()
    assert "result" in await corner.rpc("ping")
    assert "error" in await corner.rpc("ping", token=corner.token(name="Another"))


async def test_a_rate_holds_for_a_client_over_all_its_people_and_comes_back() -> None:
    clock = StillClock()
    corner = await open_archive_corner(clock=clock)
    await corner.stores.client_rules.put(
        "playground", ClientRule(client="Example Agent", calls_per_minute=12)
    )
    await corner.services.workers.gate.read()
    tokens = [corner.token("ida"), corner.token("bo")]
    answers = [
        await corner.tool("ask_archive", {"question": "river"}, token=tokens[at % 2]) for at in range(4)
    ]
    assert ["result" in answer for answer in answers] == [True, False, False, False]
    assert message_of(answers[1]) == "Too many calls; try again in 5 s"
    assert "result" in await corner.rpc("ping"), "only calls of tools are counted"
    assert "result" in await corner.tool(
        "ask_archive", {"question": "river"}, token=corner.token(name="Other")
    )
    clock.pass_ms(5_100)
    assert "result" in await corner.tool("ask_archive", {"question": "river"})


async def test_without_a_rule_a_person_has_twenty_calls_a_second() -> None:
    corner = await open_archive_corner()
    answers = [await corner.tool("ask_archive", {"question": "river"}) for _ in range(120)]
    assert sum("result" in answer for answer in answers) == 100
    assert "result" in await corner.tool("ask_archive", {"question": "river"}, token=corner.token("bo"))


# --- the book of calls -------------------------------------------------------------------------------------------


async def test_every_call_is_noted_with_client_skill_question_articles_and_refusal(
    corner: ArchiveCorner,
) -> None:
    first, *_ = await corner.ask("river water rules", skill_used="morning-brief")
    await corner.tool("get_archive_article", pair(first))
    await corner.tool("get_archive_article", {**pair(first), "offset": 7})
    await corner.tool("ask_archive", {})
    await corner.rpc("ping")
    assert await corner.stores.archive_calls.read_all("playground", "0") == [], "off the request's way"
    await corner.services.workers.usage.write()
    asked, read, made_up, empty = await corner.stores.archive_calls.read_all("playground", "0")
    assert (asked.tool, asked.client_name, asked.skill_used) == (
        "ask_archive",
        "Example Agent",
        "morning-brief",
    )
    assert (asked.question, asked.articles, asked.outcome) == ("river water rules", ("na-1002",), "answered")
    assert asked.client.startswith("c-")
    assert (read.tool, read.articles, read.question) == ("get_archive_article", ("na-1002",), "")
    assert (made_up.outcome, made_up.refusal) == ("refused", NOT_ISSUED)
    assert empty.refusal == "Invalid arguments for ask_archive: missing required arguments: question"


async def test_every_call_is_noted_with_the_time_it_took(
    corner: ArchiveCorner, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = corner.clock, corner.archive.ask

    async def ask_slowly(query: ArchiveQuery) -> ArchiveResult:
        clock.pass_ms(37)
        return await asked(query)

    monkeypatch.setattr(corner.archive, "ask", ask_slowly)
    await corner.ask("river")
    corner.archive.wrong = Unavailable("away")
    await corner.tool("ask_archive", {"question": "river"})
    await corner.services.workers.usage.write()
    calls = await corner.stores.archive_calls.read_all("playground", "0")
    assert [(call.outcome, call.took_ms) for call in calls] == [("answered", 37.0), ("refused", 37.0)]


async def test_the_report_records_coverage_and_the_answer_omits_it(corner: ArchiveCorner) -> None:
    await corner.ask("zebra quantum comet")
    first, *_ = await corner.ask("was seen again in June")
    assert "coverage" not in json.dumps(first)
    await corner.tool("get_archive_article", pair(first))
    await corner.services.workers.usage.write()
    calls = await corner.stores.archive_calls.read_all("playground", "0")
    assert [call.coverage for call in calls] == [0.333, 1.0, None]


async def test_the_book_survives_a_store_that_is_away_and_stays_bounded(
    corner: ArchiveCorner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> None:
        raise Unavailable("away")

    good = corner.stores.archive_calls.append
    monkeypatch.setattr(corner.stores.archive_calls, "append", away)
    for _ in range(3):
        await corner.ask("river")
    await corner.services.workers.usage.write()
    monkeypatch.setattr(corner.stores.archive_calls, "append", good)
    await corner.services.workers.usage.write()
    assert len(await corner.stores.archive_calls.read_all("playground", "0")) == 3


async def test_what_strangers_send_is_noted_only_so_far(corner: ArchiveCorner) -> None:
    await corner.tool("ask_archive", {"question": "x" * 500_000, "skill_used": "y" * 500})
    await corner.services.workers.usage.write()
    (noted,) = await corner.stores.archive_calls.read_all("playground", "0")
    assert (len(noted.question), len(noted.skill_used)) == (500, 120)


def _fits(value: Any, schema: dict[str, Any], path: str = "result") -> None:
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
    assert isinstance(value, kinds[schema["type"]]), path  # type: ignore[arg-type]
    if schema["type"] == "object":
        assert set(schema.get("required", ())) <= set(value), path
        assert set(value) <= set(schema["properties"]), path
        for name, inner in value.items():
            _fits(inner, schema["properties"][name], f"{path}.{name}")
    if schema["type"] == "array":
        for inner in value:
            _fits(inner, schema["items"], f"{path}[]")
