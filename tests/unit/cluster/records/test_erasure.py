"""Whether a text names a person, and what a receipt says."""

from __future__ import annotations

import orjson
import pytest

from cluster.records.erasure import ErasedPlace, Erasure, Person, addresses_of

ADA = Person(app_id="shop", user_id="7", anonymous_ids=("v-1",), addresses=("ada@example.org",))


@pytest.mark.parametrize(
    "text",
    [
        b'{"user_id":"7"}',
        b'["u","7"]',
        b'{"deep":{"list":[{"anonymous_id":"v-1"}]}}',
        b'{"7":1}',
        b'{"text":"{\\"user_id\\":\\"7\\",\\"name\\":"}',
        b'[{"user_id":"7","cut o',
        b"user 7 is no good",
        b'{"mail":"ada@example.org"}',
        "no user 7 here",
    ],
)
def test_a_text_names_a_person(text: bytes | str) -> None:
    assert ADA.is_named_in(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"user_id":"77"}',
        b'{"n":7}',
        b'{"anonymous_id":"v-10"}',
        b'{"at":"2026-07-17"}',
        b"17 u7 7x",
        b"",
        b"{}",
    ],
)
def test_a_text_that_holds_a_longer_id_names_somebody_else(text: bytes) -> None:
    assert not ADA.is_named_in(text)


@pytest.mark.parametrize("user_id", ['a"b', "a\\b", "Żółw / 1", "tab\there", "\ud800"])
def test_ids_with_odd_characters_match_in_json_and_in_nested_json(user_id: str) -> None:
    person = Person(app_id="shop", user_id=user_id.encode("utf-8", "replace").decode())
    once = orjson.dumps({"user_id": person.user_id})
    assert person.is_named_in(once)
    assert person.is_named_in(orjson.dumps({"text": once.decode()}))
    assert person.is_named_in(orjson.dumps({"text": once.decode()})[:-1])


@pytest.mark.parametrize(
    ("name", "is_named"),
    [
        ("7.csv", True), ("export 7.jsonl", True), ("users_v-1_2021.csv", True), ("ada@example.org.csv", True),
        ("2017.csv", False), ("a7.csv", False), ("v-12.csv", False), ("orders.csv", False),
    ],
)  # fmt: skip
def test_a_file_is_named_after_a_person_by_a_whole_id(name: str, is_named: bool) -> None:
    assert ADA.is_named_in_file(name) == is_named


def test_addresses_of_a_profile_are_extracted_at_any_depth() -> None:
    profile = orjson.dumps({"a": {"b": ["x@y.zz", "not one", "@"]}, "c": 5})
    assert addresses_of(profile) == ("x@y.zz",)


def test_a_receipt_adds_up_what_is_left() -> None:
    places = (
        ErasedPlace(place="a", found=3),
        ErasedPlace(place="b", found=2, left=2, until="soon", reason="why"),
    )
    receipt = Erasure(erasure_id="e", app_id="shop", subject="s", created_at=0, places=places)
    assert receipt.left == 2
    assert receipt.to_dict()["places"][1] == {
        "place": "b", "found": 2, "left": 2, "until": "soon", "reason": "why",
    }  # fmt: skip
