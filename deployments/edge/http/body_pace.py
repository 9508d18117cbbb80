"""How fast clients have to send bodies, and how many send files at once, so that slow ones hold little for long."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

from cluster.errors import TooMany
from deployments.edge.http.request import Deadline, Message, Receive, read_body

MOST_UPLOADS = 8
MOST_UPLOADS_EACH = 2


@dataclass(frozen=True, slots=True)
class BodyPace:
    """A body has to arrive within `within_s` seconds, and one second more for every `bytes_per_s` bytes of it.

    Only the time counts in which the server waits for the client.
    """

    within_s: float
    bytes_per_s: float = math.inf

    def bound(self, receive: Receive) -> Receive:
        """Return a `receive` of one body that refuses a client which is too slow.

        Errors:
            DeadlineExceeded: the body did not arrive in time
        """
        waited_s = 0.0
        taken = 0
        now_s = asyncio.get_running_loop().time

        async def receive_in_time() -> Message:
            nonlocal waited_s, taken
            # Only waiting counts: what this process does between two parts is not the client's time.
            begun_s = now_s()
            with Deadline(max(0.0, self.within_s + taken / self.bytes_per_s - waited_s)):
                message = await receive()
            waited_s += now_s() - begun_s
            taken += len(message.get("body", b""))
            return message

        return receive_in_time

    async def read(self, request: Request, most_bytes: int) -> bytes:
        """Read and return the whole body of a request.

        Errors:
            DeadlineExceeded: the body did not arrive in time
            TooLarge, Malformed, ClientDisconnected: as `read_body`
        """
        length = request.headers.get("content-length")
        encoding = request.headers.get("content-encoding")
        return await read_body(
            self.bound(request.receive),
            announced=None if length is None else length.encode("latin-1"),
            encoding=None if encoding is None else encoding.encode("latin-1"),
            most_bytes=most_bytes,
        )


SMALL_BODY = BodyPace(2.0)
"Forms of a sign-in, and other bodies of at most 20 kB that anybody may send."
FORM = BodyPace(2.0, 32 << 10)
"Forms and JSON of people who are signed in."
FILE = BodyPace(10.0, 32 << 10)


class UploadSlots:
    """Bounds the files that are received at once: of a process, and of one account."""

    def __init__(self, most: int = MOST_UPLOADS, most_each: int = MOST_UPLOADS_EACH) -> None:
        self._most = most
        self._most_each = most_each
        self._open: Counter[str] = Counter()

    @contextmanager
    def take(self, user_id: str) -> Iterator[None]:
        """Hold a place while a file of an account is received.

        Errors:
            TooMany: all places are taken
        """
        if self._open[user_id] >= self._most_each or self._open.total() >= self._most:
            raise TooMany("too many files are being uploaded at once; try again later", retry_after_s=10)
        self._open[user_id] += 1
        try:
            yield
        finally:
            self._open[user_id] -= 1
            # The counter would otherwise have an entry for each account for ever.
            if not self._open[user_id]:
                del self._open[user_id]
