"""A batch to rows: everything kept as it came, poison set aside alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest

from actors.intake.batch_preparation import build_product_text, parse_removed_ids, prepare_batch
from actors.language.hashing_embedder import HashingEmbedder, Vectors, embedding_text
from cluster.errors import Fault
from cluster.records.field_types.fields import MAX_LEVELS


class Touchy:
    """An embedder that chokes on some words, as libraries do."""

    version = "touchy-1"
    dimensions = 3

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = []
        for words in texts:
            if "crash" in words:
                raise RuntimeError("poison")
            rows.append([np.nan if "nan" in words else len(words), 1.0, 0.0])
        return np.array(rows, np.float32)


def product(product_id: str, **fields: Any) -> dict[str, Any]:
    return {"product_id": product_id, **fields}


def test_users_keep_their_json_and_get_no_vectors() -> None:
    users = [{"user_id": "ann", "age": 41, "name": "Ä\x00"}, {"user_id": "bob"}]
    prepared = prepare_batch("user", orjson.dumps(users), HashingEmbedder())
    assert [put.record_id for put in prepared.records] == ["ann", "bob"]
    assert [orjson.loads(put.json) for put in prepared.records] == users
    assert prepared.change_payload == orjson.dumps(users)
    assert (prepared.vectors, prepared.embedder, prepared.failed) == (b"", "", ())


def test_products_get_one_float16_vector_each_in_payload_order() -> None:
    embedder = HashingEmbedder()
    products = [product("p1", title="steel trowel", type="tool"), product("p2", title="red bulb", type="")]
    prepared = prepare_batch("product", orjson.dumps(products), embedder)
    vectors = np.frombuffer(prepared.vectors, "<f2").reshape(2, embedder.dimensions)
    expected = embedder.embed([embedding_text(record) for record in products])
    assert np.allclose(vectors, expected, atol=1e-3)
    assert [put.product_type for put in prepared.records] == ["tool", None]
    assert prepared.embedder == embedder.version
    assert orjson.loads(prepared.change_payload) == products


def test_a_product_that_makes_the_embedder_fail_is_set_aside_and_the_others_go_on() -> None:
    products = [
        product("a", title="one"),
        product("b", title="crash"),
        product("c", title="nan"),
        product("d", title="four"),
    ]
    prepared = prepare_batch("product", orjson.dumps(products), Touchy())
    assert [put.record_id for put in prepared.records] == ["a", "d"]
    assert [record["product_id"] for record in orjson.loads(prepared.change_payload)] == ["a", "d"]
    vectors = np.frombuffer(prepared.vectors, "<f2").reshape(2, 3)
    assert vectors[:, 0].tolist() == [len(embedding_text(products[0])), len(embedding_text(products[3]))]
    assert [message.split(" ", 1)[0] for message in prepared.failed] == ["data.1", "data.2"]
    assert all(" is invalid. " in message for message in prepared.failed)
    assert "RuntimeError" in prepared.failed[0]


@pytest.mark.parametrize(
    "poison", [None, 7, "text", [], {}, {"product_id": 7}, {"product_id": "x", "type": 7}]
)
def test_what_is_no_record_is_set_aside(poison: Any) -> None:
    prepared = prepare_batch("product", orjson.dumps([product("a"), poison, product("b")]), HashingEmbedder())
    assert [put.record_id for put in prepared.records] == ["a", "b"]
    assert len(prepared.failed) == 1
    assert prepared.failed[0].startswith("data.1 is invalid.")
    assert len(prepared.vectors) == 2 * 2 * HashingEmbedder.dimensions


def test_a_batch_of_poison_alone_comes_to_nothing() -> None:
    prepared = prepare_batch("product", orjson.dumps([product("a", title="crash")]), Touchy())
    assert (prepared.records, prepared.change_payload, prepared.vectors) == ((), b"[]", b"")
    assert len(prepared.failed) == 1


WORST = {
    "nul": product("p", title="\x00" * 100),
    "10 MB": product("p", title="x" * 10_000_000),
    "huge numbers": product("p", price=1e308, rating=-1e308),
    "100,000 attributes": product("p", custom_attributes={f"a{n}": "v" for n in range(100_000)}),
    "deep categories": product("p", categories=[["a"] * MAX_LEVELS] * 20),
    "deep html": product("p", html="<div>" * 20_000),
    "script": product("p", html="<script>" + "x" * 1_000_000),
    "unicode": product("p", title="‮مرحبا\u200d🏳️‍🌈"),
    "empty": product("p", i18n_fr={"title": "Truelle"}, tags=[""], title=""),
}


@pytest.mark.parametrize("worst", WORST.values(), ids=WORST)
def test_the_worst_valid_products_are_stored_with_a_finite_vector(worst: dict[str, Any]) -> None:
    prepared = prepare_batch("product", orjson.dumps([worst]), HashingEmbedder())
    assert prepared.failed == ()
    assert orjson.loads(prepared.records[0].json) == worst
    assert np.isfinite(np.frombuffer(prepared.vectors, "<f2")).all()


@pytest.mark.parametrize("payload", [b"", b"{", b"{}", b'"x"', b"[NaN]", b'["\\ud800"]'])
def test_a_payload_that_is_no_array_is_a_fault(payload: bytes) -> None:
    with pytest.raises(Fault):
        prepare_batch("user", payload, HashingEmbedder())
    with pytest.raises(Fault):
        parse_removed_ids(payload)


def test_ids_to_remove_must_be_text() -> None:
    assert parse_removed_ids(b'["a","b"]') == ["a", "b"]
    with pytest.raises(Fault):
        parse_removed_ids(b'["a",1]')


def test_html_speaks_for_a_product_without_description() -> None:
    head = "<html><head><style>p{}</style><script>alert(1)</script></head>"
    page = head + "<body><h1>Bulb&nbsp;guide</h1><p>Plant <b>deep</b></p>"
    words = build_product_text(product("p", title="Guide", html=page))
    assert "Plant deep" in words
    assert "alert" not in words
    described = build_product_text(product("p", title="Guide", description="short words", html=page))
    assert "short words" in described
    assert "Plant" not in described
