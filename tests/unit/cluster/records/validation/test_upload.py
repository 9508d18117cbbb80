"""Whole bodies: all or nothing, one message per bad record, one grammar."""

from __future__ import annotations

import pickle
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import KioskError, Malformed, Unprocessable, messages
from cluster.records.validation.upload import MAX_RECORDS, parse_upload
from tests.unit.cluster.records.grammar import MESSAGE, NOW, body_of, faults

NOUNS = ("user", "product", "interaction")


def good(noun: str, at: int) -> dict[str, Any]:
    """Make a record nobody can object to."""
    return {"type": "click", "user_id": f"u{at}"} if noun == "interaction" else {f"{noun}_id": f"r{at}"}


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize(
    ("body", "subject", "expected", "given"),
    [
        (b'{"data":{}}', "data is invalid. The attribute", "array", "object"),
        (b'{"data":"x"}', "data is invalid. The attribute", "array", "string"),
        (b"[]", "data is invalid. The body", "object", "array"),
        (b"3", "data is invalid. The body", "object", "integer"),
        (b"null", "data is invalid. The body", "object", "null"),
        (b'{"data":["x"]}', "data.0 is invalid. The record", "object", "string"),
        (b'{"data":[[]]}', "data.0 is invalid. The record", "object", "array"),
        (b'{"data":[null]}', "data.0 is invalid. The record", "object", "null"),
    ],
)
def test_faults_of_the_body_have_the_upload_shape(
    noun: Any, body: bytes, subject: str, expected: str, given: str
) -> None:
    with pytest.raises(Unprocessable) as caught:
        parse_upload(noun, body, now_ms=NOW)
    message = f"{subject} expected to be of type '{expected}', but '{given}' is given."
    assert caught.value.facts["messages"] == [message]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize("body", [b"{}", b'{"data":null}'])
def test_a_body_without_data_is_refused(noun: Any, body: bytes) -> None:
    with pytest.raises(Unprocessable) as caught:
        parse_upload(noun, body, now_ms=NOW)
    assert caught.value.facts["messages"] == ["data is invalid. The attribute is required."]


@pytest.mark.parametrize("noun", NOUNS)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"nope", b'{"data":[}', b'{"data":[]}x', b"\x00", b"{'data':[]}"]
)
def test_what_is_not_json_is_malformed(noun: Any, body: bytes) -> None:
    with pytest.raises(Malformed) as caught:
        parse_upload(noun, body, now_ms=NOW)
    assert caught.value.message == messages.MALFORMED


def test_the_sentences_differ_by_noun_as_specified() -> None:
    texts = {}
    for noun in NOUNS:
        with pytest.raises(Unprocessable) as caught:
            parse_upload(noun, b"{}", now_ms=NOW)  # type: ignore[call-overload]
        texts[noun] = caught.value.message
    assert texts["user"] == texts["product"] == messages.UPLOAD_REJECTED
    assert texts["interaction"] == messages.INTERACTIONS_REJECTED


@pytest.mark.parametrize("noun", NOUNS)
def test_each_bad_record_gets_one_message_in_order(noun: Any) -> None:
    records: list[Any] = [good(noun, at) for at in range(60)]
    records[3]["colour"] = 1
    records[41] = 7
    records[59] |= {"a": 1, "b": 2, "c": 3}
    assert faults(noun, *records) == [
        "data.3.colour is invalid. The attribute is not allowed.",
        "data.41 is invalid. The record expected to be of type 'object', but 'integer' is given.",
        "data.59.a is invalid. The attribute is not allowed. (and 2 more)",
    ]


def test_the_first_fault_is_reported_and_the_others_counted() -> None:
    assert faults("product", {"title": 1, "tags": "x", "i18n_xxx": 1, "colour": 1}) == [
        "data.0.product_id is invalid. The attribute is required. (and 4 more)"
    ]


def test_a_fault_does_not_depend_on_how_many_others_there_are() -> None:
    """Slices with many errors take another road (records are pruned first); it must say the same."""
    late = {f"k{i}": i for i in range(300)} | {
        "location": {f"x{i}": 1 for i in range(300)} | {"lat": 1},
        "product_id": "p",
    }
    few = faults("product", late | {"price": "x"})
    assert few[0].startswith("data.0.price is invalid. The attribute expected to be of type 'number'")
    many = faults("product", *[late | {"price": "x"}] * 3, {"product_id": "fine"}, {"product_id": "_"})
    assert [message.split(" (and")[0] for message in many] == [
        *(f"data.{at}.{few[0].split(' (and')[0][7:]}" for at in range(3)),
        "data.4.product_id is invalid. The attribute should not start with '_'.",
    ]


