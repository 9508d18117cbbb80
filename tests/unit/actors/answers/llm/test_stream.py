from __future__ import annotations

import json
from typing import Any

import pytest

from actors.answers.llm.stream import MAX_LINE_BYTES, ChatStreamParser, InvalidModelReply, parse_reply


def event(text: Any, **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}, **more}]}).encode() + b"\n\n"


STREAM = (
    b": hello\r\nevent: x\r\n"
    + event("Ein")
    + event("en ")
    + event("Grüße")
    + event(None)
    + b"data: [DONE]\n\n"
)


@pytest.mark.parametrize("size", [1, 2, 5, 10_000])
def test_text_is_the_same_however_packets_are_cut(size: int) -> None:
    events = ChatStreamParser()
    pieces = [piece for at in range(0, len(STREAM), size) for piece in events.feed(STREAM[at : at + size])]
    assert "".join(pieces) == "Einen Grüße"
    assert events.is_done


def test_a_finish_reason_is_an_end_too() -> None:
    events = ChatStreamParser()
    events.feed(event("x", finish_reason="stop"))
    assert events.is_done


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {\n", b"data: []\n", b"data: 7\n", b'data: {"error": {"message": "no"}}\n', b'data: {"choices": 7}\n',
        b'data: {"choices": [7]}\n', b'data: {"choices": [{"delta": {"content": 7}}]}\n', b"data: NaN\n",
        b"data: \xff\xfe\n", b"x" * (MAX_LINE_BYTES + 1),
    ],
)  # fmt: skip
def test_garbage_is_named_so(bad: bytes) -> None:
    with pytest.raises(InvalidModelReply):
        ChatStreamParser().feed(bad)


@pytest.mark.parametrize(
    "odd",
    [
        b"\n",
        b"data:\n",
        b'data: {"choices": []}\n',
        b"data: {}\n",
        b"retry: 3\n",
        b'data: {"choices": [{}]}\n',
    ],
)
def test_events_without_text_are_passed_over(odd: bytes) -> None:
    assert ChatStreamParser().feed(odd) == []


def test_a_whole_reply_is_read_too() -> None:
    assert parse_reply(json.dumps({"choices": [{"message": {"content": "x y"}}]}).encode()) == "x y"
    for bad in (b"", b"{}", b'{"choices": [{}]}', b'{"choices": [{"message": "x"}]}', b"<html"):
        with pytest.raises(InvalidModelReply):
            parse_reply(bad)
