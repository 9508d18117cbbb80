"""The published keys of agents: fetched once under the rules for unknown hosts, and kept as long as their host says.

A failed fetch is repeated after a minute and takes no keys away; a directory without a key does. Keys belong to the
address that published them, never to their id alone.

Source: draft-ietf-webbotauth-httpsig-protocol-01, key distribution and discovery failure
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
import structlog

from cluster.addresses.ssrf_guard import find_address_fault, find_host
from cluster.clock import Clock
from cluster.external_fetcher import DocumentError, ExternalFetcher, TooManyFetches
from deployments.archive.signatures.message_signatures import DIRECTORY_PATH, decode_key, thumbprint
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets

MOST_CACHED = 256
"Directories in the memory of one process; the one used longest ago goes first."
MOST_KEYS = 50
"Keys of a directory that are read."
RETRY_S = 60.0
"Seconds between fetches of a directory that can't be had, or that lacks a key."
STALE_S = 86_400.0
"Seconds for which keys stay in use although their directory can't be had any more."
FETCHES = BucketRate(0.2, 20)
"Fetches on behalf of one account."
TEST_KEYS = frozenset({"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"})
"The key of RFC 9421, whose private half everybody has."

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where the keys of an agent are, and what the agent is called."""

    directory: str
    "Address of the key set."
    name: str
    "The host of the agent; for a key set at any other address, that address without scheme and query."


@dataclass(slots=True)
class _CachedKeys:
    keys: Mapping[str, bytes]
    fetched_s: float
    "Monotonic seconds of the last fetch, also of a failed one."
    ends_s: float
    stale_s: float


def read_agent_address(address: str) -> AgentAddress | None:
    """Return where the keys of an agent are; None if nothing may be fetched from its address.

    An origin stands for its well-known directory. Any other address is that of a key set itself.
    """
    origin = address[:-1] if address.count("/") == 3 and address.endswith("/") else address
    is_origin = origin.count("/") == 2
    directory = origin + DIRECTORY_PATH if is_origin else address
    if find_address_fault(directory):
        return None
    host = find_host(directory).lower()
    path = urlsplit(directory).path
    return AgentAddress(directory, host if path == DIRECTORY_PATH else host + path)


def read_key_set(body: bytes) -> dict[str, bytes]:
    """Return the usable keys of a directory by their ids: public keys of Ed25519, without known test keys."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    given = document.get("keys") if isinstance(document, dict) else None
    keys: dict[str, bytes] = {}
    for each in given[:MOST_KEYS] if isinstance(given, list) else ():
        if not isinstance(each, dict) or (each.get("kty"), each.get("crv")) != ("OKP", "Ed25519"):
            continue
        key = decode_key(each.get("x"))
        # A key whose private half is published proves nothing.
        if key is not None and "d" not in each and each.get("use", "sig") == "sig":
            keys[thumbprint(key)] = key
    return {key_id: key for key_id, key in keys.items() if key_id not in TEST_KEYS}


class KeyDirectories:
    """Finds keys of agents by directory and id."""

    def __init__(self, clock: Clock, documents: ExternalFetcher | None = None) -> None:
        self._clock = clock
        self._documents = documents or ExternalFetcher()
        self._limits = TokenBuckets(clock)
        self._cached: OrderedDict[str, _CachedKeys] = OrderedDict()
        self._fetching: dict[str, asyncio.Task[None]] = {}

    async def find(
        self, directory: str, key_id: str, *, user_id: str, may_be_loopback: bool = False
    ) -> bytes | None:
        """Return a public key; None if it can't be had. `user_id` is the account on whose behalf a fetch happens.

        Cost: 1 microsecond for a key in memory.
        """
        now_s = self._clock.monotonic_s()
        cached = self._cached.get(directory)
        has_key = cached is not None and key_id in cached.keys
        # An agent may have added the key meanwhile, so a missing one does not wait for the end of the
        # directory's life.
        is_due = cached is None or not has_key or now_s >= cached.ends_s
        if is_due and (cached is None or now_s >= cached.fetched_s + RETRY_S):
            await self._refresh(directory, user_id, may_be_loopback)
            cached = self._cached.get(directory)
        if cached is None or self._clock.monotonic_s() >= cached.stale_s:
            return None
        self._cached.move_to_end(directory)
        return cached.keys.get(key_id)

    async def _refresh(self, directory: str, user_id: str, may_be_loopback: bool) -> None:
        """Fetch a directory once for all requests that wait for it."""
        task = self._fetching.get(directory)
        if task is None:
            # Requests that wait for a running fetch do not count.
            if self._limits.wait_s("directory", user_id, FETCHES):
                return
            task = asyncio.create_task(self._fetch(directory, user_id, may_be_loopback))
            self._fetching[directory] = task
            # Also after a failure, or no later request could fetch this directory again.
            task.add_done_callback(lambda _: self._fetching.pop(directory, None))
        # A client that goes away must not end the fetch of the others.
        await asyncio.shield(task)

    async def _fetch(self, directory: str, user_id: str, may_be_loopback: bool) -> None:
        before = self._cached.get(directory)
        try:
            document = await self._documents.fetch(directory, person=user_id, may_be_loopback=may_be_loopback)
        except TooManyFetches:
            # Nothing is known of its host: with slow hosts of their own, others could keep an agent unverified.
            return
        except DocumentError as error:
            _log.info("agent_keys_not_fetched", host=find_host(directory)[:253], reason=error.reason)
            now_s = self._clock.monotonic_s()
            # The known keys stay; without any, the failure itself is kept until the next try.
            keys, stale_s = ({}, now_s + RETRY_S) if before is None else (before.keys, before.stale_s)
            self._put(directory, _CachedKeys(keys, now_s, now_s + RETRY_S, stale_s))
            return
        now_s = self._clock.monotonic_s()
        ends_s = now_s + document.life_s
        self._put(directory, _CachedKeys(read_key_set(document.body), now_s, ends_s, ends_s + STALE_S))

    def _put(self, directory: str, cached: _CachedKeys) -> None:
        self._cached[directory] = cached
        self._cached.move_to_end(directory)
        if len(self._cached) > MOST_CACHED:
            self._cached.popitem(last=False)
