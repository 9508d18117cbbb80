"""Questions and answers against their rows of the specification, over every way into the interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from cluster.records.apps import AppSettings
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.edge.access.identity_proof import sign_user_id
from tests.fakes.asgi import Answer, call
from tests.fakes.corner_shop import upload
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.fakes.small_archive import ARTICLES
from tests.fakes.tokens import token_of
from tests.suites.doing import require

QUESTION = "Who signed the treaty about the water of the river?"


class Desk:
    """The interface as callers see it."""

    def __init__(self, corner: Corner, app: Any) -> None:
        self.corner = corner
        self._app = app

    async def post(self, path: str, body: Any, *, app: str = "shop", **more: Any) -> Answer:
        return await self._send("POST", path, body, app, **more)

    async def get(self, path: str, *, app: str = "shop", **more: Any) -> Answer:
        return await self._send("GET", path, None, app, **more)

    async def _send(
        self, method: str, path: str, body: Any, app: str, *, browser: bool = False, token: Any = None
    ) -> Answer:
        headers: dict[str, str | bytes] = {"User-Agent": BROWSER}
        if browser:
            path += f"?api_key={self.corner.publishable(app)}"
        else:
            headers.update(self.corner.headers(app))
        if token is not None:
            headers["Authorization"] = "Bearer " + token_of(token, self.corner.secret(app))
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        return await call(self._app, method, "/v1/ask/" + path, headers=headers, body=raw)

    async def post_question(self, question: str = QUESTION, **more: Any) -> str:
        identity = {name: more.pop(name) for name in ("app", "browser", "token") if name in more}
        answer = await self.post("questions", {"question": question, **more}, **identity)
        assert answer.status == 200, answer.body
        return str(answer.json()["data"]["question_id"])

    async def finished(self, question_id: str, app: str = "shop") -> dict[str, Any]:
        """Poll as a browser does, and check what every poll must keep to."""
        seen = 0
        for _ in range(400):
            answer = await self.get(f"questions/{question_id}/answer", app=app, browser=True)
            assert answer.status == 200, answer.body
            record: dict[str, Any] = answer.json()["data"]
            assert record["revision"] >= seen
            assert record["answer_stage"]
            assert record["finished"] == (record["finish_reason"] != "not_finished")
            seen = record["revision"]
            if record["finished"]:
                return record
            await asyncio.sleep(0.01)
        raise AssertionError("the answer was never finished")


@pytest.fixture(params=["framework", "front"])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    corner = await open_corner()
    app: Any = build_application(corner.handler, version="0")
    if request.param == "front":
        app = HotPathMiddleware(app, lambda: corner.handler)
    await upload(corner.stores, ARTICLES, app_id="shop")
    await corner.asking.start()
    yield Desk(corner, app)
    await corner.close()


async def test_a_question_is_answered_with_sources_that_hold_it(queue: Desk) -> None:
    metadata = {"question_source": "_organic", "page": {"n": 1}}
    question_id = await queue.post_question(metadata=metadata, source_fl=["url", "authors"], cite_link=1)
    record = await queue.finished(question_id)
    assert record["question"] == QUESTION
    assert record["question_id"] == question_id
    assert record["parent_question_id"] is None
    assert record["finish_reason"] == "success"
    assert record["metadata"] == metadata
    assert record["datetime"] == "2026-03-02T09:15:30.250Z"
    assert record["revision"] >= 2
    source = record["sources"][0]
    assert source["product_id"] == "river-treaty"
    assert source["title"] == "Two countries share the River Ardle"
    assert source["url"] == "https://news.example/river-treaty"
    assert source["authors"] == ["Ida Holm"]
    assert (source["child_id"], source["child_title"]) == ("river-treaty-1", "The agreement")
    assert "<mark>" in source["snippet"]
    assert record["images"][0]["image_src"] == "https://news.example/river-treaty.jpg"
    assert "signed a treaty" in record["answer"]
    assert "[[1]](https://news.example/river-treaty)" in record["answer"]
    for name in ("related_resources", "followup_questions", "affiliation_products"):
        assert isinstance(record[name], list)
    assert all(
        set(related_resource) == {"product_id", "title", "snippet"}
        for related_resource in record["related_resources"]
    )


async def test_what_the_archive_does_not_hold_is_refused_without_sources(queue: Desk) -> None:
    record = await queue.finished(await queue.post_question("zyx qwv unheard of gibberish?"))
    assert (record["finish_reason"], record["sources"]) == ("no_answer", [])


async def test_citations_carry_the_requested_marks(queue: Desk) -> None:
    record = await queue.finished(await queue.post_question(cite_start="(", cite_end=")"))
    assert "(1)" in record["answer"]
    assert "[1]" not in record["answer"]


async def test_names_become_links_and_faulty_templates_are_refused(queue: Desk) -> None:
    record = await queue.finished(await queue.post_question(wiki_link_template="/find?q=%s"))
    assert "](/find?q=" in record["answer"]
    for template in ("/find", "javascript:%s", "//evil.example/%s", "/a%s%s", "/a b%s"):
        answer = await queue.post("questions", {"question": QUESTION, "wiki_link_template": template})
        assert answer.status == 422
        assert answer.json()["detail"][0]["loc"] == ["body", "wiki_link_template"]


async def test_answers_have_the_requested_order_and_format(queue: Desk) -> None:
    first, second = await queue.post_question(), await queue.post_question("Why was the paper mill closed?")
    await queue.finished(first)
    await queue.finished(second)
    unknown = str(uuid4())
    plain = (await queue.post("answers", {"question_ids": [second, unknown, first, second]})).json()
    assert plain["message"] == "success"
    assert [item and item["question_id"] for item in plain["data"]] == [second, None, first, second]
    body = {"question_ids": [first, unknown], "source_fl": ["url"], "cite_start": "<", "cite_link": True}
    other = (await queue.post("answers", body)).json()["data"]
    assert other[0]["sources"][0]["url"] == "https://news.example/river-treaty"
    assert "[<1]](https://news.example/river-treaty)" in other[0]["answer"]
    assert other[1] is None
    assert (await queue.post("answers", {"question_ids": []})).json()["data"] == []


async def test_a_question_of_another_app_answers_404(queue: Desk) -> None:
    question_id = await queue.post_question()
    for path in (f"questions/{question_id}/answer", f"questions/{uuid4()}/answer"):
        answer = await queue.get(path, app="other")
        assert (answer.status, answer.json()) == (404, {"message": "not found"})
    data = (await queue.post("answers", {"question_ids": [question_id]}, app="other")).json()["data"]
    assert data == [None]
    body = {"question": "and then?", "parent_question_id": question_id}
    answer = await queue.post("questions", body, app="other")
    assert (answer.status, answer.json()) == (404, {"message": "not found"})


@pytest.mark.parametrize("question_id", ["1", "nope", "x" * 36, "1d3bb1a8-8a39-4c1b-9f0d", "%00", "%C3%A4"])
async def test_an_id_that_is_no_uuid_is_refused(queue: Desk, question_id: str) -> None:
    answer = await queue.get(
        f"questions/{question_id.encode().hex() if not question_id.isascii() else question_id}/answer"
    )
    fault = {"loc": ["path", "question_id"], "msg": "value is not a valid uuid", "type": "type_error.uuid"}
    assert (answer.status, answer.json()) == (422, {"detail": [fault]})


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "question"),
        ({"question": ""}, "question"),
        ({"question": " \n\t "}, "question"),
        ({"question": None}, "question"),
        ({"question": 7}, "question"),
        ({"question": "x" * 100_000}, "question"),
        ({"question": "x", "parent_question_id": "7"}, "parent_question_id"),
        ({"question": "x", "fq": "a:("}, "fq"),
        ({"question": "x", "boost_fq": "((("}, "boost_fq"),
        ({"question": "x", "yearly_decay": 0}, "yearly_decay"),
        ({"question": "x", "yearly_decay": "much"}, "yearly_decay"),
        ({"question": "x", "user_type": "king"}, "user_type"),
        ({"question": "x", "metadata": []}, "metadata"),
        ({"question": "x", "metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"question": "x", "cite_link": "maybe"}, "cite_link"),
        ({"question": "x", "cite_start": "x" * 65}, "cite_start"),
        ({"question": "x", "source_fl": "title"}, "source_fl"),
        ({"question": "x", "user_id": "x" * 513}, "user_id"),
    ],
)
async def test_a_bad_question_is_refused_in_detail(queue: Desk, body: dict[str, Any], name: str) -> None:
    answer = await queue.post("questions", body)
    assert answer.status == 422
    assert answer.json()["detail"][0]["loc"][:2] == ["body", name]
    assert set(answer.json()["detail"][0]) == {"loc", "msg", "type"}


async def test_what_is_no_json_is_malformed(queue: Desk) -> None:
    answer = await queue.post("questions", b"{")
    reason = "the body is not valid JSON: unexpected end of data: line 1 column 2"
    detail = [{"loc": ["body"], "msg": reason, "type": "value_error.jsondecode"}]
    assert (answer.status, answer.json()) == (400, {"message": "Malformed request.", "detail": detail})


async def test_too_many_or_bad_ids_are_refused(queue: Desk) -> None:
    many = await queue.post("answers", {"question_ids": [str(uuid4())] * 101})
    assert many.status == 422
    bad = await queue.post("answers", {"question_ids": [str(uuid4()), "x"]})
    assert bad.json()["detail"][0]["loc"] == ["body", "question_ids", 1]
    assert (await queue.post("answers", {})).status == 422


async def test_fields_nobody_knows_are_ignored_and_null_is_absence(queue: Desk) -> None:
    body = {
        "question": QUESTION,
        "colour": 1,
        "_meta": {"a": 1},
        "metadata": None,
        "fq": None,
        "user_hash": None,
    }
    answer = await queue.post("questions", body)
    record = await queue.finished(answer.json()["data"]["question_id"])
    assert record["metadata"] == {"a": 1}


async def test_a_follow_up_knows_what_it_follows(queue: Desk) -> None:
    parent = await queue.post_question("What happened to the paper mill in Carrow in 2024?")
    child = await queue.post_question("and who owns it?", parent_question_id=parent.upper())
    record = await queue.finished(child)
    assert record["parent_question_id"] == parent
    recorded = require(await queue.corner.stores.questions.read("shop", child))
    assert recorded.question.before == ("What happened to the paper mill in Carrow in 2024?",)
    assert record["question"] == "Who owns the paper mill in Carrow?"
    listed = await queue.post("answers", {"question_ids": [parent, child]})
    assert [entry["question"] for entry in listed.json()["data"]] == [
        "What happened to the paper mill in Carrow in 2024?",
        "Who owns the paper mill in Carrow?",
    ]


async def test_a_parent_question_exists_and_belongs_to_the_same_user(queue: Desk) -> None:
    unknown = await queue.post("questions", {"question": "x", "parent_question_id": str(uuid4())})
    assert (unknown.status, unknown.json()) == (404, {"message": "not found"})
    ginas = await queue.post_question(user_id="gina")
    foreign = await queue.post("questions", {"question": "x", "parent_question_id": ginas, "user_id": "omar"})
    assert (foreign.status, foreign.json()) == (404, {"message": "not found"})
    assert await queue.post_question("x", parent_question_id=ginas, user_id="gina")
    visitors = await queue.post_question(anonymous_id="anon")
    assert await queue.post_question("x", parent_question_id=visitors, user_id="gina")


async def test_only_proven_readers_get_a_history(queue: Desk) -> None:
    async def threads(user_id: str) -> list[str]:
        answer = await queue.post("user_history/list", {"user_id": user_id})
        return [thread["id"] for thread in answer.json()["data"]["threads"]]

    by_server = await queue.post_question(user_id="gina")
    claimed = await queue.post_question(user_id="gina", browser=True)
    token = {"user_id": "gina", "plan": "gold", "exp": queue.corner.clock.now_ms() // 1000 + 60}
    by_token = await queue.post_question(browser=True, token=token, metadata={"plan": "x", "site": "s"})
    proof = sign_user_id(queue.corner.secret().encode(), "gina")
    by_hash = await queue.post_question(user_id="gina", user_hash=proof, browser=True)
    silent = await queue.post_question(user_id="gina", log_user_history=False)
    for question_id in (by_server, claimed, by_token, by_hash, silent):
        await queue.finished(question_id)
    assert set(await threads("gina")) == {by_server, by_token, by_hash}
    # claims the interface does not know are merged into the metadata and win, for the asker and their own server
    path = f"questions/{by_token}/answer"
    omar = {"user_id": "omar", "exp": token["exp"]}
    for is_proven, how in (
        (True, {"browser": True, "token": token}),
        (True, {}),
        (False, {"browser": True}),
        (False, {"browser": True, "token": omar}),
        (False, {"browser": True, "token": {**token, "exp": 1}}),
    ):
        seen = (await queue.get(path, **how)).json()["data"]
        assert seen["metadata"] == ({"plan": "gold", "site": "s"} if is_proven else {"site": "s"}), how
        assert "_claims" not in seen
    both = await queue.post("answers", {"question_ids": [by_token]}, browser=True)
    assert both.json()["data"][0]["metadata"] == {"site": "s"}
    assert "_claims" not in both.json()["data"][0]


async def test_a_token_that_names_another_reader_is_refused(queue: Desk) -> None:
    token = {"user_id": "gina", "user_type": "free"}
    for body, message in (
        ({"user_id": "omar"}, "Token does not match the user"),
        ({"user_type": "paid"}, "Token does not match the user_type"),
    ):
        answer = await queue.post("questions", {"question": "x", **body}, browser=True, token=token)
        assert (answer.status, answer.json()) == (401, {"message": message})
    wrong = {"question": "x", "user_id": "gina", "user_hash": "00"}
    answer = await queue.post("questions", wrong, browser=True)
    assert (answer.status, answer.json()) == (401, {"message": "user_hash is invalid."})
    answer = await queue.post("questions", {"question": "x", "jwt_token": "a.b.c"}, browser=True)
    assert (answer.status, answer.json()) == (401, {"message": "Invalid JWT token"})


async def test_the_answer_reports_a_spent_daily_quota(queue: Desk) -> None:
    settings = AppSettings.model_validate({"limits": PLENTY, "questions_per_day": "anonymous:1,free:2"})
    await queue.corner.open_app("shop", settings=settings)
    for _ in range(2):
        assert (await queue.finished(await queue.post_question(user_id="g", user_type="free")))[
            "finish_reason"
        ] == "success"
    blocked = await queue.finished(await queue.post_question(user_id="g", user_type="free"))
    assert blocked["finish_reason"] == "forbidden"
    assert blocked["blocked_reason"]
    assert (blocked["answer"], blocked["sources"]) == ("", [])
    assert (await queue.finished(await queue.post_question(user_id="o", user_type="free")))[
        "finish_reason"
    ] == "success"
    assert (await queue.finished(await queue.post_question(user_id="g", user_type="paid")))[
        "finish_reason"
    ] == "success"
    # a browser that merely claims a tier is a visitor
    claims = [
        await queue.post_question(user_type="internal", anonymous_id="v", browser=True) for _ in range(2)
    ]
    reasons = [(await queue.finished(claim))["finish_reason"] for claim in claims]
    assert reasons == ["success", "forbidden"]


async def test_filters_say_what_may_be_cited(queue: Desk) -> None:
    only = await queue.finished(await queue.post_question(fq="language:de"))
    assert {source["product_id"] for source in only["sources"] + only["related_resources"]} <= {
        "fluss-vertrag"
    }
    none = await queue.finished(await queue.post_question(fq="title:nothing_like_that"))
    assert (none["finish_reason"], none["sources"], none["related_resources"]) == ("no_answer", [], [])


async def test_the_playground_answers_questions(queue: Desk) -> None:
    assert (await queue.finished(await queue.post_question(app="playground"), app="playground"))["finished"]


async def test_a_key_is_needed(queue: Desk) -> None:
    answer = await call(
        queue._app, "GET", f"/v1/ask/questions/{uuid4()}/answer", headers={"User-Agent": BROWSER}
    )
    assert (answer.status, answer.json()["message"]) == (401, "invalid api key.")


async def test_the_same_question_over_the_same_passages_is_answered_from_memory(queue: Desk) -> None:
    first = await queue.finished(await queue.post_question())
    again = await queue.post_question(
        "who signed the treaty about the water  of the river?", source_fl=["url"]
    )
    record = await queue.finished(again)
    assert record["answer"] == first["answer"]
    assert record["sources"][0]["url"] == "https://news.example/river-treaty"
    recorded = require(await queue.corner.stores.questions.read("shop", again))
    assert recorded.answer.composer == "reused"


# --- what strangers ask ------------------------------------------------------------------------------------------


async def test_a_quota_is_not_evaded_by_other_ids_or_a_claimed_type(queue: Desk) -> None:
    """Four ways around `questions_per_day=anonymous:2,free:2`."""
    settings = AppSettings.model_validate({"limits": PLENTY, "questions_per_day": "anonymous:2,free:2"})
    await queue.corner.open_app("shop", settings=settings)
    secret = queue.corner.secret().encode()

    async def forbidden(bodies: list[dict[str, Any]], **more: Any) -> list[bool]:
        question_ids = [
            await queue.post_question(f"Which river {n}?", browser=True, **body, **more)
            for n, body in enumerate(bodies)
        ]
        return [
            (await queue.finished(question_id))["finish_reason"] == "forbidden"
            for question_id in question_ids
        ]

    rotated = await forbidden([{"anonymous_id": f"v-{n}"} for n in range(4)])
    assert rotated == [False, False, True, True]
    internal = {"user_id": "gina", "user_type": "internal", "user_hash": sign_user_id(secret, "gina")}
    assert await forbidden([internal] * 3) == [False, False, True]
    token = {"user_id": "omar", "exp": queue.corner.clock.now_ms() // 1000 + 60}
    assert await forbidden([{"user_type": "internal"}] * 3, token=token) == [False, False, True]
    paid = {"user_id": "ines", "user_type": "paid", "user_hash": sign_user_id(secret, "ines", "paid")}
    assert await forbidden([paid] * 3) == [False] * 3


async def test_one_address_asks_only_so_much_a_day(queue: Desk) -> None:
    settings = AppSettings(limits=PLENTY, questions_per_address=3)
    await queue.corner.open_app("shop", settings=settings)
    for _ in range(3):
        await queue.post_question(browser=True)
    refused = await queue.post("questions", {"question": "x"}, browser=True)
    assert (refused.status, refused.headers["retry-after"]) == (429, "3600")
    assert await queue.post_question(user_id="gina")


async def test_marks_of_citations_are_no_markup_and_metadata_is_small(queue: Desk) -> None:
    for name in ("cite_start", "cite_end"):
        for mark in ("<img src=x onerror=alert(1)>", "&lt;", "\u0007", "\u2028"):
            for path, body in (
                ("questions", {"question": "x"}),
                ("answers", {"question_ids": []}),
                ("search", {"q": "x"}),
            ):
                answer = await queue.post(path, {**body, name: mark}, browser=True)
                assert (answer.status, answer.json()["detail"][0]["loc"]) == (422, ["body", name])
    assert (await queue.post("questions", {"question": "x", "cite_start": "<b>"})).status == 200
    fat = {"question": "x", "metadata": {"k": "v" * 5_000}}
    assert (await queue.post("questions", fat, browser=True)).status == 422
    assert (await queue.post("questions", fat)).status == 200


async def test_what_strangers_ask_is_not_what_everybody_is_shown(queue: Desk) -> None:
    spam = "Visit evil.example for free tulips now?"
    loud = "Which shop sells the cheapest tulips?"
    for n in range(5):
        await queue.post_question(spam, browser=True, anonymous_id=f"x-{n}")
        await queue.post_question(loud, browser=True, anonymous_id=f"x-{n}")
        await queue.post_question(spam, user_id=f"u-{n}")
    shown = (await queue.post("trending_questions", {"rows": 20}, browser=True)).json()["data"][
        "related_questions"
    ]
    assert spam not in shown
    assert loud not in shown
    for n in range(3):
        await queue.post_question(loud, user_id=f"u-{n}")
    shown = (await queue.post("trending_questions", {"rows": 20}, browser=True)).json()["data"][
        "related_questions"
    ]
    assert loud in shown
