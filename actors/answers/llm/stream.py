"""Server-sent events of a chat completion to pieces of text, however they are cut into packets.

Source: the server-sent events part of the HTML standard; the OpenAI chat completions interface
"""

from __future__ import annotations

from typing import Any

import orjson

MAX_LINE_BYTES = 256 << 10


class InvalidModelReply(Exception):
    """The reply does not follow the protocol."""


class ChatStreamParser:
    """Buffers bytes and returns pieces of text."""

    def __init__(self) -> None:
        self._rest = b""
        self.is_done = False
        "The provider sent the end of the reply."

    def feed(self, packet: bytes) -> list[str]:
        """Take in a packet.

        Errors:
            InvalidModelReply: the reply does not follow the protocol
        """
        pieces: list[str] = []
        # The last piece may be half a line, so it waits for the next packet.
        *lines, self._rest = (self._rest + packet).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise InvalidModelReply("a line without an end")
        for line in lines:
            if not line.startswith(b"data:") or self.is_done:
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                self.is_done = True
            elif data:
                pieces += self._parse_event(data)
        return pieces

    def _parse_event(self, data: bytes) -> list[str]:
        event = _parse_json(data)
        choice = _first_choice(event)
        if choice is None:
            return []
        if choice.get("finish_reason"):
            self.is_done = True
        delta = choice.get("delta")
        return _content_texts(delta.get("content")) if isinstance(delta, dict) else []


def parse_reply(body: bytes) -> str:
    """Read a reply that came in one piece, from a provider that does not stream.

    Errors:
        InvalidModelReply: the reply does not follow the protocol
    """
    choice = _first_choice(_parse_json(body))
    message = choice.get("message") if choice is not None else None
    if not isinstance(message, dict):
        raise InvalidModelReply("no message")
    return "".join(_content_texts(message.get("content")))


def _parse_json(data: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(data)
    except ValueError:
        raise InvalidModelReply("no JSON") from None
    if not isinstance(event, dict):
        raise InvalidModelReply("no object")
    if event.get("error"):
        raise InvalidModelReply("the provider reports an error")
    return event


def _first_choice(event: dict[str, Any]) -> dict[str, Any] | None:
    choices = event.get("choices")
    if choices is None or choices == []:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise InvalidModelReply("no choices")
    return choices[0]


def _content_texts(content: Any) -> list[str]:
    if content is None or content == "":
        return []
    if not isinstance(content, str):
        raise InvalidModelReply("content is no text")
    return [content]
