"""User tokens that ended before they expire, in the memory of each API replica.

A token can't contain that it ended. So a replica holds when the tokens of users ended, and compares it with `iat`. The
keyring polls a number for each app with the keys; entries are read when it changes, and no request reads the store.

An entry never expires by itself, because a token may live for ever. Above `MOST_ENDED` users of an app the oldest
entries become one time for all users: tokens issued until then have ended, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.errors import Unauthenticated, messages
from cluster.ids import user_key_from_id
from cluster.records.logged_query import pseudonym
from cluster.store.administration.apps_and_keys import ALL_USERS, AppAndKeyStore
from deployments.edge.http.credentials import UserToken

_OVERLAP_MS = 600_000
"By how much the clocks of two machines that end tokens may differ, in milliseconds."
_LEEWAY_MS = 300_000
"By how much the clock that wrote `iat` may be ahead, in milliseconds."


@dataclass(slots=True)
class _AppTimes:
    count: int
    salt: bytes
    times: dict[str, int]


class EndedTokenCache:
    """Follows the ended tokens of all apps."""

    def __init__(self, store: AppAndKeyStore) -> None:
        self._store = store
        self._apps: dict[str, _AppTimes] = {}

    async def refresh(self) -> None:
        """Read the entries of apps whose number changed.

        Errors:
            Unavailable: the store is unavailable; the entries read last stay valid
        """
        for app_id, count in (await self._store.ended_counts()).items():
            last = self._apps.get(app_id)
            if last is None or last.count != count:
                self._apps[app_id] = await self._read(app_id, count, last)

    async def _read(self, app_id: str, count: int, last: _AppTimes | None) -> _AppTimes:
        if last is not None and last.times:
            newest_ms = max(last.times.values())
            newer = await self._store.ended_tokens(app_id, newest_ms - _OVERLAP_MS)
            times = {**last.times, **newer.times}
            # Another size: entries were removed, or one is older than the overlap.
            if len(times) == newer.size:
                return _AppTimes(count, newer.salt, times)
        ended = await self._store.ended_tokens(app_id, 0)
        return _AppTimes(count, ended.salt, dict(ended.times))

    def check(self, app_id: str, token: UserToken, now_ms: int) -> None:
        """Check that a valid token has not ended.

        A user whose tokens ended needs tokens with `iat`: without it, nothing says that one is newer.

        Errors:
            Unauthenticated: it has ended
        Cost: a look-up for an app without ended tokens, else a keyed hash.
        """
        ended = self._apps.get(app_id)
        if ended is None or not token.user_id:
            return
        user_ms = ended.times.get(pseudonym(ended.salt, user_key_from_id(token.user_id)))
        all_ms = ended.times.get(ALL_USERS, 0)
        if user_ms is None and not all_ms:
            return
        issued = token.claims.get("iat")
        # `True` is an int in Python; some libraries write fractions of seconds.
        issued_ms = issued * 1_000 if isinstance(issued, int | float) and issued is not True else None
        if issued_ms is None:
            # A token without a time of issue ends with an entry of its user alone.
            is_valid = user_ms is None
        else:
            is_valid = max(user_ms or 0, all_ms) < issued_ms <= now_ms + _LEEWAY_MS
        if not is_valid:
            raise Unauthenticated(messages.TOKEN_ENDED)
