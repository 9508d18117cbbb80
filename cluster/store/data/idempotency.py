"""Replies to writes with an Idempotency-Key, so that a repeated write gets the same reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.data.salts import Salts


@dataclass(frozen=True, slots=True)
class IdempotencyState:
    """State of an Idempotency-Key: `new` (go on), `flying`, `done` (repeat the reply), `other` (other body), `full`
    (too many keys)."""

    state: Literal["new", "flying", "done", "other", "full"]
    status: int = 0
    reply: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    "Headers of the reply beyond the usual ones."


LOCK_MS = 60 * 1000
"A write without a reply after this time counts as dead and may begin again."
LIFE_MS = 24 * 3600 * 1000
COUNTED_MS = 3600 * 1000
"Keys of browsers are counted for each hour."

_STATES: Final[Mapping[bytes, Literal["new", "flying", "other", "full"]]] = {
    b"new": "new",
    b"flying": "flying",
    b"other": "other",
    b"full": "full",
}
_BEGIN = Script.load("begin")
_FINISH = Script.load("finish")


class IdempotencyStore:
    """The replies to writes with an Idempotency-Key."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server
        self._salts = Salts(server)

    async def begin(self, app_id: str, token: str, body_sha256: str, *, most: int = 0) -> IdempotencyState:
        """Begin a write and return its state; `new` takes a lock that expires after 60 s without `finish` or `delete`.

        `most` bounds an app's bounded keys: the number of writes that may begin within an hour; 0: no bound.
        """
        names = [keys.idempotency(app_id, token), keys.idempotency_count(app_id)]
        state, *facts = await self._server.run(_BEGIN, names, [body_sha256, LOCK_MS, most, COUNTED_MS])
        if state == b"done":
            return IdempotencyState("done", int(facts[0]), facts[1], _parse_headers(facts[2]))
        return IdempotencyState(_STATES[state])

    async def finish(
        self,
        app_id: str,
        token: str,
        status: int,
        reply: bytes,
        user_keys: Sequence[str] = (),
        *,
        life_ms: int = LIFE_MS,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Keep the reply for its lifetime, or until one of its users (`u:...`, `a:...`) is erased."""
        # So that an erasure finds replies about the person, without an id in them.
        marks = " ".join([await self._salts.pseudonym(app_id, user_key) for user_key in user_keys])
        lines = b"\n".join(name + b": " + value for name, value in headers)
        names = [keys.idempotency(app_id, token)]
        await self._server.run(_FINISH, names, [status, reply, life_ms, marks, lines])

    async def delete(self, app_id: str, token: str) -> None:
        """Delete the lock of a failed write whose reply must not be repeated."""
        await self._server.execute_slow("DEL", keys.idempotency(app_id, token))


def _parse_headers(lines: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers from lines of `name: value`; a header contains no line end."""
    parts = (line.partition(b": ") for line in lines.split(b"\n") if line)
    return tuple((name, value) for name, _, value in parts)
