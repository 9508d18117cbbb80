from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from actors.experiments.messages import EXPERIMENT_MESSAGES, Assignment
from actors.recommender.messages import Boost, RecommendationResult, UserQuery
from actors.retrieval.messages import Facet, SearchQuery
from actors.serving.engine_messages import ENGINE_MESSAGES, answer_message, open_reply
from cluster.errors import Fault, NewerRelease, NotFound, Refusal
from cluster.message_codec import MessageCodec
from cluster.query.language.tree import All, Not, Term
from cluster.records.experiment import Variant
from cluster.records.interaction import RecentEvent


@dataclass(frozen=True, slots=True)
class Part:
    name: str


@dataclass(frozen=True, slots=True)
class Query:
    app_id: str
    user_id: str = ""
    parts: tuple[Part, ...] = ()
    scores: Any = None


@dataclass(frozen=True, slots=True)
class NewPart:
    name: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class NewQuery:
    """`Query` one release later: a field more at the front, in the middle and at the end; renamed, too."""

    tenant: str = "none"
    app_id: str = ""
    locale: str = "en"
    user_id: str = ""
    parts: tuple[NewPart, ...] = ()
    scores: Any = None
    tail: tuple[str, ...] = ("t",)


OLD = MessageCodec({"Query": Query, "Part": Part})
NEW = MessageCodec({"Query": NewQuery, "Part": NewPart})


def test_a_newer_message_is_read_without_the_fields_that_are_unknown() -> None:
    sent = NewQuery("acme", "shop", "de", "u1", (NewPart("a", 0.5), NewPart("b")), None, ("x",))
    assert OLD.decode(NEW.encode(sent)) == Query("shop", "u1", (Part("a"), Part("b")))


def test_an_older_message_is_read_with_the_defaults_of_new_fields() -> None:
    sent = Query("shop", "u1", (Part("a"),))
    assert NEW.decode(OLD.encode(sent)) == NewQuery("none", "shop", "en", "u1", (NewPart("a"),), None, ("t",))


def test_no_class_path_travels() -> None:
    payload = NEW.encode(NewQuery(app_id="shop", parts=(NewPart("a"),)))
    assert b"NewQuery" not in payload
    assert __name__.encode() not in payload


def test_arrays_and_bytes_stay_binary() -> None:
    scores = np.arange(5, dtype=np.float32)
    decoded = OLD.decode(
        OLD.encode(Query("shop", scores={"list": scores, "best": scores[4], "raw": b"\0\1"}))
    )
    assert decoded.scores["list"].dtype == np.float32
    assert decoded.scores["list"].tolist() == [0, 1, 2, 3, 4]
    assert (decoded.scores["best"], decoded.scores["raw"]) == (4.0, b"\0\1")


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo attacked",)


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps({"version": 2, "type": "Query", "fields": {"app_id": "shop"}}),
        pickle.dumps({"version": 1, "type": "Question", "fields": {}}),
        pickle.dumps({"version": 1, "type": "Query", "fields": {}}),
        pickle.dumps(
            {"version": 1, "type": "Query", "fields": {"app_id": "s", "parts": ({"type": "Fuzzy"},)}}
        ),
        pickle.dumps({"version": 1, "type": "Query", "fields": {"app_id": Attack()}}),
        pickle.dumps(["no", "message"]),
        b"",
        b"\x80\x05garbage",
    ],
)
def test_what_can_not_be_read_is_refused(payload: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NewerRelease):
        OLD.decode(payload)
    assert "attacked" not in capfd.readouterr().out


@dataclass(frozen=True, slots=True)
class Loose:
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    parts: Mapping[str, Part] = field(default_factory=dict)


def test_a_table_without_the_class_of_a_field_is_a_fault() -> None:
    with pytest.raises(Fault, match="Part"):
        MessageCodec({"Loose": Loose})
    with pytest.raises(Fault, match="mapping"):
        MessageCodec({"Mapped": Mapped, "Part": Part})


QUERY = UserQuery(
    kind="search",
    app_id="shop",
    engine_id="default",
    filter=All((Term("brand", "Alder"), Not(Term("color", "red")))),
    boosts=(Boost(Term("a", "b"), positions=(1, 2)),),
    simulated=(RecentEvent("click", ("p1",), 5),),
    cohort={"age": 3, "type": "Term", "fields": {}},
    search=SearchQuery("tulip", facets=(Facet("brand", "b", keys=(("one", Term("a", "c")),)),)),
)


def test_a_query_with_everything_inside_travels() -> None:
    assert ENGINE_MESSAGES.decode(ENGINE_MESSAGES.encode(QUERY)) == QUERY


def test_a_variant_travels_inside_an_assignment() -> None:
    variant = Variant(variant_id="v1", name="a", slug="a", configuration={"columns": 3})
    assignment = Assignment(True, variant)
    assert EXPERIMENT_MESSAGES.decode(EXPERIMENT_MESSAGES.encode(assignment)) == assignment


async def test_an_engine_answers_messages_and_refuses_what_it_can_not_read() -> None:
    async def answer(query: UserQuery) -> RecommendationResult | Refusal:
        if query.app_id == "shop":
            return RecommendationResult([{"product_id": "p1"}], served_by="personal")
        return Refusal.of(NotFound("engine is not found"))

    good = await answer_message(answer, ENGINE_MESSAGES.encode(QUERY))
    assert open_reply(good).products == [{"product_id": "p1"}]
    other = UserQuery(kind="search", app_id="other", engine_id="default")
    with pytest.raises(NotFound, match="engine is not found"):
        open_reply(await answer_message(answer, ENGINE_MESSAGES.encode(other)))
    for payload in (b"nonsense", ENGINE_MESSAGES.encode(RecommendationResult())):
        with pytest.raises(NewerRelease):
            open_reply(await answer_message(answer, payload))
    with pytest.raises(NewerRelease):
        open_reply(ENGINE_MESSAGES.encode(QUERY))


def test_changes_are_the_fields_that_a_query_sets() -> None:
    list_changes = ENGINE_MESSAGES.build_comparison(UserQuery("search", "", ""), ("rows", "cohort"))
    query = UserQuery(
        "search", "shop", "", rows=7, filter=Term("brand", "Alder"), context={"page": 2}, dithering=1.0
    )
    changes = list_changes(query)
    every = ENGINE_MESSAGES.to_plain(query)["fields"]
    assert changes == {name: every[name] for name in ("app_id", "filter", "context")}
