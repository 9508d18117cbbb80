"""Citations over MCP and over the public pages: states, signatures, corrections for agents that read."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import jwt
import orjson
import pytest

from actors.archive.messages import ArchiveArticle
from cluster.admin.citation_signing_keys import CitationSigningKeys
from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.errors import ColumnsNotReady, Fault, KioskError, NewerRelease, NotFound, Unprocessable
from deployments.archive.citations.article_reads import MOST_AGENTS, MOST_ARTICLES, ArticleReads
from tests.contract.mcp_eras.test_stateless import call_tool
from tests.fakes.archive import RESOURCE, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores

RIVER = "https://news.example.com/articles/na-1002"
FARMS = "Farms must meter water from April."


async def post(corner: ArchiveCorner, body: Any, target: str = "/mcp/citations.json") -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await corner.post(raw, token="", target=target)


async def get(corner: ArchiveCorner, target: str, **headers: str) -> Answer:
    return await corner.post(b"", token="", method="GET", target=target, headers=headers)


async def verify(corner: ArchiveCorner, statement: str) -> dict[str, Any]:
    """Verify a statement as the guide shows it, by the published keys alone."""
    return decode((await get(corner, "/mcp/jwks.json")).json(), statement)


def decode(published: dict[str, Any], statement: str) -> dict[str, Any]:
    """Verify a statement by a key set, offline."""
    keys = jwt.PyJWKSet.from_dict(published)
    key = keys[jwt.get_unverified_header(statement)["kid"]]
    claims: dict[str, Any] = jwt.decode(
        statement, key, ["EdDSA"], issuer=RESOURCE, options={"verify_iat": False}
    )
    return claims


async def read(corner: ArchiveCorner, question: str = "river water rules", **more: Any) -> dict[str, Any]:
    first = (await corner.ask(question, **more))[0]
    pair = {"product_id": first["product_id"], "offset": first["offset"]}
    result: dict[str, Any] = (await corner.tool("get_archive_article", pair, **more))["result"][
        "structuredContent"
    ]
    return result


async def test_a_check_returns_states_and_a_statement_that_is_verified_offline() -> None:
    corner = await open_archive_corner()
    corner.archive.correct(
        "na-1002", "Farms must meter water from May.\n\nThe river rules passed.", "May, not April."
    )
    corner.archive.withdraw("na-8")
    cited = [
        {"product_id": "na-1002", "passage": FARMS},
        {"text": f"The river rules passed ([Parliament votes]({RIVER}))."},
        {"product_id": "na-8"},
        {"url": "https://elsewhere.example/x"},
    ]
    answer = await call_tool(corner, "check_citations", citations=cited)
    results = answer["structuredContent"]["results"]
    assert [result["status"] for result in results] == ["changed", "stands", "withdrawn", "unknown"]
    assert "meter water from May" in results[0]["passage"]
    assert results[0]["passage"].startswith("<quoted ")
    assert (results[0]["corrected_at"], results[1]["url"]) == ("2026-01-02", RIVER)
    claims = await verify(corner, answer["structuredContent"]["statement"])
    assert claims["iss"] == RESOURCE
    assert [item["status"] for item in claims["citations"]] == ["changed", "stands", "withdrawn", "unknown"]
    assert claims["citations"][0]["passage"].startswith("Farms must meter water from May.")
    assert claims["citations"][1]["citation"]["digest"].startswith("4:")
    public = (await post(corner, {"citations": cited})).json()
    assert [item["status"] for item in public["results"]] == ["changed", "stands", "withdrawn", "unknown"]
    assert (await verify(corner, public["statement"]))["citations"] == claims["citations"]


async def test_a_flipped_byte_at_any_place_is_refused() -> None:
    corner = await open_archive_corner()
    statement = (await post(corner, {"citations": [{"product_id": "na-1002", "passage": FARMS}]})).json()[
        "statement"
    ]
    published = (await get(corner, "/mcp/jwks.json")).json()
    assert decode(published, statement)["iss"] == RESOURCE
    header, body, signature = statement.split(".")
    for part, text in enumerate((body, signature)):
        raw = base64.urlsafe_b64decode(text + "==")
        for at in range(len(raw)):
            broken = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
            parts = [header, body, signature]
            parts[part + 1] = base64.urlsafe_b64encode(broken).rstrip(b"=").decode()
            with pytest.raises(jwt.InvalidTokenError):
                decode(published, ".".join(parts))


async def test_old_keys_stay_published_after_rotations_of_the_key_and_of_the_master_key() -> None:
    corner = await open_archive_corner()
    body = {"citations": [{"product_id": "na-1002"}]}
    first = (await post(corner, body)).json()["statement"]
    rotating = CitationSigningKeys(corner.vault, corner.stores.publisher_keys, corner.clock)
    await rotating.rotate("playground")
    corner.clock.pass_ms(2_000)
    second = (await post(corner, body)).json()["statement"]
    later = CitationSigningKeys(
        Vault(b"n" * 32, previous=[MASTER]), corner.stores.publisher_keys, corner.clock
    )
    third = await later.sign("playground", {"iss": RESOURCE})
    corner.clock.pass_ms(2_000)
    kids = [jwt.get_unverified_header(text)["kid"] for text in (first, second, third)]
    assert len(set(kids)) == 3
    for statement in (first, second, third):
        assert (await verify(corner, statement))["iss"] == RESOURCE
    published = orjson.dumps((await get(corner, "/mcp/jwks.json")).json()["keys"])
    assert b'"d"' not in published


async def test_a_key_that_leaked_verifies_no_statement_after_its_removal() -> None:
    corner = await open_archive_corner()
    body = {"citations": [{"product_id": "na-1002"}]}
    keys = CitationSigningKeys(corner.vault, corner.stores.publisher_keys, corner.clock)
    statements = [(await post(corner, body)).json()["statement"]]
    await keys.rotate("playground")
    corner.clock.pass_ms(2_000)
    statements.append((await post(corner, body)).json()["statement"])
    kids = [jwt.get_unverified_header(text)["kid"] for text in statements]
    # First one of an earlier generation, then the current one.
    for removed, statement in zip(kids, tuple(statements), strict=True):
        await keys.remove("playground", removed)
        corner.clock.pass_ms(2_000)
        with pytest.raises(KeyError):
            await verify(corner, statement)
        statements.append((await post(corner, body)).json()["statement"])
        await verify(corner, statements[-1])
    corner.clock.pass_ms(10_000)
    published = {key["kid"] for key in (await get(corner, "/mcp/jwks.json")).json()["keys"]}
    assert not published & set(kids)
    with pytest.raises(NotFound):
        await keys.remove("playground", kids[0])


async def test_an_agent_that_read_an_article_is_informed_once_at_its_next_call() -> None:
    corner = await open_archive_corner()
    other = corner.token("bo")
    before = await read(corner)
    assert "corrections" not in before
    await read(corner, token=other)
    corner.archive.correct("na-1002", "Farms must meter water from May.", "May, not April.")
    for token in (None, other):
        answer = (await corner.tool("ask_archive", {"question": "comet"}, token=token))["result"][
            "structuredContent"
        ]
        (news,) = answer["corrections"]
        assert (news["status"], news["product_id"], news["corrected_at"]) == (
            "corrected",
            "na-1002",
            "2026-01-02",
        )
        assert "May, not April." in news["correction_note"]
        again = await corner.tool("ask_archive", {"question": "comet"}, token=token)
        assert "corrections" not in again["result"]["structuredContent"]
    stranger = await corner.tool("ask_archive", {"question": "comet"}, token=corner.token("cy"))
    assert "corrections" not in stranger["result"]["structuredContent"]
    after = await read(corner)
    assert (after["corrected_at"], "corrections" in after) == ("2026-01-02", False)
    corner.archive.withdraw("na-1002")
    withdrawn = (await call_tool(corner, "search", query="comet"))["structuredContent"]["corrections"]
    assert [item["status"] for item in withdrawn] == ["withdrawn"]


async def test_a_correction_while_an_article_is_read_reaches_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corner = await open_archive_corner()
    read_article = corner.archive.article

    async def read_and_correct(*arguments: Any) -> ArchiveArticle | None:
        article = await read_article(*arguments)
        corner.archive.correct("na-1002", "Farms must meter water from May.", "May, not April.")
        return article

    monkeypatch.setattr(corner.archive, "article", read_and_correct)
    assert "from April" in (await read(corner))["content"]
    answer = await corner.tool("ask_archive", {"question": "comet"})
    (news,) = answer["result"]["structuredContent"]["corrections"]
    assert (news["status"], news["product_id"]) == ("corrected", "na-1002")


async def test_another_replica_informs_the_agent_and_a_killed_one_loses_nothing_that_was_written() -> None:
    first = await open_archive_corner()
    await read(first)
    await first.services.workers.reads.write()
    second = await open_archive_corner(first.stores, first.clock)
    await second.services.workers.reads.follow()
    second.archive.correct("na-1002", "Farms must meter water from May.", "May, not April.")
    answer = await second.tool("ask_archive", {"question": "comet"})
    assert len(answer["result"]["structuredContent"]["corrections"]) == 1
    await second.services.workers.reads.write()
    await first.services.workers.reads.follow()
    first.archive.changes.update(second.archive.changes)
    assert (
        "corrections"
        not in (await first.tool("ask_archive", {"question": "comet"}))["result"]["structuredContent"]
    )


async def test_the_memory_of_readers_is_bounded() -> None:
    reads = ArticleReads(memory_stores(SystemClock()).article_reads, lambda: "news", b"k" * 32, SystemClock())
    corner = await open_archive_corner()
    person = await corner.services.oauth.access_tokens.find_caller(corner.token(), RESOURCE)
    assert person is not None
    for number in range(MOST_AGENTS + 5):
        reads.record(replace(person, user_id=f"u-{number}"), "a", "")
    for number in range(MOST_ARTICLES + 5):
        reads.record(person, f"a-{number}", "")
    assert len(reads._read) == MOST_AGENTS
    assert max(map(len, reads._read.values())) == MOST_ARTICLES


@pytest.mark.parametrize("wrong", [
    b"{", b"[]", {}, {"citations": []}, {"citations": [5]}, {"citations": [{}]}, {"citations": {"a": 1}},
    {"citations": [{"product_id": 5}]}, {"citations": [{"product_id": "a", "passage": "x" * 4_001}]},
    {"citations": [{"product_id": "a", "digest": "0:" + "a" * 64}]}, {"citations": [{"url": "javascript:alert(1)"}]},
    {"citations": [{"product_id": "a"}] * 101}, b"[" * 100_000, {"citations": [{"text": "no link"}]},
])  # fmt: skip
async def test_wrong_citations_are_refused_in_words(wrong: Any) -> None:
    corner = await open_archive_corner()
    answer = await post(corner, wrong)
    assert (answer.status, list(answer.json())) == (400, ["message"])
    if isinstance(wrong, dict):
        refused = await corner.tool("check_citations", wrong)
        assert refused["error"]["code"] == -32603


async def test_public_pages_have_bounds_and_every_origin_may_read_them() -> None:
    corner = await open_archive_corner()
    assert (await post(corner, b"x" * 600_000)).status == 413
    assert (await get(corner, "/mcp/citations.json")).status == 405
    assert (await get(corner, "/mcp/nothing/jwks.json")).status == 404
    statuses = [(await post(corner, {"citations": [{"product_id": "a"}]})).status for _ in range(120)]
    assert statuses.count(429) > 10
    assert (await get(corner, "/mcp/jwks.json")).headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ColumnsNotReady("columns are being built", retry_after_s=2), 503, "columns are being built"),
        (NewerRelease("a newer release wrote this"), 503, "a newer release wrote this"),
        (Unprocessable("the citation is wrong"), 422, "the citation is wrong"),
        (Fault("broken"), 500, "internal error"),
    ],
)
async def test_public_pages_answer_with_the_status_of_an_error(
    error: KioskError, status: int, message: str
) -> None:
    corner = await open_archive_corner()
    corner.archive.wrong = error
    answer = await post(corner, {"citations": [{"product_id": "na-1002", "position": 0, "quote": FARMS}]})
    assert (answer.status, answer.json()) == (status, {"message": message})
    assert answer.headers.get("retry-after") == ("2" if type(error) is ColumnsNotReady else None)


async def test_the_feed_lists_open_articles_newest_first_with_a_statement() -> None:
    corner = await open_archive_corner()
    corner.archive.correct("na-1002", "Farms must meter water from May.", "May, not April.")
    corner.archive.withdraw("na-8")
    corner.archive.access["na-7 (b)"] = "gold"
    corner.archive.withdraw("na-7 (b)")
    answer = await get(corner, "/mcp/corrections.json")
    feed = answer.json()
    assert [(item["id"], item["_kiosk"]["status"]) for item in feed["items"]] == [
        ("na-8", "withdrawn"), ("na-1002", "corrected"),
    ]  # fmt: skip
    assert feed["items"][1]["content_text"] == "May, not April."
    assert (await verify(corner, feed["_kiosk"]["statement"]))["corrections"] == feed["items"]
    again = await get(corner, "/mcp/corrections.json", **{"if-none-match": answer.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


async def test_a_revision_of_a_locked_article_leaves_the_feed_as_it_was() -> None:
    corner = await open_archive_corner()
    corner.archive.withdraw("na-8")
    before = await get(corner, "/mcp/corrections.json")
    corner.clock.pass_ms(5_000)
    corner.archive.access["na-1002"] = "gold"
    corner.archive.correct("na-1002", "Farms must meter water from May.", "May, not April.")
    after = await get(corner, "/mcp/corrections.json")
    assert (after.body, after.headers["etag"]) == (before.body, before.headers["etag"])
    corner.archive.withdraw("na-7 (b)")
    assert (await get(corner, "/mcp/corrections.json")).headers["etag"] != before.headers["etag"]
