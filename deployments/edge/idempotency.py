"""`Idempotency-Key`: a write that is sent twice happens once (decision I8).

Costs nothing when the header is absent. The same key with the same request repeats the first answer for 24
hours, with another request it is 422, and while the first is still running 409.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Sequence

from cluster.errors import Conflict, HouseError, Unprocessable
from cluster.store.ports import IdempotencyStore
from deployments.edge.envelope import Reply

HEADER = b"idempotency-key"
REPLAYED = (b"idempotency-replayed", b"true")

OTHER_BODY = "The Idempotency-Key was already used with another request."
IN_FLIGHT = "A request with this Idempotency-Key is still running."
NOT_A_KEY = "The Idempotency-Key must be 1 to 255 visible characters."

_FINAL = frozenset({200, 400, 404, 413, 422})
"Statuses that would come again for the same request; everything else is forgotten, so that a retry may succeed."


async def once(
    store: IdempotencyStore,
    app_id: str,
    key: bytes,
    request: tuple[bytes, ...],
    answer: Callable[[], Awaitable[Reply]],
    refused: Callable[[HouseError], Reply],
    readers: Callable[[], Sequence[str]] = tuple,
) -> Reply:
    """Run `answer` unless the same request was answered before.

    `request` is what makes two requests the same: method, path, query, body. `refused` turns an expected
    error of `answer` into its reply, because a refusal is an answer to repeat as well. `readers` names whom the
    answer is about, once it is there: with them it is erased.

    Errors:
        Unprocessable: another request used the key, or it is not a key
        Conflict: the first request is still running
    """
    if not 0 < len(key) <= 255 or any(not 32 < byte < 127 for byte in key):
        raise Unprocessable(NOT_A_KEY)
    token = hashlib.sha256(key).hexdigest()
    digest = hashlib.sha256()
    for part in request:
        digest.update(len(part).to_bytes(8, "big") + part)
    replay = await store.begin(app_id, token, digest.hexdigest())
    if replay.state == "done":
        return Reply(replay.status, replay.reply, (REPLAYED,))
    if replay.state == "other":
        raise Unprocessable(OTHER_BODY)
    if replay.state == "flying":
        raise Conflict(IN_FLIGHT)
    settled = False
    try:
        try:
            reply = await answer()
        except HouseError as error:
            reply = refused(error)
        if reply.status in _FINAL:
            settled = True
            # The write has happened; a store that went away since must not turn it into a failure.
            with contextlib.suppress(HouseError):
                await store.finish(app_id, token, reply.status, reply.body, readers())
        return reply
    finally:
        if not settled:
            with contextlib.suppress(HouseError):
                await store.forget(app_id, token)
