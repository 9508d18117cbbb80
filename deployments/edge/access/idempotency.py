"""`Idempotency-Key`: if a client repeats a write with the same key, the server applies it once.

A request without the header costs nothing more. A request that repeats a key within 24 hours gets the first reply. A
different request with the same key gets 422, and a request during the first one gets 409.

An Idempotency-Key belongs to the API key of its request and, with a token, to the user. Keys of browsers are kept for
an hour, and in a limited number for each app, because every visitor of a page can create them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from cluster.errors import Conflict, KioskError, TooMany, Unprocessable
from cluster.store.data.idempotency import IdempotencyStore
from deployments.edge.http.replies import Reply

HEADER = b"idempotency-key"
REPLAYED = (b"idempotency-replayed", b"true")

OTHER_BODY = "The Idempotency-Key was already used with another request."
IN_FLIGHT = "A request with this Idempotency-Key is still running."
NOT_A_KEY = "The Idempotency-Key must be 1 to 255 visible characters."

TOO_MANY_KEYS = "Too many requests with an Idempotency-Key; leave it out or try again later."

LIFE_MS = 24 * 3_600_000
BROWSER_LIFE_MS = 3_600_000
BROWSER_MOST = 20_000
"Idempotency keys of browsers that the store keeps for an app: about 8 MB."

_FINAL = frozenset({200, 400, 404, 413, 422})
"Statuses that a retry would get again; replies with other statuses are not stored, so a retry may succeed."


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The owner of an Idempotency-Key."""

    app_id: str
    key_id: str
    user_id: str = ""
    "User of a verified token; empty without one."
    is_browser: bool = False


async def answer_once(
    store: IdempotencyStore,
    owner: KeyOwner,
    key: bytes,
    request: tuple[bytes, ...],
    answer: Callable[[], Awaitable[Reply]],
    refused: Callable[[KioskError], Reply],
    user_keys: Callable[[], Sequence[str]] = tuple,
) -> Reply:
    """Run `answer` unless the same request was answered before; return its reply or the stored one.

    `request` identifies the request: method, path, query, body. `refused` renders an expected error of `answer`,
    because refusals are stored and repeated as well. `user_keys` returns the users of the request, so that their
    erasure deletes the reply.

    Errors:
        Unprocessable: another request used the key, or the key is invalid
        Conflict: the first request is still running
        TooMany: browsers of this app use too many keys
    """
    if not 0 < len(key) <= 255 or any(not 32 < byte < 127 for byte in key):
        raise Unprocessable(NOT_A_KEY)
    app_id = owner.app_id
    # With the proven user, because the visitors of a page share one API key. A digest, because the client
    # chooses the text.
    token = _digest((owner.key_id.encode(), owner.user_id.encode("utf-8", "surrogatepass"), key))
    most, life_ms = (BROWSER_MOST, BROWSER_LIFE_MS) if owner.is_browser else (0, LIFE_MS)
    replay = await store.begin(app_id, token, _digest(request), most=most)
    if replay.state == "done":
        return Reply(replay.status, replay.reply, (*replay.headers, REPLAYED))
    if replay.state == "full":
        raise TooMany(TOO_MANY_KEYS, retry_after_s=60)
    if replay.state == "other":
        raise Unprocessable(OTHER_BODY)
    if replay.state == "flying":
        raise Conflict(IN_FLIGHT)
    settled = False
    try:
        try:
            reply = await answer()
        except KioskError as error:
            reply = refused(error)
        if reply.status in _FINAL:
            settled = True
            # The write is done; if the store has become unavailable since, the request must not fail.
            with contextlib.suppress(KioskError):
                await store.finish(
                    app_id,
                    token,
                    reply.status,
                    reply.body,
                    user_keys(),
                    life_ms=life_ms,
                    headers=reply.headers,
                )
        return reply
    # Also after a cancellation or an internal error: otherwise retries would get 409 until the lock expires.
    finally:
        if not settled:
            with contextlib.suppress(KioskError):
                await store.delete(app_id, token)


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        # With the lengths: "ab", "c" and "a", "bc" must have different digests.
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
