"""Load for drills: every request's fate is kept, so that a figure can be given for any moment of a fault.

Requests leave on a fixed schedule (`rate`) or as fast as answers come (`rate=0`), over kept connections, from
processes of their own that give way to the service (`nice`). With `again`, a request that failed is sent once more
a tenth of a second later, as a client with one retry does.

    with storm(requests, port=port, rate=300, seconds=20) as running:
        ...hurt something...
    fates = running.fates()
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.load import ROOT, _Connection

Rows = np.ndarray[Any, np.dtype[Any]]
_REST_S = 0.1
_NEVER_S = 35.0
"A request without an answer for so long is given up; the service promises less."


@dataclass(frozen=True)
class Fates:
    """What became of every request, in the order of their ends. Times are seconds of the monotonic clock."""

    due: Rows
    took_ms: Rows
    "From the moment it was due; with `skip`, from the moment it was sent."
    first: Rows
    "Status of the first try; 0: the connection failed."
    last: Rows
    "Status of the last try."
    has_retry_after: Rows
    "Did the first answer say when to come back?"

    def __len__(self) -> int:
        return len(self.due)

    def between(self, begin_s: float, end_s: float) -> Fates:
        """Keep those that were due in a span of time."""
        kept = (self.due >= begin_s) & (self.due < end_s)
        return Fates(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))

    @property
    def good(self) -> Rows:
        """Which were answered at the first try."""
        return (self.first >= 200) & (self.first < 300)

    @property
    def refused(self) -> Rows:
        """Which were told to come back."""
        return ((self.first == 429) | (self.first == 503)) & self.has_retry_after

    @property
    def errors(self) -> int:
        """First tries that are neither good nor a 429."""
        return int((~self.good & (self.first != 429)).sum())

    @property
    def lost(self) -> int:
        """Requests that are neither good nor a 429 even after the second try."""
        return int((((self.last < 200) | (self.last >= 300)) & (self.last != 429)).sum())

    def p(self, share: float) -> float:
        """Latency in milliseconds that `share` of the good ones stayed under."""
        good = self.took_ms[self.good]
        return float(np.percentile(good, share * 100)) if len(good) else 0.0

    def statuses(self) -> dict[int, int]:
        """Count first tries by status."""
        statuses, counts = np.unique(self.first, return_counts=True)
        return dict(zip(statuses.tolist(), counts.tolist(), strict=True))

    def per_second(self) -> float:
        """Good answers a second."""
        span = float(self.due.max() - self.due.min()) if len(self) > 1 else 0.0
        return float(self.good.sum()) / span if span else 0.0

    def longest_gap_s(self) -> float:
        """Find the longest time without a good answer, by their ends."""
        ends = np.sort(self.due[self.good] + self.took_ms[self.good] / 1000)
        return float(np.diff(ends).max()) if len(ends) > 1 else float("inf")


class Storm:
    """Drivers at work."""

    def __init__(self, drivers: list[subprocess.Popen[bytes]], files: list[Path]) -> None:
        self._drivers = drivers
        self._files = files

    def fates(self) -> Fates:
        """Wait for the end and read what happened."""
        for driver in self._drivers:
            assert driver.wait(300) == 0
        parts = []
        for path in self._files:
            with np.load(path) as stored:
                parts.append({name: stored[name] for name in Fates.__dataclass_fields__})
        return Fates(*(np.concatenate([part[name] for part in parts]) for name in Fates.__dataclass_fields__))

    def stop(self) -> None:
        """End what still runs."""
        for driver in self._drivers:
            if driver.poll() is None:
                driver.kill()
                driver.wait()


@contextmanager
def storm(
    requests: Sequence[bytes],
    *,
    port: int,
    seconds: float,
    rate: float = 0.0,
    connections: int = 64,
    again: bool = False,
    skip: bool = False,
    drivers: int = 1,
) -> Iterator[Storm]:
    """Drive in the background. With `skip`, requests that find no free connection are left out, not sent late."""
    with tempfile.TemporaryDirectory(prefix="storm-") as folder:
        files = [Path(folder) / f"{number}.npz" for number in range(drivers)]
        plan = {
            "requests": [request.decode("latin-1") for request in requests],
            "port": port,
            "connections": connections // drivers,
            "seconds": seconds,
            "rate": rate / drivers,
            "again": again,
            "skip": skip,
        }
        running = []
        for path in files:
            command = [sys.executable, "-m", "tests.drills.storm", str(path)]
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            child = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, env=environment)
            assert child.stdin is not None
            child.stdin.write(json.dumps(plan).encode())
            child.stdin.close()
            running.append(child)
        at_work = Storm(running, files)
        try:
            yield at_work
        finally:
            at_work.stop()


def calm(requests: Sequence[bytes], **how: Any) -> Fates:
    """Drive and wait."""
    with storm(requests, **how) as running:
        return running.fates()


class _Driver:
    """One process's connections and what they saw."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._requests = [text.encode("latin-1") for text in plan["requests"]]
        self._selector = selectors.DefaultSelector()
        self._idle: deque[_Connection] = deque()
        self._pending: dict[_Connection, tuple[int, float, int, bool]] = {}
        "Connection -> request number, due, status of the first try (-1: this is it), told when."
        self._rows: list[tuple[float, float, int, int, bool]] = []
        self._redo: deque[tuple[float, int, float, int, bool]] = deque()
        self._missing = 0

    def run(self) -> dict[str, Rows]:
        clock, plan = time.monotonic, self._plan
        self._missing = plan["connections"]
        begin = clock()
        end, due, number = begin + plan["seconds"], begin, 0
        interval = 1 / plan["rate"] if plan["rate"] else 0.0
        while clock() < end or ((self._pending or self._redo) and clock() < end + _NEVER_S):
            self._connect()
            while self._redo and self._idle and self._redo[0][0] <= clock():
                self._send(self._idle.popleft(), *self._redo.popleft()[1:])
            while self._idle and clock() < end and (not interval or due <= clock()):
                self._send(
                    self._idle.popleft(), number, clock() if plan["skip"] or not interval else due, -1, False
                )
                number, due = number + 1, due + interval
            if plan["skip"]:
                due = max(due, clock() - 0.005)
            ready = min(due, end) - clock() if interval and self._idle else 0.02
            for key, mask in self._selector.select(min(max(0.0, ready), 0.02)):
                self._serve(key.data, mask)
        for connection in list(self._pending):
            self._end(connection, 0, False)
        columns = zip(*self._rows, strict=True)
        return {
            name: np.asarray(column) for name, column in zip(Fates.__dataclass_fields__, columns, strict=True)
        }

    def _connect(self) -> None:
        for _ in range(self._missing):
            try:
                made = _Connection(self._plan["port"])
            except OSError:
                time.sleep(0.005)
                if self._idle or self._pending:
                    return
                continue
            self._missing -= 1
            self._selector.register(made.sock, selectors.EVENT_READ, made)
            self._idle.append(made)

    def _send(
        self, connection: _Connection, number: int, due: float, first: int, has_retry_after: bool
    ) -> None:
        self._pending[connection] = (number, due, first, has_retry_after)
        try:
            connection.send(self._requests[number % len(self._requests)], due)
        except OSError:
            self._break(connection)
            return
        if connection.pending:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(connection.sock, both, connection)

    def _serve(self, connection: _Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_WRITE and connection.pending:
                connection.flush()
                if not connection.pending:
                    self._selector.modify(connection.sock, selectors.EVENT_READ, connection)
            if not mask & selectors.EVENT_READ or not connection.receive():
                return
        except OSError:
            self._break(connection)
            return
        head = connection.buffer[:2048].lower()
        connection.idle = True
        self._end(connection, int(connection.status or 0), b"\nretry-after:" in head)
        if connection.last:
            self._drop(connection)
        else:
            self._idle.append(connection)

    def _break(self, connection: _Connection) -> None:
        if connection in self._pending:
            self._end(connection, 0, False)
        elif connection in self._idle:
            self._idle.remove(connection)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.sock)
        connection.sock.close()
        self._missing += 1

    def _end(self, connection: _Connection, status: int, has_retry_after: bool) -> None:
        number, due, first, first_has_retry_after = self._pending.pop(connection)
        failed = not 200 <= status < 300 and status != 429
        if failed and first < 0 and self._plan["again"]:
            self._redo.append((time.monotonic() + _REST_S, number, due, status, has_retry_after))
            return
        if first < 0:
            first, first_has_retry_after = status, has_retry_after
        self._rows.append((due, (time.monotonic() - due) * 1000, first, status, first_has_retry_after))


def main() -> None:
    """Drive as the plan on standard input says; write what happened to the file named."""
    os.nice(5)
    np.savez(sys.argv[1], **_Driver(json.loads(sys.stdin.buffer.read())).run())


if __name__ == "__main__":
    main()
