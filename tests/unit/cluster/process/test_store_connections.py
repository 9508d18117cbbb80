"""Programs and notebooks wait for coroutines in the same way."""

from __future__ import annotations

import asyncio

import pytest

from cluster.errors import NotFound
from cluster.process.store_connections import run_blocking


async def _answer() -> int:
    await asyncio.sleep(0)
    return 42


async def _refuse() -> int:
    raise NotFound("no such app")


def test_a_program_gets_the_answer() -> None:
    assert run_blocking(_answer()) == 42


@pytest.mark.usefixtures("allow_world")
async def test_a_notebook_whose_loop_runs_gets_it_too() -> None:
    assert run_blocking(_answer()) == 42
    with pytest.raises(NotFound, match="no such app"):
        run_blocking(_refuse())
