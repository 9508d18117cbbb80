"""Accounts, authorization codes and grants over Redis.

    code   --redeem-->  grant  --rotate-->  grant  --rotate--> ...
      |                   |
      `--burn             `--revoke-->  revoked (two hours) + version, which every API replica polls

One script takes each decision (is the code unused, is the refresh token the current one), so of many concurrent
requests exactly one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import structlog

from cluster.errors import Unavailable
from cluster.records.account import Account, Code, Grant
from cluster.records.archive_client import revocation_id, short_id
from cluster.store import keys
from cluster.store.ports.accounts import ActiveGrant, RedeemOutcome, Revocations, RotateOutcome
from cluster.store.redis.client import RedisClient
from cluster.store.redis.multiplexer import name_of, text_of
from cluster.store.redis.quarantine import Quarantine
from cluster.store.redis.record_seal import SealedRecords, parse_record, seal_record, with_unknown_fields
from cluster.store.redis.script import Script
from cluster.store.redis.seal import salt_from_key, unseal

CODE_LIFE_MS = 10 * 60_000
"A code is stored this long, so that a replay is detected; its validity is a field of it."
GRANT_LIFE_MS = 30 * 24 * 3_600_000
REVOKED_LIFE_MS = 2 * 3_600_000
MOST_GRANTS = 100
"Grants one account can have at a time; a new one replaces the least recently used."
MOST_SIBLINGS = 16
"Refresh tokens one rotation accepts: the number of concurrent refreshes."

_BATCH_SIZE = 200
_TRIES = 10

_SWAP = Script.load("swap_account")
_PUT_CODE = Script.load("put_code")
_REDEEM = Script.load("redeem_code")
_ROTATE = Script.load("rotate_grant")
_REVOKE = Script.load("revoke_grant")
_READ_REVOKED = Script.load("read_revoked")

_log = structlog.get_logger()


class RedisAccounts:
    """`AccountStore` over Redis."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)

    async def get(self, username: str) -> Account | None:
        sealed = await self._server.execute_slow("HGET", keys.account(), username)
        key = keys.account()
        return None if sealed is None else await self._records.get(Account, "", key, username, sealed)

    async def all(self) -> list[Account]:
        flat = await self._server.execute_slow("HGETALL", keys.account())
        named = sorted(zip(flat[::2], flat[1::2], strict=True))
        key = keys.account()
        accounts = [
            await self._records.open(Account, "", key, name_of(name), sealed) for name, sealed in named
        ]
        return [account for account in accounts if account is not None]

    async def add(self, account: Account) -> bool:
        sealed = seal_record(account, keys.account(), account.username)
        return bool(await self._server.execute_slow("HSETNX", keys.account(), account.username, sealed))

    async def put(self, account: Account) -> None:
        key, username = keys.account(), account.username
        stored: bytes | None = await self._server.execute_slow("HGET", key, username)
        account = await self._records.replacing(account, "", key, username, stored)
        await self._server.execute_slow("HSET", key, username, seal_record(account, key, username))

    async def update(self, username: str, change: Callable[[Account], Account]) -> Account | None:
        key = keys.account()
        for _ in range(_TRIES):
            stored: bytes | None = await self._server.execute_slow("HGET", key, username)
            before = None if stored is None else await self._records.get(Account, "", key, username, stored)
            if stored is None or before is None:
                return None
            after = with_unknown_fields(change(before), before)
            if await self._server.run(_SWAP, [key], [username, stored, seal_record(after, key, username)]):
                return after
        raise Unavailable("this account is being changed by many at once", retry_after_s=1)

    async def session_mark(self, user_id: str) -> str:
        mark = await self._server.execute_slow("HGET", keys.account_sessions(), user_id)
        return "" if mark is None else mark.decode("ascii", "replace")

    async def end_sessions(self, user_id: str, mark: str) -> None:
        await self._server.execute_slow("HSET", keys.account_sessions(), user_id, mark)

    async def remove(self, account: Account) -> bool:
        gone = bool(await self._server.execute_slow("HDEL", keys.account(), account.username))
        await self._server.execute_slow("HDEL", keys.account_sessions(), account.user_id)
        for entry_id, flat in await self._server.execute_slow("XRANGE", keys.account_quarantine(), "-", "+"):
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            if name_of(fields.get(b"id", b"")) == account.username:
                await self._server.execute_slow("XDEL", keys.account_quarantine(), entry_id)
        return gone


