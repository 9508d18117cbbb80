"""Checks of passwords: off the event loop, one at a time, with a bounded queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request

from cluster.errors import TooMany
from cluster.records.account import Account, check_password
from cluster.store.administration.accounts import AccountStore

MOST_WAITING = 16
"Maximum password checks that wait in one replica; the replica runs one at a time."
MOST_WAITING_OF_ADDRESS = 3
"Maximum waiting password checks of one address."


class PasswordChecks:
    """Checks passwords in a thread, one at a time, so that a flood of attempts costs one core.

    Browsers in which an account signed in before have a queue of their own.
    """

    def __init__(self, accounts: AccountStore) -> None:
        self._accounts = accounts
        self._strangers = _BoundedQueue(MOST_WAITING_OF_ADDRESS)
        self._with_device = _BoundedQueue(MOST_WAITING)

    async def account(
        self, username: str, password: str, address: str, *, has_device: bool = False
    ) -> Account | None:
        """Check a name and a password; unknown names take the same time."""
        account = await self._accounts.get(username)
        # Without a stored password the check still takes its time, or it would tell which names exist.
        kept = account.password if account is not None and not account.disabled else None
        async with (self._with_device if has_device else self._strangers).turn(address):
            right = await asyncio.to_thread(check_password, password, kept)
        return account if right else None


class _BoundedQueue:
    """A queue with a bounded number of waiting callers, in all and per address."""

    def __init__(self, most_of_address: int) -> None:
        self._most_of_address = most_of_address
        self._turn = asyncio.Semaphore(1)
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        if self._waiting.total() >= MOST_WAITING or self._waiting[address] >= self._most_of_address:
            raise TooMany("too many sign-ins at once", retry_after_s=5)
        self._waiting[address] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting[address] -= 1
            # Drop addresses at zero, so that the counter stays as small as the queue.
            self._waiting += Counter()


def is_same_origin_form(request: Request, server_origin: str) -> bool:
    """Return whether a form comes from one of our pages, as far as the browser states it.

    A page without a referrer posts with `Origin: null`, which proves nothing. In this case the cookie and the form's
    signature decide.
    """
    origin = request.headers.get("origin", "null")
    # Older browsers send no such header; for them `Origin`, the cookie and the signature decide.
    site = request.headers.get("sec-fetch-site", "same-origin")
    return origin in ("null", server_origin) and site in ("same-origin", "none")
