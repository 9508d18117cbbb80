"""Authorization codes and grants.

    code   --redeem-->  grant  --rotate-->  grant  --rotate--> ...
      |                   |
      `--burn             `--revoke-->  revoked (two hours) + version, which every API replica polls

One script takes each decision (is the code unused, is the refresh token the current one), so of many concurrent
requests exactly one succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

import structlog

from cluster.records.account import Code, Grant
from cluster.records.archive.archive_client import revocation_id, short_id, tier_revocation_id
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.seals.record_seal import parse_record, seal_record
from cluster.store.seals.seal import salt_from_key, unseal

CODE_LIFE_MS = 10 * 60_000
"A code is stored this long, so that a replay is detected; its validity is a field of it."
GRANT_LIFE_MS = 30 * 24 * 3_600_000
REVOKED_LIFE_MS = 2 * 3_600_000
MOST_GRANTS = 100
"Grants one account can have at a time; a new one replaces the least recently used."
MOST_SIBLINGS = 16
"Refresh tokens one rotation accepts: the number of concurrent refreshes."

_BATCH_SIZE = 200

_PUT_CODE = Script.load("put_code")
_REDEEM = Script.load("redeem_code")
_BURN = Script.load("burn_code")
_ROTATE = Script.load("rotate_grant")
_REVOKE = Script.load("revoke_grant")
_READ_REVOKED = Script.load("read_revoked")

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Revocations:
    """Grants, and clients with all their grants, that ended within the lifetime of an access token."""

    version: int
    grant_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActiveGrant:
    """A grant in use, and the time of its last refresh."""

    grant: Grant
    used_at: int


RedeemOutcome = Literal["begun", "used", "gone"]
"""The result of redeeming a code: a new grant; a replay, whose first grant is now revoked; or no such code,
also when its owner was locked out since."""

RotateOutcome = Literal["rotated", "crowded", "stolen", "gone"]
"""The result of a refresh: done; too many within the grace period; reuse of an old token, which revokes the
grant; or no such grant."""


class GrantStore:
    """Codes and grants. Every step is atomic; the caller passes the times."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def put_code(self, sha256: str, code: Code) -> None:
        key = keys.oauth_code(sha256)
        await self._server.run(_PUT_CODE, [key], [seal_record(code, key, "code"), CODE_LIFE_MS])

    async def code(self, sha256: str) -> Code | None:
        """Return a code, used or not; deleted after ten minutes."""
        key = keys.oauth_code(sha256)
        sealed = await self._server.execute_slow("HGET", key, "code")
        body = _unsealed(sealed, key, "code")
        return None if body is None else parse_record(Code, body)

    async def redeem(self, sha256: str, grant: Grant, refresh_sha256: str, *, now_ms: int) -> RedeemOutcome:
        """Exchange an unused code for a grant with its first refresh token, and return the result."""
        code = await self.code(sha256)
        if code is None:
            return "gone"
        key = keys.oauth_grant(grant.grant_id)
        names = [
            keys.oauth_code(sha256),
            key,
            keys.oauth_grants(grant.user_id),
            keys.oauth_revoked(),
            keys.oauth_client_grants(short_id(grant.client_id)),
        ]
        became, over = await self._server.run(
            _REDEEM,
            names,
            [
                seal_record(grant, key, "grant"),
                refresh_sha256,
                now_ms,
                GRANT_LIFE_MS,
                grant.grant_id,
                f"user:{grant.user_id}",
                code.created_at,
                MOST_GRANTS,
            ],
        )
        for grant_id in over:
            await self.revoke(text_of(grant_id), now_ms=now_ms)
        # A code that comes twice may be stolen, so what its first use gave ends too (RFC 6749, 4.1.2).
        if became == b"used":
            await self.revoke(code.grant_id, now_ms=now_ms)
        return cast("RedeemOutcome", text_of(became))

    async def burn(self, sha256: str, *, now_ms: int) -> None:
        """Use a code up without a grant; if the code was used before, revoke the grant it produced."""
        code = await self.code(sha256)
        if code is None:
            return
        # A script: of a burn and an exchange at once, exactly one is first, and the code may expire meanwhile.
        if await self._server.run(_BURN, [keys.oauth_code(sha256)], []):
            await self.revoke(code.grant_id, now_ms=now_ms)

    async def take_assertion(self, sha256: str, *, life_ms: int) -> bool:
        """Record an assertion of a client for as long as it is valid; return False if it was used before."""
        # NX: a second use of the same assertion is a replay.
        first = await self._server.execute_slow("SET", keys.oauth_assertion(sha256), "1", "NX", "PX", life_ms)
        return first is not None

    async def grant(self, grant_id: str) -> Grant | None:
        key = keys.oauth_grant(grant_id)
        body = _unsealed(await self._server.execute_slow("HGET", key, "grant"), key, "grant")
        return None if body is None else parse_record(Grant, body)

    async def rotate(
        self, grant_id: str, presented_sha256: str, next_sha256: str, *, now_ms: int, grace_ms: int
    ) -> RotateOutcome:
        """Exchange a refresh token for the next one, and return the result.

        A token of the previous rotation stays valid for `grace_ms`, as long as none of its successors was used.
        """
        grant = await self.grant(grant_id)
        if grant is None:
            return "gone"
        became = await self._server.run(
            _ROTATE,
            [
                keys.oauth_grant(grant_id),
                keys.oauth_grants(grant.user_id),
                keys.oauth_client_grants(short_id(grant.client_id)),
            ],
            [presented_sha256, next_sha256, now_ms, grace_ms, GRANT_LIFE_MS, grant_id, MOST_SIBLINGS],
        )
        # An old token was shown again: one of two holders is not the client, and nobody knows which.
        if became == b"stolen":
            await self.revoke(grant_id, now_ms=now_ms)
        return cast("RotateOutcome", text_of(became))

    async def revoke(self, grant_id: str, *, now_ms: int) -> bool:
        """End a grant; return False when there was none."""
        grant = await self.grant(grant_id)
        user_id, client = ("", "") if grant is None else (grant.user_id, short_id(grant.client_id))
        names = [
            keys.oauth_grant(grant_id),
            keys.oauth_grants(user_id),
            keys.oauth_revoked(),
            keys.oauth_version(),
            keys.oauth_client_grants(client),
        ]
        # Marks live as long as an access token may; older ones protect from nothing.
        gone = await self._server.run(_REVOKE, names, [grant_id, now_ms, now_ms - REVOKED_LIFE_MS])
        return bool(gone)

    async def revoke_user(self, user_id: str, *, now_ms: int) -> int:
        """End all grants of an account, and its pending codes; return the number of grants."""
        # First the mark, which stops pending codes, then the existing grants.
        await self._server.execute_slow("ZADD", keys.oauth_revoked(), now_ms, f"user:{user_id}")
        names = await self._server.execute_slow("ZRANGE", keys.oauth_grants(user_id), 0, -1)
        ended = [await self.revoke(text_of(name), now_ms=now_ms) for name in names]
        return sum(ended)

    async def revoke_tiers(self, user_id: str, tier_epochs: Iterable[int], *, now_ms: int) -> None:
        """End the access tokens of an account that were issued in some epochs of its tiers; its grants stay."""
        for epoch in tier_epochs:
            # The version is raised last: an API replica that sees it must find all marks.
            mark = tier_revocation_id(user_id, epoch)
            await self._server.execute_slow("ZADD", keys.oauth_revoked(), now_ms, mark)
        old_ms = now_ms - REVOKED_LIFE_MS
        await self._server.execute_slow("ZREMRANGEBYSCORE", keys.oauth_revoked(), "-inf", old_ms)
        await self._server.execute_slow("INCR", keys.oauth_version())

    async def revoke_client(self, client_id: str, *, now_ms: int) -> int:
        """End all grants of a client and, at once, its access tokens; return the number of grants."""
        # The mark alone ends every access token of the client; the rest is cleanup.
        await self._server.execute_slow("ZADD", keys.oauth_revoked(), now_ms, revocation_id(client_id))
        old_ms = now_ms - REVOKED_LIFE_MS
        await self._server.execute_slow("ZREMRANGEBYSCORE", keys.oauth_revoked(), "-inf", old_ms)
        await self._server.execute_slow("INCR", keys.oauth_version())
        key = keys.oauth_client_grants(short_id(client_id))
        ended = 0
        while names := await self._server.execute_slow("ZRANGE", key, 0, _BATCH_SIZE - 1):
            ended += sum([await self.revoke(text_of(name), now_ms=now_ms) for name in names])
            # Also those that expired: `revoke` leaves their names here, and the loop would never end.
            await self._server.execute_slow("ZREM", key, *names)
        return ended

    async def of_user(self, user_id: str) -> list[ActiveGrant]:
        """Return the grants of an account, the last used first."""
        flat = await self._server.execute_slow("ZREVRANGE", keys.oauth_grants(user_id), 0, -1, "WITHSCORES")
        grants = []
        for name, used_at in split_pairs(flat):
            grant = await self.grant(text_of(name))
            if grant is not None:
                grants.append(ActiveGrant(grant, int(float(used_at))))
        return grants

    async def version(self) -> int:
        """Return the counter that every revocation increments."""
        return int(await self._server.execute("GET", keys.oauth_version()) or 0)

    async def revocations(self) -> Revocations:
        version, names = await self._server.run(
            _READ_REVOKED, [keys.oauth_version(), keys.oauth_revoked()], []
        )
        return Revocations(int(version), frozenset(text_of(name) for name in names))


def _unsealed(sealed: bytes | None, key: str, field: str) -> bytes | None:
    """Unseal a record; a broken one reads as absent, so its owner must sign in again."""
    if sealed is None:
        return None
    body = unseal(sealed, salt_from_key(key, field))
    if body is None:
        _log.error("record_broken", noun=field)
    return body
