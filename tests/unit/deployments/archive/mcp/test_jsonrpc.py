from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from deployments.archive.mcp.jsonrpc import (
    RpcCall,
    RpcError,
    dumps,
    read_message,
    render_error,
    render_result,
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": anything,
        "method": st.sampled_from(["ping", "notifications/initialized", "notifications/", "x", 7, None]),
        "params": anything,
        "result": anything,
        "error": anything,
    },
)


@given(st.binary(max_size=300))
@example(b"[" * 100_000)
@example(b'{"id":' + b"1" * 5000 + b"}")
@example(b'"\xed\xa0\x80"')
def test_any_bytes_get_an_answer_or_none_that_is_json(body: bytes) -> None:
    _sound(read_message(body))


@given(anything)
def test_any_json_gets_an_answer(value: Any) -> None:
    _sound(read_message(json.dumps(value).encode()))


@given(envelopes)
def test_any_envelope_is_a_call_a_notification_or_refused_for_what_is_wrong(message: dict[str, Any]) -> None:
    read = read_message(json.dumps(message).encode())
    _sound(read)
    method, has_id = message.get("method"), "id" in message
    if read is None:
        assert not has_id
        assert str(method).startswith("notifications/")
    if isinstance(read, RpcCall):
        assert json.loads(read.id) == message["id"]
        assert message["jsonrpc"] == "2.0"
        assert isinstance(message.get("params", {}), dict)


@given(st.text() | st.integers(-(10**400), 10**400))
@example(2**64)
@example("\ud800")
def test_an_id_of_any_size_comes_back_as_it_was(value: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": value, "method": "ping"}).encode()
    read = read_message(body)
    if isinstance(read, RpcCall):
        assert json.loads(render_result(read.id, b"{}")) == {"jsonrpc": "2.0", "id": value, "result": {}}
        assert type(json.loads(read.id)) is type(value)
    else:
        # Numbers beyond all doubles and lone halves of characters are refused by the parser.
        assert isinstance(read, RpcError)
        assert read.code == -32700


def test_text_that_utf8_can_not_carry_is_written_all_the_same() -> None:
    assert json.loads(dumps({"a": "x\ud800y"})) == {"a": "x?y"}


def _sound(read: RpcCall | RpcError | None) -> None:
    if isinstance(read, RpcError):
        message = json.loads(render_error(read))
        assert set(message) == {"jsonrpc", "id", "error"}
        assert message["error"]["code"] in (-32700, -32603)
        assert message["error"]["message"]
