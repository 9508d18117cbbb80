"""Every set of tiers against every set of accesses, on every way that a stored answer is read."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import orjson

from actors.answers.render import answer_to_json, render_answer
from cluster.access_tier import REGISTERED
from cluster.records.question import (
    Answer,
    CitedPassage,
    CitedSentence,
    Question,
    build_entitled_question,
    entitled_answer_id,
    is_entitled_answer_id,
    open_entitled,
)
from deployments.api.resources.answer_reads import read_answer, read_shown
from deployments.edge.http.credentials import UserToken
from tests.fakes.stores.questions import MemoryQuestions

NAMES = ("bronze", "gold", "platinum", "silver", "subscriber")
TIERS = [frozenset(names) for size in range(6) for names in combinations(NAMES, size)]
"All sets of five tiers."
QUESTION = Question(
    question_id="0b98fd12-6fdb-4773-aa99-901f8bf1a00b", app_id="shop", text="Who signed?", asked_at=1,
    deadline_at=60_001, user_id="gina", logged=True, claims={"site": "a"},
    metadata={"_access": ["gold"], "finished": True, 'x","_access":[]}': 1},
)  # fmt: skip
"The metadata look like the mark, which callers can not forge."
TOKENS = [
    None,
    UserToken("", "", {"tiers": list(NAMES)}),
    *(
        UserToken(user_id, "", {"tiers": sorted(tiers)})
        for user_id in ("gina", "harry", "gina ")
        for tiers in TIERS
    ),
    *(
        UserToken("gina", "", {"tiers": claim})
        for claim in ("gold", {"gold": 1}, None, 1, ["Gold"], [["gold"]])
    ),
]


def answer_with(text: str, access: tuple[str, ...] = ()) -> Answer:
    passage = CitedPassage(product_id="p", position=0, text=text, title=text)
    sentence = CitedSentence(text=text, passage=0, end=len(text))
    return Answer(
        revision=4, finish_reason="success", sentences=(sentence,), passages=(passage,), access=access
    )


async def open_store(access: tuple[str, ...]) -> MemoryQuestions:
    store = MemoryQuestions()
    entitled = build_entitled_question(QUESTION, frozenset((*NAMES, REGISTERED)), None)
    for question, answer in ((QUESTION, answer_with("open")), (entitled, answer_with("locked", access))):
        await store.ask(question, answer, answer_to_json(question, answer), holder="", until_ms=0)
    return store


def is_open_to(token: UserToken | None, access: tuple[str, ...]) -> bool:
    """Return what the guide says of a token and an answer."""
    if token is None or token.user_id != "gina":
        return False
    claim = token.claims["tiers"]
    names = claim if isinstance(claim, list) else []
    return all(name == REGISTERED or name in names for name in access)


async def test_only_the_asker_with_all_tiers_reads_an_entitled_answer() -> None:
    pairs = 0
    for access in (
        *map(tuple, map(sorted, TIERS)),
        *(tuple(sorted({*tiers, REGISTERED})) for tiers in TIERS),
    ):
        store = await open_store(access)
        open_shown = await store.shown("shop", QUESTION.question_id)
        assert open_shown is not None
        for token in TOKENS:
            (shown,) = await read_shown(store, "shop", [QUESTION.question_id], token)
            stored = await read_answer(store, "shop", QUESTION.question_id, token)
            assert shown is not None
            assert stored is not None
            record: dict[str, Any] = orjson.loads(shown)
            rendered = render_answer(stored.question, stored.answer)
            assert rendered == {name: value for name, value in record.items() if name != "_claims"}
            assert record["question_id"] == QUESTION.question_id
            assert ("locked" in record["answer"]) == is_open_to(token, access), (token, access)
            assert (b"locked" in shown) == is_open_to(token, access)
            if not is_open_to(token, access):
                assert shown == open_shown, "byte for byte"
            pairs += 1
    assert pairs == 2 * len(TIERS) * len(TOKENS) > 6_000


async def test_each_of_many_answers_is_read_by_its_access() -> None:
    store = await open_store(("gold",))
    ids = [QUESTION.question_id, "unknown", QUESTION.question_id]
    for token in TOKENS:
        first, unknown, last = await read_shown(store, "shop", ids, token)
        assert unknown is None
        assert first is not None
        assert first == last
        assert (b"locked" in first) == is_open_to(token, ("gold",))
    assert await read_shown(store, "other", ids[:1], TOKENS[-1]) == [None]


async def test_an_entitled_answer_without_its_question_is_never_read() -> None:
    store = await open_store(("gold",))
    await store.discard(QUESTION)
    token = UserToken("gina", "", {"tiers": ["gold"]})
    assert await read_shown(store, "shop", [QUESTION.question_id], token) == [None]
    assert await read_answer(store, "shop", QUESTION.question_id, token) is None


def test_a_record_without_its_mark_opens_nothing() -> None:
    everything = frozenset(chain(NAMES, (REGISTERED,)))
    for shown in (b"{}", answer_to_json(QUESTION, answer_with("open")), b'{"a":1,"_access":'):
        assert open_entitled(shown, everything) is None


def test_questions_of_the_last_release_load_as_open() -> None:
    earlier = QUESTION.model_dump(exclude={"open_question_id", "tiers", "lives_as_logged", "is_counted_late"})
    assert Question(**earlier) == QUESTION
    assert not Question(**earlier).is_entitled
    assert Answer.model_validate(answer_with("open").model_dump(exclude={"access"})).access == ()


def test_ids_of_entitled_answers_are_apart_for_each_user() -> None:
    names = {
        entitled_answer_id(QUESTION.question_id, user_id) for user_id in ("", "gina", "gina ", "\ud800", "~")
    }
    assert len(names) == 5
    assert all(map(is_entitled_answer_id, names))
    assert not is_entitled_answer_id(QUESTION.question_id)
