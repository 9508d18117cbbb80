"""Recommendations and completions of readers in experiments, through the door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.answers.answer_pipeline import AnswerPipeline
from actors.answers.leased_answer import LeasedAnswer
from cluster.errors import Unavailable
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine
from tests.fakes.asgi import call
from tests.fakes.request_handler import Corner, open_corner
from tests.suites.test_experiments import an_experiment
from tests.suites.waiting import until

PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148"
HOE = {"user_id": "ada", "question": "Which hoe?"}
RULE = BoostRule(name="sale", boost_fq="brand:Alder", boosting_tags=["of an experiment"])


@pytest.fixture
async def corner() -> Corner:
    corner = await open_corner()
    for engine_id in ("default", "news", "books"):
        await corner.stores.engines.put(Engine(app_id="shop", engine_id=engine_id))
    await corner.stores.boost_rules.put("shop", [RULE, RULE.model_copy(update={"engine_id": "news"})])
    return corner


async def put(corner: Corner, slug: str, changed: dict[str, Any], **fields: Any) -> None:
    """An experiment in which everybody gets the changed variant."""
    variants = [
        {"variant_id": "a", "name": "a", "slug": "a", "weight": 0},
        {"variant_id": "b", "name": "b", "slug": "b", **changed},
    ]
    version = await corner.stores.experiments.version("shop")
    assert await corner.stores.experiments.compare_and_set(
        an_experiment(slug, **{"variants": variants, **fields}), version
    )


async def ask(corner: Corner, path: str = "recommendation/user_to_products", **body: Any) -> Any:
    headers = {**corner.headers(), "User-Agent": PHONE}
    answer = await call(
        corner.handler, "POST", f"/v1/{path}", headers=headers, body=json.dumps(body).encode()
    )
    assert answer.status in (200, 503), answer.body
    return corner.recommender.requests[-1] if answer.status == 200 else answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("recommendation/user_to_trending", {}),
        ("search/autocomplete", {"q": "h"}),
        ("search/search", {"q": "h"}),
        ("qa/question_answering", {"q": "h", "min_probability": 0}),
    ],
)
async def test_a_variant_with_an_engine_and_a_rule_is_obeyed_and_the_meeting_logged(
    corner: Corner, path: str, body: dict[str, Any]
) -> None:
    await put(corner, "one", {"engine_id": "news", "boost_rule": "sale"})
    query = await ask(corner, path, user_id="ada", anonymous_id="x", **body)
    assert (query.engine_id, query.rule_names) == ("news", ("sale",))
    assert [boost.name for boost in query.boosts] == ["sale"]
    rows = {
        user_key: exposure
        async for user_key, exposure in corner.stores.experiments.exposures("shop", "id-one")
    }
    assert set(rows) == {"u:ada", "a:x"}
    assert (rows["a:x"].through, rows["a:x"].device, rows["a:x"].variant_id) == (query.kind, "phone", "b")


async def test_readers_without_an_id_and_requests_for_other_engines_stay_outside(corner: Corner) -> None:
    await put(corner, "one", {"engine_id": "news", "boost_rule": "sale"})
    assert (await ask(corner)).engine_id == "default"
    query = await ask(corner, user_id="ada", engine_id="books")
    assert (query.engine_id, query.boosts) == ("books", ())
    assert [row async for row in corner.stores.experiments.exposures("shop", "id-one")] == []


async def test_the_control_is_served_as_ever_and_its_meeting_is_logged_too(corner: Corner) -> None:
    await put(corner, "one", {"engine_id": "news"}, variants=[
        {"variant_id": "a", "name": "a", "slug": "a"},
        {"variant_id": "b", "name": "b", "slug": "b", "weight": 0, "engine_id": "news"},
    ])  # fmt: skip
    assert (await ask(corner, user_id="ada")).engine_id == "default"
    ((_, exposure),) = [row async for row in corner.stores.experiments.exposures("shop", "id-one")]
    assert exposure.variant_id == "a"


async def test_of_two_experiments_the_older_one_has_the_engine_and_both_have_their_rules(
    corner: Corner,
) -> None:
    await corner.stores.boost_rules.put(
        "shop", [RULE.model_copy(update={"name": "gift", "engine_id": "news"})]
    )
    await put(corner, "old", {"engine_id": "news", "boost_rule": "sale"}, created_at=1)
    await put(corner, "new", {"engine_id": "books", "boost_rule": "gift"}, created_at=2)
    query = await ask(corner, user_id="ada")
    assert query.engine_id == "news"
    assert {boost.name for boost in query.boosts} == {"sale", "gift"}


async def test_a_variant_may_name_a_version_of_the_requested_engine(corner: Corner) -> None:
    await put(corner, "one", {"snapshot": "v7"})
    query = await ask(corner, user_id="ada")
    assert (query.engine_id, query.snapshot) == ("default", "v7")
    assert (await ask(corner)).snapshot == ""


async def test_how_it_went_is_counted_by_variant(corner: Corner) -> None:
    await put(corner, "one", {"engine_id": "news"})
    await ask(corner, user_id="ada")
    corner.recommender.wrong = Unavailable("away", retry_after_s=1)
    assert (await ask(corner, user_id="ada")).status == 503
    await corner.experiments.treatments.flush()
    assert await corner.stores.experiments.served("shop", "id-one") == {"b:1": 1, "b:failed": 1}


async def test_an_app_without_experiments_pays_nothing(corner: Corner) -> None:
    await ask(corner, user_id="ada")
    calls = []
    store: Any = corner.stores.experiments
    for name in ("version", "book", "assign"):
        setattr(store, name, lambda *args, name=name: calls.append(name))
    await ask(corner, user_id="ada")
    assert calls == []


async def list_exposures(corner: Corner) -> dict[str, str]:
    return {
        user_key: exposure.through
        async for user_key, exposure in corner.stores.experiments.exposures("shop", "id-one")
    }


async def test_a_search_that_answers_takes_part_and_obeys_the_engine_and_the_rule(corner: Corner) -> None:
    await put(corner, "one", {"engine_id": "news", "boost_rule": "sale"}, guardrails=["empty"])
    await ask(corner, "ask/search", user_id="ada", q="hoe", answer=False)
    query = next(query for query in corner.recommender.requests if query.search is not None)
    assert (query.engine_id, [boost.name for boost in query.boosts]) == ("news", ["sale"])
    assert await list_exposures(corner) == {"u:ada": "ask_search"}
    await corner.experiments.treatments.flush()
    served = await corner.stores.experiments.served("shop", "id-one")
    assert served["b:guard.answered"] == 1


async def test_without_an_experiment_a_search_that_answers_obeys_no_stored_rule(corner: Corner) -> None:
    await corner.stores.boost_rules.put(
        "shop", [RULE.model_copy(update={"name": "all", "boosting_tags": []})]
    )
    await ask(corner, "ask/search", user_id="ada", q="hoe")
    assert all(not query.boosts for query in corner.recommender.requests)


async def test_a_question_prefers_the_products_of_its_variant(corner: Corner) -> None:
    await put(corner, "one", {"boost_rule": "sale"})
    for boost_fq, expected in (
        (None, "(brand:Alder)"),
        ("brand:Birk", "(brand:Birk) OR (brand:Alder)"),
    ):
        body = {"user_id": "ada", "question": "Which hoe?", "boost_fq": boost_fq}
        answer = await corner.send("POST", "/v1/ask/questions", json=body)
        stored = await corner.stores.questions.read("shop", answer.json()["data"]["question_id"])
        assert stored is not None
        assert stored.question.boost_fq == expected
    assert await list_exposures(corner) == {"u:ada": "ask_questions"}


@pytest.mark.parametrize(
    ("fails", "guarded"),
    [
        (False, {"answered": 1, "empty": 1, "ms": 300, "ms_ms": 90_000}),
        (True, {"failed": 1}),
    ],
)
async def test_the_answer_of_a_question_counts_for_its_guardrails(
    corner: Corner, monkeypatch: pytest.MonkeyPatch, fails: bool, guarded: dict[str, int]
) -> None:
    async def answer_late(_: AnswerPipeline, hand: LeasedAnswer) -> None:
        corner.clock.pass_ms(300)
        if fails:
            raise Unavailable("away", retry_after_s=1)
        await hand.finish(finish_reason="success", sentences=(), passages=())

    monkeypatch.setattr(AnswerPipeline, "answer", answer_late)
    await put(corner, "one", {"boost_rule": "sale"}, guardrails=["latency", "errors", "empty"])
    await corner.asking.start()
    answer = await corner.send("POST", "/v1/ask/questions", json=HOE)
    question_id = answer.json()["data"]["question_id"]

    async def is_finished() -> bool:
        stored = await corner.stores.questions.read("shop", question_id)
        return stored is not None and stored.answer.finished

    await until(is_finished, 20.0)
    await corner.asking.close()
    await corner.experiments.treatments.flush()
    served = await corner.stores.experiments.served("shop", "id-one")
    counts = {
        name.partition("guard.")[2]: count for name, count in served.items() if "guard." in name and count
    }
    assert counts == guarded
    assert corner.experiments.treatments.take_guarded() == {("shop", "id-one")}


async def test_a_question_that_is_not_accepted_counts_as_failed(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(corner, "one", {"boost_rule": "sale"}, guardrails=["errors"])

    async def refuse(*_: Any, **__: Any) -> bool:
        raise Unavailable("away", retry_after_s=1)

    monkeypatch.setattr(corner.stores.questions, "ask", refuse)
    answer = await corner.send("POST", "/v1/ask/questions", json=HOE)
    assert answer.status == 503
    await corner.experiments.treatments.flush()
    assert (await corner.stores.experiments.served("shop", "id-one"))["b:guard.failed"] == 1


async def test_a_question_is_no_exposure_to_another_engine(corner: Corner) -> None:
    await put(corner, "one", {"engine_id": "news"})
    answer = await corner.send("POST", "/v1/ask/questions", json=HOE)
    assert answer.status == 200
    assert await list_exposures(corner) == {}


SIDES = [
    {"variant_id": "a", "name": "a", "slug": "a", "snapshot": "v1"},
    {
        "variant_id": "b",
        "name": "b",
        "slug": "b",
        "engine_id": "news",
        "snapshot": "v2",
        "boost_rule": "sale",
    },
]


async def test_an_interleaving_gives_the_query_a_second_side_with_rules_of_its_engine(corner: Corner) -> None:
    await put(corner, "one", {}, variants=SIDES, method="interleave")
    query = await ask(corner, user_id="ada", anonymous_id="x")
    assert (query.engine_id, query.snapshot, query.boosts) == ("default", "v1", ())
    rival = query.interleaving.rival
    assert (rival.engine_id, rival.snapshot, rival.rule_names) == ("news", "v2", ("sale",))
    assert [boost.name for boost in rival.boosts] == ["sale"]
    again = await ask(corner, user_id="ada")
    other = await ask(corner, user_id="bob")
    assert again.interleaving.seed == query.interleaving.seed != other.interleaving.seed
    assert [row async for row in corner.stores.experiments.exposures("shop", "id-one")] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("recommendation/user_to_products", {"user_id": "ada", "dithering": 2}),
        ("recommendation/user_to_products", {"user_id": "ada", "diversification": {"brand": {}}}),
        ("recommendation/user_to_products", {"user_id": "ada", "explain": True}),
        ("recommendation/user_to_products", {"user_id": "ada", "engine_id": "books"}),
        ("recommendation/user_to_products", {}),
        ("recommendation/user_to_history", {"user_id": "ada"}),
        ("search/search", {"user_id": "ada", "q": "h"}),
    ],
)
async def test_other_lists_are_not_interleaved(corner: Corner, path: str, body: dict[str, Any]) -> None:
    await put(corner, "one", {}, variants=SIDES, method="interleave")
    query = await ask(corner, path, **body)
    assert (query.interleaving, query.snapshot, query.rule_names) == (None, "", ())


async def test_the_older_of_two_experiments_that_set_a_snapshot_wins(corner: Corner) -> None:
    await put(corner, "one", {"snapshot": "v9"}, created_at=1)
    await put(corner, "two", {}, variants=SIDES, method="interleave", created_at=2)
    query = await ask(corner, user_id="ada")
    assert (query.snapshot, query.interleaving) == ("v9", None)
    await put(corner, "three", {}, variants=SIDES, method="interleave", created_at=0)
    corner.clock.pass_ms(1_000)
    query = await ask(corner, user_id="ada")
    assert (query.snapshot, query.interleaving.rival.snapshot) == ("v1", "v2")


async def test_an_event_names_no_interleaving(corner: Corner) -> None:
    await put(corner, "one", {}, variants=SIDES, method="interleave")
    answer = await corner.send("POST", "/v1/experiments/one/events", json={"user_id": "ada"})
    assert answer.status == 404
