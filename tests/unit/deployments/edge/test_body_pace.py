"""Slow bodies are refused by their pace, and few files are received at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cluster.errors import TooMany
from deployments.edge.http.body_pace import BodyPace, UploadSlots
from deployments.edge.http.request import DeadlineExceeded
from tests.suites.virtual_time import run_in_virtual_time

PIECE = b"x" * 1_000


def sending(pieces: int, pause_s: float) -> Callable[[], Awaitable[Any]]:
    """Return a `receive` that sends pieces with a pause before each."""
    left = pieces

    async def receive() -> Any:
        nonlocal left
        await asyncio.sleep(pause_s)
        left -= 1
        return {"type": "http.request", "body": PIECE, "more_body": left > 0}

    return receive


async def read(receive: Callable[[], Awaitable[Any]], work_s: float = 0.0) -> int:
    taken = 0
    while True:
        message = await receive()
        taken += len(message["body"])
        await asyncio.sleep(work_s)
        if not message["more_body"]:
            return taken


async def take(pace: BodyPace, receive: Callable[[], Awaitable[Any]], work_s: float = 0.0) -> int:
    return await read(pace.bound(receive), work_s)


def test_a_body_that_drips_is_refused_in_time() -> None:
    async def drip() -> float:
        with pytest.raises(DeadlineExceeded):
            await read(BodyPace(0.05).bound(sending(1_000, 0.01)))
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(drip()) == pytest.approx(0.05)


def test_a_client_that_stops_is_refused() -> None:
    with pytest.raises(DeadlineExceeded):
        run_in_virtual_time(take(BodyPace(0.05, 1e9), sending(2, 60.0)))


def test_more_bytes_have_more_time() -> None:
    assert run_in_virtual_time(take(BodyPace(0.03, 10_000.0), sending(10, 0.015))) == 10_000
    with pytest.raises(DeadlineExceeded):
        run_in_virtual_time(take(BodyPace(0.03, 1e7), sending(10, 0.015)))


def test_time_in_which_the_server_is_busy_does_not_count() -> None:
    assert run_in_virtual_time(take(BodyPace(0.05), sending(4, 0.0), work_s=0.04)) == 4_000


def test_places_for_files_are_bounded_for_each_account_and_for_all() -> None:
    slots = UploadSlots(most=3, most_each=2)
    with slots.take("ada"), slots.take("ada"):
        with pytest.raises(TooMany, match="too many files"), slots.take("ada"):
            pass
        with slots.take("ben"), pytest.raises(TooMany), slots.take("cleo"):
            pass
        with slots.take("cleo"):
            pass
    with slots.take("ada"), slots.take("ada"), slots.take("ben"):
        pass
