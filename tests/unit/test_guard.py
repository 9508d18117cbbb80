"""The guard of unit tests itself."""

from __future__ import annotations

import socket
import time

import pytest


def test_a_unit_test_can_not_sleep() -> None:
    with pytest.raises(AssertionError, match=r"time\.sleep"):
        time.sleep(0)


def test_a_unit_test_can_not_connect() -> None:
    with socket.socket() as line, pytest.raises(AssertionError, match="connect"):
        line.connect(("127.0.0.1", 9))


async def test_an_async_unit_test_still_has_its_loop() -> None:
    with socket.socket(socket.AF_UNIX) as line, pytest.raises(AssertionError, match="bind"):
        line.bind("/nowhere")


def test_a_test_with_a_good_reason_may(allow_world: None) -> None:
    time.sleep(0)
