"""Poison records: each is stored as it was sent, or refused with a message; nothing else may happen."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cluster.errors import Malformed, Unprocessable
from cluster.records.field_types.fields import MAX_ITEMS, MAX_LEVELS
from cluster.records.validation.upload import parse_upload
from tests.unit.cluster.records.grammar import MESSAGE, NOW, body_of

ACCEPTED: dict[str, dict[str, Any]] = {
    "huge number": {"price": 1e308, "margin": -1e308, "custom_attributes": {"x": 5e-324}},
    "largest integers": {"rating": 2**64 - 1, "custom_attributes": {"x": -(2**63)}},
    "NUL in a text": {"title": "a\x00b", "type": "a\x00b", "tags": ["\x00"]},
    "control characters": {"description": "\x1b[31m\r\n\x08\x7f\u0085"},
    "a million characters": {"html": "x" * 1_000_000},
    "one word of a megabyte in four bytes": {"html": "𝒳" * 250_000},
    "right to left": {"title": "\u202eevil\u202c שלום", "brand": "\u200f"},
    "zero width and confusables": {"title": "a\u200bb\u200dс\ufeff", "product_group_id": "pаypal"},
    "noncharacters": {"title": "\ufffe\uffff\U0010ffff", "i18n_fr": {"title": "\ufdd0"}},
    "combining marks": {"title": "z" + "\u0301" * 1_999, "description": "z" + "\u0301" * 10_000},
    "a path into itself": {"categories": [["A", "B", "A"], ["A"] * 2, []], "parent_id": "p", "related_ids": ["p"]},
    "the longest path": {"categories": [[str(i) for i in range(MAX_LEVELS)]]},
    "10,000 tags": {"tags": ["t"] * MAX_ITEMS},
    "traversal": {"product_group_id": "../../etc/passwd", "url": "javascript:alert(1)", "cover_image": "file:///"},
    "markup and formulas": {"title": "<script>alert(1)</script>", "brand": "=HYPERLINK()", "size": "{{7*7}}"},
    "format strings": {"title": "%s%n{0}{text}", "custom_attributes": {"{text}": "{path}"}},
}  # fmt: skip

REFUSED: dict[str, bytes] = {
    "NaN": b'{"product_id":"p","price":NaN}',
    "infinity": b'{"product_id":"p","price":1e999}',
    "lone surrogate": b'{"product_id":"p","title":"\\udfff"}',
    "NUL in an id": b'{"product_id":"p\\u0000"}',
    "CR LF in an id": b'{"product_id":"p\\r\\nX-A: b"}',
    "an id of 513 characters": b'{"product_id":"' + b"x" * 513 + b'"}',
    "an id of 512 four-byte characters and one more": ('{"product_id":"' + "𝒳" * 513 + '"}').encode(),
    "100,000 attributes": b'{"product_id":"p","custom_attributes":'
    + orjson.dumps({f"a{i}": i for i in range(100_000)})
    + b"}",
    "1,500 attributes": b'{"product_id":"p","custom_attributes":'
    + orjson.dumps({f"a{i}": i for i in range(1_500)})
    + b"}",
    "a title of 2,001 characters": orjson.dumps({"product_id": "p", "title": "x" * 2_001}),
    "a million and one characters": orjson.dumps({"product_id": "p", "html": "x" * 1_000_001}),
    "three texts of a megabyte": orjson.dumps({"product_id": "p", "paragraphs": ["x" * 1_000_000] * 3}),
    "70 levels": b'{"product_id":"p","images":[{"x":' + b"[" * 70 + b"]" * 70 + b"}]}",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_poison_that_is_only_strange_comes_back_as_it_was_sent(name: str) -> None:
    record = {"product_id": "p"} | ACCEPTED[name]
    (accepted,) = parse_upload("product", body_of({"product_id": "before"}, record), now_ms=NOW).records[1:]
    assert orjson.loads(accepted.json) == record


@pytest.mark.parametrize("name", REFUSED)
def test_poison_that_is_not_allowed_refuses_the_upload(name: str) -> None:
    body = b'{"data":[{"product_id":"before"},' + REFUSED[name] + b"]}"
    with pytest.raises((Malformed, Unprocessable)) as caught:
        parse_upload("product", body, now_ms=NOW)
    for message in caught.value.facts.get("messages", []):
        match = MESSAGE.match(message)
        assert match is not None
        assert match[1] == "1"
        assert message.isprintable()


def test_an_id_of_512_four_byte_characters_is_an_id() -> None:
    (accepted,) = parse_upload("product", body_of({"product_id": "𝒳" * 512}), now_ms=NOW).records
    assert accepted.record_id == "𝒳" * 512
