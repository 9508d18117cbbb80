"""A language-model provider on loopback: the OpenAI chat interface, streamed over real sockets, and it can misbehave.

good        sentences with citations, a few bytes at a time
whole       the same in one piece, not streamed
stall       headers, then nothing
deaf        takes the connection, never answers
drip        comments for ever, never a piece of text
crawl       a letter at a time, slower than anybody waits
broken      breaks off after the first sentence
500 ...     any status
garbage     events that are no JSON
html        a page
huge        ten megabytes of text
packed      64 MiB of text in 64 kB of gzip, though nobody asked for gzip
no tls      plain words where a handshake is meant
redirect    to somewhere else
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import zlib
from dataclasses import dataclass, field
from typing import Any

SENTENCES = ("Velmora and Ostrany signed a treaty in Dunmere that divides the water of the river [1].",)


@dataclass
class Provider:
    """The server; what it does can be changed while it runs."""

    behaviour: str = "good"
    text: str = " ".join(SENTENCES)
    rewriting: str = ""
    "What it says when it is asked to rewrite a question."
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    pause_s: float = 0.0
    _server: asyncio.AbstractServer | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it is."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> Provider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if self.behaviour == "no tls":
                await stream.read(5)
                return await _send(writer, "HTTP/1.1 400 Bad Request\r\n\r\n")
            head = await stream.readuntil(b"\r\n\r\n")
            lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
            length = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
            self.requests.append(json.loads(await stream.readexactly(length)))
            self.headers.append(head.decode("latin-1"))
            await self._answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        if self.behaviour == "deaf":
            await asyncio.sleep(60)
        if self.behaviour.isdigit():
            return await _send(writer, f"HTTP/1.1 {self.behaviour} No\r\nContent-Length: 4\r\n\r\nlost")
        if self.behaviour == "redirect":
            return await _send(
                writer, "HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
            )
        if self.behaviour == "html":
            return await _send(
                writer, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<html"
            )
        if self.behaviour == "whole":
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": self.text}}]})
            return await _send(
                writer,
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}",
            )
        more = "Content-Encoding: gzip\r\n" if self.behaviour == "packed" else ""
        await _send(
            writer,
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{more}Transfer-Encoding: chunked\r\n\r\n",
        )
        await getattr(self, "_" + self.behaviour)(writer)

    async def _good(self, writer: asyncio.StreamWriter) -> None:
        rewrites = self.requests[-1]["messages"][0]["content"].startswith("Rewrite")
        text = self.rewriting if rewrites else self.text
        for at in range(0, len(text), 7):
            await _event(writer, text[at : at + 7])
            await asyncio.sleep(self.pause_s)
        await _chunk(writer, b"data: [DONE]\n\n")
        await _send(writer, "0\r\n\r\n")

    async def _stall(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await _chunk(writer, b": still here\n\n")
            await asyncio.sleep(0.02)

    async def _crawl(self, writer: asyncio.StreamWriter) -> None:
        for letter in self.text * 1_000:
            await _event(writer, letter)
            await asyncio.sleep(0.04)

    async def _broken(self, writer: asyncio.StreamWriter) -> None:
        await _event(writer, self.text + " And then the second")
        writer.transport.abort()

    async def _garbage(self, writer: asyncio.StreamWriter) -> None:
        await _chunk(writer, b'data: {"choices": [{"delta": {"content": \n\ndata: ]]]\n\n')

    async def _huge(self, writer: asyncio.StreamWriter) -> None:
        for _ in range(160):
            await _event(writer, "water " * 11_000)

    async def _packed(self, writer: asyncio.StreamWriter) -> None:
        packer = zlib.compressobj(wbits=31)
        block = b": water\n" * (1 << 17)
        for _ in range(64):
            if packed := packer.compress(block):
                await _chunk(writer, packed)
        await _chunk(writer, packer.flush())
        await _send(writer, "0\r\n\r\n")

    async def _unended(self, writer: asyncio.StreamWriter) -> None:
        await _event(writer, self.text)
        await _send(writer, "0\r\n\r\n")


async def _event(writer: asyncio.StreamWriter, text: str) -> None:
    event = {"choices": [{"delta": {"content": text}, "finish_reason": None}]}
    await _chunk(writer, b"data: " + json.dumps(event).encode() + b"\n\n")


async def _chunk(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"%x\r\n" % len(body) + body + b"\r\n")
    await writer.drain()


async def _send(writer: asyncio.StreamWriter, text: str) -> None:
    writer.write(text.encode())
    await writer.drain()


class Press:
    """A provider in a thread of its own, for tests that start whole installations."""

    def __init__(self) -> None:
        self.provider = Provider()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Press:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.provider.__aenter__(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.provider.__aexit__(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
