"""A client that remembers what was acknowledged, and the processes it may hurt."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

import psutil

from tests.benchmarks.stack import Stack


@dataclass
class Answer:
    """One call: when it began, how long it took, what came."""

    at: float
    took_s: float
    status: int
    "0: no answer at all (refused, reset, timed out)."
    retry_after: str | None = None
    body: bytes = b""


def call(stack: Stack, method: str, path: str, body: object = None, *, timeout_s: float = 30.0) -> Answer:
    """Send one request and tell what happened, whatever happened."""
    data = None if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{stack.port}{path}"
    request = urllib.request.Request(url, data=data, method=method, headers=stack.headers)
    begin = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as reply:
            return Answer(begin, time.monotonic() - begin, reply.status, None, reply.read())
    except urllib.error.HTTPError as error:
        retry_after = error.headers.get("Retry-After")
        return Answer(begin, time.monotonic() - begin, error.code, retry_after, error.read())
    except OSError:
        return Answer(begin, time.monotonic() - begin, 0)


@dataclass
class Load(threading.Thread):
    """Calls at a steady rate in the background until told to stop."""

    stack: Stack
    method: str
    path: str
    bodies: list[object]
    rate: float
    answers: list[Answer] = field(default_factory=list)
    acknowledged: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Send until told to stop, or until the bodies are used up."""
        due = time.monotonic()
        for body in self.bodies:
            if self._over.is_set():
                return
            answer = call(self.stack, self.method, self.path, body)
            self.answers.append(answer)
            if answer.status == 200:
                self.acknowledged.append(body)
            due += 1 / self.rate
            self._over.wait(max(0.0, due - time.monotonic()))

    def finish(self) -> None:
        """Stop and wait for the last call."""
        self._over.set()
        self.join(60)


def processes(stack: Stack, *words: str) -> list[psutil.Process]:
    """Processes of the installation whose command line or title holds one of the words."""
    matching = []
    for process in stack.processes():
        try:
            line = " ".join([process.name(), *process.cmdline()])
        except psutil.Error:
            continue
        if any(word in line for word in words):
            matching.append(process)
    return matching


def percentile(answers: list[Answer], share: float) -> float:
    """Latency in milliseconds that `share` of the answers stayed under."""
    took = sorted(answer.took_s for answer in answers)
    return took[min(len(took) - 1, int(share * len(took)))] * 1000 if took else 0.0
