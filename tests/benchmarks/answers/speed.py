"""`kiosk bench answers speed`: the speed of answers from the playground's archive.

Every question is another one, made of the title of an article, so nothing is answered from memory. At rest one question
at a time, polled every five milliseconds; under load eight users, each asking its next question when the last one is
finished, polling every fifty.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tests.benchmarks.load import drive, http_request
from tests.benchmarks.scenarios import Line
from tests.benchmarks.stack import KIOSK, ROOT, Stack, kiosk
from tests.benchmarks.unmeasured import guarded

AT_REST = 40
USERS = 8
SECONDS = 10.0
_FORMS = ("What is known about {}?", "Who is named in the story {}?", "When did this happen: {}?", "Why {}?")


@dataclass
class QuestionTimings:
    """What asking questions came to, in milliseconds."""

    accepted: list[float] = field(default_factory=list)
    useful: list[float] = field(default_factory=list)
    finished: list[float] = field(default_factory=list)
    failed: int = 0
    cited: int = 0


class AskingUser:
    """One user on one connection."""

    def __init__(self, port: int, key: str) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=70)
        self._headers = {"X-API-KEY": key, "Content-Type": "application/json"}

    def ask(self, text: str, timings: QuestionTimings, pause_s: float) -> str:
        """Ask a question and wait for its end."""
        began = time.perf_counter()
        question_id = str(self.call("POST", "/v1/ask/questions", {"question": text})["question_id"])
        timings.accepted.append(_ms(began))
        useful = False
        while True:
            record = self.call("GET", f"/v1/ask/questions/{question_id}/answer")
            if not useful and (record["sources"] or record["finished"]):
                timings.useful.append(_ms(began))
                useful = True
            if record["finished"]:
                break
            time.sleep(pause_s)
        timings.finished.append(_ms(began))
        timings.failed += record["finish_reason"] not in ("success", "no_answer")
        timings.cited += bool(record["sources"])
        return question_id

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and read `data`."""
        data = None if body is None else json.dumps(body).encode()
        self._line.request(method, path, body=data, headers=self._headers)
        reply = self._line.getresponse()
        answer = json.loads(reply.read())
        assert reply.status == 200, answer
        return answer.get("data", answer)

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


def questions(user: AskingUser) -> Iterator[str]:
    """Make questions of the titles of all articles, no two alike."""
    ids = user.call("GET", "/v1/products/_ids?type=article")["ids"]
    titles = [user.call("GET", f"/v1/products/{record_id}")["title"] for record_id in ids[:400]]
    for turn in range(1_000):
        for number, title in enumerate(titles):
            form = _FORMS[(number + turn) % len(_FORMS)]
            words = title.split()
            yield form.format(" ".join(words[turn // len(_FORMS) % 3 :]) or title) + " " * (turn % 2)


def lines(running: Stack, key: str) -> Iterator[Line]:
    """Measure answers of a running installation."""
    user = AskingUser(running.port, key)
    asking = questions(user)
    for _ in range(5):
        last = user.ask(next(asking), QuestionTimings(), 0.005)
    rest = QuestionTimings()
    for _ in range(AT_REST):
        last = user.ask(next(asking), rest, 0.005)
    cited = f"{rest.cited} of {AT_REST} with sources, {rest.failed} failed"
    yield Line("question accepted: p50 at rest", median(rest.accepted), "ms")
    yield Line("first useful revision: p50 at rest", median(rest.useful), "ms", 150, note=cited)
    yield Line(
        "finished: p50 at rest", median(rest.finished), "ms", 400, note=f"slowest {max(rest.finished):.0f} ms"
    )
    poll = http_request(
        "GET", f"/v1/ask/questions/{last}/answer", headers={"X-API-KEY": key}, port=running.port
    )
    figures = drive([poll], port=running.port, connections=1, seconds=3)
    yield Line("poll: p50 at rest", figures.p50_ms, "ms", 2, note=f"p99 {figures.p99_ms:.2f} ms")
    busy = drive([poll], port=running.port, connections=32, seconds=3)
    yield Line("poll: throughput at 32", busy.per_second, "/s", note=f"p99 {busy.p99_ms:.1f} ms")
    loaded, took_s = _under_load(running.port, key, asking)
    note = f"{USERS} readers, p50 {median(loaded.finished):.0f} ms, {loaded.failed} failed"
    yield Line("answers a second", len(loaded.finished) / took_s, "/s", 20, at_most=False, note=note)
    user.close()


def _under_load(port: int, key: str, asking: Iterator[str]) -> tuple[QuestionTimings, float]:
    loaded, turn = QuestionTimings(), threading.Lock()
    began = time.monotonic()

    def read() -> None:
        user = AskingUser(port, key)
        while time.monotonic() - began < SECONDS:
            with turn:
                text = next(asking)
            user.ask(text, loaded, 0.05)
        user.close()

    threads = [threading.Thread(target=read) for _ in range(USERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return loaded, time.monotonic() - began


def _ms(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def playground_key(running: Stack) -> str:
    """Lift the limits of the playground and find its key."""
    environment = {"KIOSK_DATA_DIR": str(running.data_dir)}
    lifted = ["apps", "limit", "playground", "--queries", "1000000", "--json"]
    _say(lifted, environment)
    listing = json.loads(_say(["keys", "list", "--reveal", "--json"], environment))
    entries = listing["keys"] if isinstance(listing, dict) else listing
    keys = [entry for entry in entries if entry["app_id"] == "playground" and entry["kind"] == "secret"]
    time.sleep(1.0)
    return str(keys[0]["key"])


def _say(words: list[str], environment: dict[str, str]) -> bytes:
    return subprocess.run(
        [*KIOSK, *words],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
    ).stdout


def served_lines(port: int) -> Iterator[Line]:
    """Measure a fresh installation on a port."""

    def measure() -> Iterator[Line]:
        with kiosk(port) as running:
            yield from lines(running, playground_key(running))

    yield from guarded("answers of an installation", measure)
