from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from cluster.errors import Malformed, TooLarge
from deployments.edge.http.request import Deadline, DeadlineExceeded, Receive, read_body
from deployments.edge.http.request_log import ClientDisconnected

MB = 1 << 20


def arriving(*chunks: bytes, hang_up: bool = False) -> tuple[Receive, list[int]]:
    left: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": hang_up or at + 1 < len(chunks)}
        for at, chunk in enumerate(chunks)
    ]
    taken = [0]

    async def receive() -> Any:
        taken[0] += 1
        return left.pop(0) if left else {"type": "http.disconnect"}

    return receive, taken


async def read(chunks: Sequence[bytes], *, hang_up: bool = False, **facts: Any) -> bytes:
    receive, _ = arriving(*chunks, hang_up=hang_up)
    return await read_body(receive, **{"announced": None, "encoding": None, "most_bytes": MB, **facts})


async def test_a_body_arrives_whole_or_in_pieces() -> None:
    assert await read([b"{}"], announced=b"2") == b"{}"
    assert await read([b'{"a"', b":", b"1}"]) == b'{"a":1}'
    assert await read([b""]) == b""


async def test_an_announced_length_over_the_limit_is_refused_before_a_byte_is_read() -> None:
    receive, taken = arriving(b"x")
    with pytest.raises(TooLarge, match="larger than 1 MB"):
        await read_body(receive, announced=b"1048577", encoding=None, most_bytes=MB)
    assert taken == [0]
    with pytest.raises(TooLarge):
        await read([b"x"], announced=b"9" * 5000)


async def test_a_body_that_grows_over_the_limit_is_refused_while_reading() -> None:
    receive, taken = arriving(*[b"x" * 65536] * 100)
    with pytest.raises(TooLarge):
        await read_body(receive, announced=None, encoding=None, most_bytes=MB)
    assert taken == [17]
    with pytest.raises(TooLarge):
        await read([b"x" * (MB + 1)], announced=b"10")


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1e3", b" 5", b"0x10", b"5, 5", b""])
async def test_a_length_that_is_no_number_is_malformed(length: bytes) -> None:
    with pytest.raises(Malformed):
        await read([b"x"], announced=length)


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"zstd", b"deflate", b"GZIP", b"identity, gzip"])
async def test_a_compressed_body_is_refused_unread(encoding: bytes) -> None:
    receive, taken = arriving(b"x")
    with pytest.raises(Malformed, match="Content-Encoding"):
        await read_body(receive, announced=b"1", encoding=encoding, most_bytes=MB)
    assert taken == [0]
    assert await read([b"x"], encoding=b"identity") == b"x"


async def test_a_caller_who_hangs_up_is_gone() -> None:
    with pytest.raises(ClientDisconnected):
        await read([])
    with pytest.raises(ClientDisconnected):
        await read([b"half"], hang_up=True)


async def test_a_deadline_cancels_what_takes_too_long_and_nothing_else() -> None:
    with Deadline(5.0):
        await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded), Deadline(0.01):
        await asyncio.sleep(5)
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="own"), Deadline(5.0):
        raise ValueError("own")


@pytest.mark.parametrize(
    "limit_s",
    [
        5.0,
        pytest.param(
            0.0,
            marks=pytest.mark.skipif(
                sys.version_info < (3, 11), reason="tasks count their cancellations from Python 3.11 on"
            ),
        ),
    ],
)
async def test_a_cancellation_from_outside_stays_one(limit_s: float) -> None:
    """Also when the deadline ends in the same turn."""

    async def work() -> None:
        with Deadline(limit_s):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
