"""Interactions: one change-log entry for each call, and the recent lists of the users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from cluster.clock import Clock
from cluster.errors import TooMany, Unavailable, messages
from cluster.ids import user_key_from_anonymous_id, user_key_from_id
from cluster.records.erasure import RemovedRecords
from cluster.records.logged_query import pseudonym
from cluster.store import keys
from cluster.store.archive.threads import erase_threads
from cluster.store.archive.user_questions import erase_questions
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.data.append_plan import (
    MANY,
    AppendPlan,
    BrowserWriteLimits,
    Recent,
    RenewedLists,
    merge_recent,
)
from cluster.store.data.salts import Salts
from cluster.store.engines.experiments import erase_exposures
from cluster.store.seals.seal import salt_from_key, seal

TRIES = 64
"""Retries of a step whose links changed between read and write. Of concurrent writers to one visitor one
succeeds in each attempt, so this is the number of concurrent writers."""

DELETED_MS = 30 * 86_400_000
"How long deleted users and products are remembered by keyed hashes, for ingests that continue."
MOST_DELETED = 100_000
TOO_MUCH_S = 30
"When browsers that exceeded this minute's bytes may retry."
_PAGE = 1_000
_APPEND = Script.load("append_interactions")
_APPEND_BROWSER = Script.load("append_browser")
_ERASE = Script.load("erase_interactions")
_SALT = salt_from_key("interaction")


class InteractionStore:
    """Interactions: API replicas append them and read them back as a user's recent list."""

    def __init__(self, server: RedisClient, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._salts = Salts(server)
        self._renewals = RenewedLists(clock)

    async def append(
        self, app_id: str, payload: bytes, recents: Sequence[Recent], writer: BrowserWriteLimits | None = None
    ) -> str:
        """Append one change-log entry and push to recent lists in one step; return the offset.

        `recents` are (user_id or "", anonymous_id or "", packed) per interaction that belongs in a recent
        list, oldest first. Both ids link the visitor to the user: the visitor's interactions so far are copied to
        the user's list, and later ones go to both lists. A visitor who was linked to another user moves
        to the new user and starts an empty list; nothing is copied then. Empty bytes as `packed` only link.

        With a `writer`, the limits of a publishable key apply: see `append_plan`.

        Errors:
            Unavailable: links between visitors and users change too fast
            TooMany: browsers wrote too many bytes in this minute; nothing is written
        """
        sealed = seal(payload, _SALT)
        believed: dict[str, str] = {}
        script = _APPEND if writer is None else _APPEND_BROWSER
        many = len(recents) >= MANY and writer is None
        for _ in range(TRIES):
            renewed = self._renewals.lately() if many else frozenset[str]()
            plan = AppendPlan(app_id, sealed, recents, believed, renewed, writer)
            verdict, *facts = await self._server.run(script, plan.keys, plan.args)
            if verdict < 0:
                raise TooMany(messages.TOO_MANY, retry_after_s=TOO_MUCH_S)
            if verdict == 1:
                if many:
                    self._renewals.record(plan)
                return str(facts[0], "ascii")
            for visitor, user in split_pairs(facts):
                # The script wrote nothing and told the links that it met: the next plan starts from them.
                believed[name_of(visitor)] = name_of(user)
        raise Unavailable("links between visitors and users change too fast", retry_after_s=1)

    async def recent(self, app_id: str, user_keys: Sequence[str], limit: int = 200) -> list[bytes]:
        """Return the packed interactions of one or two prefixed ids (`u:`/`a:`), newest first, at most `limit` of
        each list. An interaction in both lists comes once."""
        if not user_keys:
            return []
        replies = [
            self._server.execute("LRANGE", keys.recent(app_id, user_key), 0, limit - 1)
            for user_key in user_keys
        ]
        lists: list[list[bytes]] = [await replies[0]] if len(replies) == 1 else await asyncio.gather(*replies)
        return merge_recent(lists)

    async def links(self, app_id: str, anonymous_ids: Sequence[str]) -> dict[str, str]:
        """Return the users that visitors were linked to; unlinked visitors are absent."""
        linked: dict[str, str] = {}
        # In pages: one command with all ids would hold Redis up.
        for start in range(0, len(anonymous_ids), _PAGE):
            page = anonymous_ids[start : start + _PAGE]
            users = await self._server.execute_slow("HMGET", keys.link(app_id), *page)
            linked |= {
                visitor: name_of(user) for visitor, user in zip(page, users, strict=True) if user is not None
            }
        return linked

    async def visitors(self, app_id: str, user_ids: Sequence[str], most: int) -> dict[str, list[str]]:
        """Return the visitors that are linked to each user, of a user with more than `most` only some; users without
        any are absent.
        """
        linked: dict[str, list[str]] = {}
        for start in range(0, len(user_ids), _PAGE):
            page = user_ids[start : start + _PAGE]
            replies = await asyncio.gather(
                *(
                    # SSCAN returns a part of a large set; SMEMBERS would return all of it.
                    # A small set in its compact encoding comes whole, whatever COUNT says.
                    self._server.execute_slow("SSCAN", keys.linked(app_id, user_id), 0, "COUNT", most)
                    for user_id in page
                )
            )
            linked |= {
                user_id: sorted(map(name_of, members))
                for user_id, (_, members) in zip(page, replies, strict=True)
                if members
            }
        return linked

    async def deleted_since(self, app_id: str, since_ms: int) -> RemovedRecords:
        """Return whose interactions were deleted from a time on, at most 30 days ago."""
        return await read_deleted(self._server, self._salts, app_id, keys.deleted_users(app_id), since_ms)

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> None:
        """Erase all interactions and variant assignments of users and of their linked visitors; append an `erase`
        change.

        Errors:
            Unavailable: links between visitors and users change too fast
        """
        users = list(dict.fromkeys(user_ids))
        if not users:
            return
        for _ in range(TRIES):
            visitors = await asyncio.gather(
                *(self._server.execute_slow("SMEMBERS", keys.linked(app_id, user_id)) for user_id in users)
            )
            names = [keys.change_log(app_id, "interaction"), keys.link(app_id), keys.deleted_users(app_id)]
            args: list[Argument] = []
            user_keys: list[str] = []
            for user_id, members in zip(users, visitors, strict=True):
                linked = sorted(name_of(member) for member in members)
                linked_keys = [
                    user_key_from_id(user_id),
                    *(user_key_from_anonymous_id(visitor) for visitor in linked),
                ]
                lists = [keys.recent(app_id, user_key) for user_key in linked_keys]
                names += (lists[0], keys.linked(app_id, user_id), *lists[1:])
                args += (len(linked), *linked)
                user_keys += linked_keys
            # Before the script: a crash in between leaves the links, by which the next try finds the visitors.
            await erase_threads(self._server, app_id, users)
            await erase_questions(self._server, app_id, list(dict.fromkeys(user_keys)))
            await erase_exposures(self._server, app_id, list(dict.fromkeys(user_keys)))
            payload = seal(orjson.dumps([_readable(key) for key in dict.fromkeys(user_keys)]), _SALT)
            salt = await self._salts.get(app_id)
            subjects = [pseudonym(salt, user_key) for user_key in dict.fromkeys(user_keys)]
            now_ms = self._clock.now_ms()
            kept: list[Argument] = [now_ms, now_ms - DELETED_MS, MOST_DELETED, len(subjects), *subjects]
            if await self._server.run(_ERASE, names, [payload, *kept, *args]):
                return
        raise Unavailable("links between visitors and users change too fast", retry_after_s=1)


async def read_deleted(
    server: RedisClient, salts: Salts, app_id: str, name: str, since_ms: int
) -> RemovedRecords:
    """Return the members of a set of deleted users or products from a time on."""
    names = await server.execute_slow("ZRANGEBYSCORE", name, since_ms, "+inf")
    return RemovedRecords(await salts.get(app_id), map(text_of, names))


def _readable(user_key: str) -> str:
    """Encode a prefixed user id as valid JSON text, even if it is damaged."""
    return user_key.encode("utf-8", "replace").decode()
