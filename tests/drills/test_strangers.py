"""Two thousand connections of strangers, of each kind, from one address and from fifty, beside honest callers.

The text's bound is 1.5 times the p99 of honest reads, and none refused. Of a p99 under forty milliseconds the drill
allows twenty more: strangers, callers and service share two processors here.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.benchmarks.stack import Stack
from tests.drills.bounds import Bounds
from tests.drills.engines import APP, asking, installed, say, seed
from tests.drills.journal import call
from tests.drills.storm import Fates, calm
from tests.suites.hostile_requests import ROWS, addresses, hostile_requests

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]
COUNT = 2_000
SECONDS = 4.0
RATE = 50.0


class Strangers(threading.Thread):
    """Keeps so many connections open, each with the same bytes sent; one that is cut is opened again."""

    def __init__(self, port: int, raw: bytes, sources: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self._port, self._raw, self._sources = port, raw, sources
        self._lines: list[socket.socket | None] = [None] * COUNT
        self.over = threading.Event()
        self.opened = 0

    def run(self) -> None:
        """Look at every connection about once in two seconds."""
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self.over.is_set():
            for number, line in enumerate(self._lines):
                if line is None or self._is_cut(line):
                    self._lines[number] = self._open(number)
                if number % 50 == 49:
                    time.sleep(0.02)
            self.over.wait(1.0)
        for line in self._lines:
            if line is not None:
                line.close()

    def _open(self, number: int) -> socket.socket | None:
        line = socket.socket()
        try:
            line.bind((self._sources[number % len(self._sources)], 0))
            line.settimeout(0.2)
            line.connect(("127.0.0.1", self._port))
            line.settimeout(0)
            line.send(self._raw)
        except OSError:
            line.close()
            return None
        self.opened += 1
        return line

    @staticmethod
    def _is_cut(line: socket.socket) -> bool:
        try:
            while chunk := line.recv(65_536):
                del chunk
        except BlockingIOError:
            return False
        except OSError:
            pass
        line.close()
        return True


@contextmanager
def strangers(port: int, raw: bytes, sources: Sequence[str]) -> Iterator[Strangers]:
    """Let strangers come, and give them three seconds to be there."""
    senders = Strangers(port, raw, sources)
    senders.start()
    try:
        time.sleep(3)
        yield senders
    finally:
        senders.over.set()
        senders.join(20)


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """One replica."""
    with installed(KIOSK_REPLICAS_MIN="1", KIOSK_REPLICAS_MAX="1") as running:
        seed(running)
        yield running


@pytest.fixture(scope="module")
def public(stack: Stack) -> str:
    """A browser's key."""
    keys = say(stack, "keys", "list", "--reveal")["keys"]
    return str(next(key["key"] for key in keys if (key["app_id"], key["kind"]) == (APP, "publishable")))


@pytest.fixture
def alone(stack: Stack) -> Fates:
    """Honest readers without anybody beside them, just before."""
    return honest(stack)


def honest(stack: Stack) -> Fates:
    """Read at a steady rate."""
    return calm(asking(stack), port=stack.port, seconds=SECONDS, rate=RATE, connections=16)


@pytest.mark.parametrize("spread", [1, 50])
@pytest.mark.parametrize("row", ROWS)
def test_strangers_slow_nobody_down(
    stack: Stack, public: str, alone: Fates, bounds: Bounds, row: str, spread: int
) -> None:
    raw = hostile_requests(public)[row]
    with strangers(stack.port, raw, addresses(spread)) as senders:
        beside = honest(stack)
        others = {
            "upload": call(stack, "POST", "/v1/users", {"data": [{"user_id": "u"}]}).status,
            "sign-in": call(stack, "GET", "/oauth/authorize/archive?client_id=x").status,
            "archive": call(stack, "POST", "/mcp", {}).status,
            "documentation": call(stack, "GET", "/docs").status,
        }
    before, during = alone.p(0.99), beside.p(0.99)
    name = f"{row}, {spread} addresses"
    print(
        f"\n{name}: {senders.opened} connections; p99 {before:.1f} ms alone, {during:.1f} ms beside; "
        f"{beside.statuses()}; {bounds.at_most(f'R24 {name}, p99 against alone', during / before, 1.5)}"
    )
    assert beside.errors == 0
    assert beside.good.all(), beside.statuses()
    assert others == {"upload": 200, "sign-in": 400, "archive": 401, "documentation": 200}
    assert during <= max(1.5 * before, before + 20)
