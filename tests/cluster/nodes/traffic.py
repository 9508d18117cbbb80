"""Requests at a steady rate to all nodes, and a journal of what was acknowledged."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.cluster.nodes.cluster import RECOMMEND, NodeCluster


@dataclass(frozen=True)
class Answer:
    """One request: what, where, when, how long, what came."""

    kind: str
    place: int
    at_s: float
    took_s: float
    status: int
    reason: str = ""


@dataclass
class Traffic:
    """60 % recommendations, 20 % uploads of users, 20 % interactions; no retries; a context manager.

    `HOUSE_RATE` is another rate for all of it.
    """

    cluster: NodeCluster
    rate: float = field(default_factory=lambda: float(os.environ.get("HOUSE_RATE", "30")))
    places: Sequence[int] = (0, 1, 2)
    is_balanced: bool = False
    "Send to nodes only whose health check passed a second ago, as a load balancer does."
    answers: list[Answer] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    "Users whose upload was acknowledged."

    _numbers = itertools.count()

    def __enter__(self) -> Traffic:
        self._over = threading.Event()
        self._began = time.monotonic()
        self._pool = ThreadPoolExecutor(60)
        self._healthy = set(self.places)
        self._threads = [threading.Thread(target=self._send_all, daemon=True)]
        if self.is_balanced:
            self._threads += [
                threading.Thread(target=self._check_health, args=(place,), daemon=True)
                for place in self.places
            ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()

    @property
    def failed(self) -> list[Answer]:
        """Return the answers other than 200."""
        return [answer for answer in self.answers if answer.status != 200]

    @property
    def now_s(self) -> float:
        """Return the seconds since the begin."""
        return time.monotonic() - self._began

    def percentile_ms(self, share: float) -> float:
        """Return the time that a share of the answers stayed below."""
        took = sorted(answer.took_s for answer in self.answers)
        return took[min(len(took) - 1, int(share * len(took)))] * 1000

    def __str__(self) -> str:
        kinds = Counter(
            (answer.kind, answer.place, answer.status, answer.reason[:60]) for answer in self.failed
        )
        times = [f"{answer.at_s:.1f}" for answer in self.failed[:8]]
        return (
            f"{len(self.failed)} of {len(self.answers)} failed, p99 {self.percentile_ms(0.99):.0f} ms "
            f"{dict(kinds) or ''} {', '.join(times)}"
        )

    def missing_users(self, within_s: float = 120.0) -> tuple[list[str], float]:
        """Return the acknowledged users that can't be read back, and the seconds until all others could."""
        began, missing = time.monotonic(), list(self.users)
        while missing and time.monotonic() - began < within_s:
            place = next(place for place in range(3) if self.cluster.is_healthy(place))
            missing = [
                user
                for user in missing
                if self.cluster.call("GET", f"/v1/users/{user}", place=place)[0] != 200
            ]
        return missing, time.monotonic() - began

    def _send_all(self) -> None:
        places = itertools.cycle(self.places)
        for turn in itertools.count():
            due = self._began + turn / self.rate
            if self._over.wait(max(0.0, due - time.monotonic())):
                return
            place = next(places)
            for _ in self.places:
                if place in self._healthy:
                    break
                place = next(places)
            self._pool.submit(self._send, turn, place)

    def _check_health(self, place: int) -> None:
        while not self._over.wait(1.0):
            if self.cluster.is_healthy(place):
                self._healthy.add(place)
            else:
                self._healthy.discard(place)

    def _send(self, turn: int, place: int) -> None:
        number, began = next(self._numbers), time.monotonic()
        user = f"t{number}"
        kind, path, body = (
            ("upload", "/v1/users", {"data": [{"user_id": user}]}),
            ("click", "/v1/interactions", {"data": [_click(number)]}),
            *[("read", RECOMMEND, {"user_id": f"u{number % 90}", "rows": 10})] * 3,
        )[turn % 5]
        status, reply = self.cluster.call("POST", path, body, place=place)
        reason = "" if status == 200 else str(reply)
        self.answers.append(
            Answer(kind, place, began - self._began, time.monotonic() - began, status, reason)
        )
        if kind == "upload" and status == 200:
            self.users.append(user)


def _click(number: int) -> dict[str, object]:
    return {"type": "click", "user_id": f"u{number % 90}", "product_ids": [f"p{number % 300}"]}