class RedisGrants:
    """`GrantStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def put_code(self, sha256: str, code: Code) -> None:
        key = keys.oauth_code(sha256)
        await self._server.run(_PUT_CODE, [key], [seal_record(code, key, "code"), CODE_LIFE_MS])

    async def code(self, sha256: str) -> Code | None:
        key = keys.oauth_code(sha256)
        sealed = await self._server.execute_slow("HGET", key, "code")
        body = _unsealed(sealed, key, "code")
        return None if body is None else parse_record(Code, body)

    async def redeem(self, sha256: str, grant: Grant, refresh_sha256: str, *, now_ms: int) -> RedeemOutcome:
        code = await self.code(sha256)
        if code is None:
            return "gone"
        key = keys.oauth_grant(grant.grant_id)
        names = [
            keys.oauth_code(sha256), key, keys.oauth_grants(grant.user_id), keys.oauth_revoked(),
            keys.oauth_client_grants(short_id(grant.client_id)),
        ]  # fmt: skip
        became, over = await self._server.run(
            _REDEEM,
            names,
            [
                seal_record(grant, key, "grant"), refresh_sha256, now_ms, GRANT_LIFE_MS, grant.grant_id,
                f"user:{grant.user_id}", code.created_at, MOST_GRANTS,
            ],
        )  # fmt: skip
        for grant_id in over:
            await self.revoke(text_of(grant_id), now_ms=now_ms)
        if became == b"used":
            await self.revoke(code.grant_id, now_ms=now_ms)
        return cast("RedeemOutcome", text_of(became))

    async def burn(self, sha256: str, *, now_ms: int) -> None:
        code = await self.code(sha256)
        if code is None:
            return
        first = await self._server.execute_slow("HSETNX", keys.oauth_code(sha256), "used", "1")
        if not first:
            await self.revoke(code.grant_id, now_ms=now_ms)

    async def grant(self, grant_id: str) -> Grant | None:
        key = keys.oauth_grant(grant_id)
        body = _unsealed(await self._server.execute_slow("HGET", key, "grant"), key, "grant")
        return None if body is None else parse_record(Grant, body)

    async def rotate(
        self, grant_id: str, presented_sha256: str, next_sha256: str, *, now_ms: int, grace_ms: int
    ) -> RotateOutcome:
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
        if became == b"stolen":
            await self.revoke(grant_id, now_ms=now_ms)
        return cast("RotateOutcome", text_of(became))

    async def revoke(self, grant_id: str, *, now_ms: int) -> bool:
        grant = await self.grant(grant_id)
        user_id, client = ("", "") if grant is None else (grant.user_id, short_id(grant.client_id))
        names = [
            keys.oauth_grant(grant_id), keys.oauth_grants(user_id), keys.oauth_revoked(), keys.oauth_version(),
            keys.oauth_client_grants(client),
        ]  # fmt: skip
        gone = await self._server.run(_REVOKE, names, [grant_id, now_ms, now_ms - REVOKED_LIFE_MS])
        return bool(gone)

    async def revoke_user(self, user_id: str, *, now_ms: int) -> int:
        # First the mark, which stops pending codes, then the existing grants.
        await self._server.execute_slow("ZADD", keys.oauth_revoked(), now_ms, f"user:{user_id}")
        names = await self._server.execute_slow("ZRANGE", keys.oauth_grants(user_id), 0, -1)
        ended = [await self.revoke(text_of(name), now_ms=now_ms) for name in names]
        return sum(ended)

    async def revoke_client(self, client_id: str, *, now_ms: int) -> int:
        # The mark alone ends every access token of the client; the rest is cleanup.
        await self._server.execute_slow("ZADD", keys.oauth_revoked(), now_ms, revocation_id(client_id))
        old_ms = now_ms - REVOKED_LIFE_MS
        await self._server.execute_slow("ZREMRANGEBYSCORE", keys.oauth_revoked(), "-inf", old_ms)
        await self._server.execute_slow("INCR", keys.oauth_version())
        key, ended = keys.oauth_client_grants(short_id(client_id)), 0
        while names := await self._server.execute_slow("ZRANGE", key, 0, _BATCH_SIZE - 1):
            ended += sum([await self.revoke(text_of(name), now_ms=now_ms) for name in names])
            await self._server.execute_slow("ZREM", key, *names)
        return ended

    async def of_user(self, user_id: str) -> list[ActiveGrant]:
        flat = await self._server.execute_slow("ZREVRANGE", keys.oauth_grants(user_id), 0, -1, "WITHSCORES")
        found = []
        for name, used_at in zip(flat[::2], flat[1::2], strict=True):
            grant = await self.grant(text_of(name))
            if grant is not None:
                found.append(ActiveGrant(grant, int(float(used_at))))
        return found

    async def version(self) -> int:
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