def test_a_fault_behind_many_valid_attributes_is_reported_among_many_errors() -> None:
    attributes: dict[str, Any] = {f"a{i}": i for i in range(900)} | {"last": [[]]}
    noisy = {"user_id": "n"} | {f"k{i}": i for i in range(500)}
    messages = faults("user", noisy, {"user_id": "u", "custom_attributes": attributes})
    assert messages[1] == (
        "data.1.custom_attributes.last is invalid. "
        "The items should all be of type 'number', all of type 'string' or all of type 'object'."
    )


@pytest.mark.parametrize("noun", NOUNS)
def test_ten_thousand_bad_records_are_all_reported(noun: Any) -> None:
    messages = faults(noun, *[{"x": 1} if noun == "interaction" else {} for _ in range(10_000)])
    assert len(messages) == 10_000
    assert messages[-1].startswith("data.9999.")


def test_too_many_records_are_refused_as_a_whole() -> None:
    records = [{"user_id": "u"}] * (MAX_RECORDS + 1)
    assert faults("user", *records) == [
        f"data is invalid. The attribute should have at most {MAX_RECORDS} entries."
    ]
    assert len(parse_upload("user", body_of(*records[1:]), now_ms=NOW).records) == MAX_RECORDS


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("a b", "a_b"), ("a\tb\nc", "a_b_c"), ("", "_"), ("\u202eabc", "_abc"), ("a\u00a0b", "a_b"), ("\x00", "_"),
        ("größe", "größe"), ("x" * 500, "x" * 80), ("a\u2028b", "a_b"), ("<script>", "<script>"),
        ("a is invalid. b", "a_is_invalid._b"),
    ],
)  # fmt: skip
def test_field_names_are_cleaned_before_they_are_repeated(name: str, step: str) -> None:
    assert faults("user", {"user_id": "u", name: 1}) == [
        f"data.0.{step} is invalid. The attribute is not allowed."
    ]


def test_values_are_never_repeated() -> None:
    canary = "canary-value"
    for record in (
        {"product_id": canary + "\n"},
        {"product_id": "p", "condition": canary},
        {"product_id": "p", "created_at": canary},
    ):
        assert canary not in faults("product", record)[0]
    assert canary not in faults("interaction", {"type": canary})[0]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from([
    "user_id", "product_id", "type", "custom_attributes", "i18n_fr", "location", "children", "quantities",
    "product_ids",
    "timestamp", "context", "search", "created_at", "images", "tags", "categories", "service_id", "rating", "duration",
]) | st.text(max_size=6)  # fmt: skip
KINDS = st.sampled_from(["click", "checkout", "read", "search", "rate", "custom"])
RECORDS = (
    st.dictionaries(NAMES, JSON, max_size=6)
    | JSON
    | st.fixed_dictionaries(
        {"type": KINDS},
        optional={"quantities": JSON, "search": JSON, "context": JSON, "product_ids": JSON, "rating": JSON},
    )
)


@settings(max_examples=300)
@given(st.sampled_from(NOUNS), st.lists(RECORDS, max_size=4))
def test_any_json_is_accepted_or_refused_in_the_grammar(noun: Any, records: list[Any]) -> None:
    try:
        body = body_of(*records)
    except TypeError:
        return  # lone surrogates can't be sent
    refusal: KioskError | None = None
    try:
        accepted: Any = parse_upload(noun, body, now_ms=NOW)
    except KioskError as error:
        refusal = error
    if refusal is None:
        stored = accepted.payload if noun == "interaction" else accepted.check_types({}).payload
        assert isinstance(orjson.loads(stored), list)
        return
    assert isinstance(refusal, Unprocessable)
    messages = refusal.facts["messages"]
    indexes = [int(match[1]) for match in map(MESSAGE.match, messages) if match]
    assert indexes == sorted(set(indexes))
    assert len(indexes) == len(messages) > 0
    assert all(message.isprintable() and len(message) < 2000 for message in messages)
    assert pickle.loads(pickle.dumps(refusal)).facts == refusal.facts


@settings(max_examples=100)
@given(st.text(min_size=1), st.text())
def test_any_text_comes_back_as_it_was_sent(title: str, value: str) -> None:
    record = {"product_id": "p", "title": title, "tags": [value], "custom_attributes": {"a": value}}
    try:
        body = body_of(record)
    except TypeError:
        return
    (accepted,) = parse_upload("product", body, now_ms=NOW).records
    assert orjson.loads(accepted.json) == record
