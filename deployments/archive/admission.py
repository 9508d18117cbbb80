"""Admission of archive clients: the publisher's rules, reread every second, and the clients' rate limits.

Replicas lease tokens from the shared bucket in the store. So all replicas together keep to one rate, and few calls
wait for the store. While the store is unavailable, every replica continues with its last lease.

`ArchiveCaller` is the account that signed in, and its client.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.errors import HouseError, Invalid, TooMany
from cluster.records.access_tier import SIGNED_IN
from cluster.records.archive_client import (
    DEFAULT_CALLS_PER_MINUTE,
    EVERYBODY,
    ClientRule,
    find_rule,
    fold_client_name,
)
from cluster.store.archive.archive_calls import ClientRuleStore
from cluster.store.installation.limits import LimitStore
from cluster.store.refreshing_cache import RefreshingCache


@dataclass(frozen=True, slots=True)
class ArchiveCaller:
    """The holder of a valid access token."""

    user_id: str
    "The account; it owns the search results, whichever client it uses."
    client_id: str
    client_name: str
    "The name that the client gave itself; never trusted."
    client_host: str = ""
    "Target of the client's redirect: a host, or the scheme of an application; empty in grants of earlier releases."
    tiers: frozenset[str] = SIGNED_IN
    "Tiers of articles that the account may read."


READ_EVERY_S = 0.5
NOT_ALLOWED = "This client is not allowed to use the archive; ask its publisher"
TOO_MANY = "Too many calls; try again in {seconds} s"
_BUCKET = "archive"
_RULES = "rules"
_LEASE_S = 0.2
_BURST_S = 5.0
_MOST_LEASED = 4096


@dataclass(slots=True)
class _CallBucket:
    tokens: float = 0.0
    refused_until_s: float = 0.0


class ClientAdmission:
    """Admits or refuses calls of clients."""

    def __init__(
        self, rules: ClientRuleStore, limits: LimitStore, find_app: Callable[[], str], clock: Clock
    ) -> None:
        self._store = rules
        self._limits = limits
        self._find_app = find_app
        self._clock = clock
        self._rules: Mapping[str, ClientRule] = {}
        self._leased: OrderedDict[str, _CallBucket] = OrderedDict()
        self._cache = RefreshingCache(self._load, clock)

    async def start(self) -> None:
        """Read the rules if the store answers, and start to follow their changes."""
        await self._cache.follow(_RULES, READ_EVERY_S, away_event="client_rules_kept")

    async def close(self) -> None:
        """Stop following the rules."""
        await self._cache.close()

    async def read(self) -> None:
        """Read the rules once.

        Errors:
            Unavailable: the store is unavailable; the rules read last stay valid
        """
        await self._cache.refresh(_RULES)

    async def _load(self, _key: str, _last: Mapping[str, ClientRule] | None) -> Mapping[str, ClientRule]:
        self._rules = await self._store.all(self._find_app())
        return self._rules

    def check(self, person: ArchiveCaller) -> ClientRule:
        """Return the rule for a user's client.

        Errors:
            Invalid: the client is not allowed
        """
        rule = find_rule(self._rules, person.client_id, person.client_name, person.client_host)
        if rule.decision == "deny":
            raise Invalid(NOT_ALLOWED)
        return rule

    async def spend(self, rule: ClientRule, person: ArchiveCaller) -> None:
        """Count one call of a tool.

        Errors:
            TooMany: with `retry_after_s`
        """
        per_minute, who = self._rate_of(rule, person)
        if not per_minute:
            return
        leased = self._bucket(who)
        if leased.tokens < 1:
            await self._refill(leased, who, per_minute / 60)
        leased.tokens -= 1

    def _rate_of(self, rule: ClientRule, person: ArchiveCaller) -> tuple[float, str]:
        if rule.client != EVERYBODY and rule.calls_per_minute is not None:
            return rule.calls_per_minute, f"client {fold_client_name(rule.client)}"
        everybody = self._rules.get(EVERYBODY)
        rate = everybody.calls_per_minute if everybody is not None else None
        return DEFAULT_CALLS_PER_MINUTE if rate is None else rate, f"person {person.user_id}"

    def _bucket(self, who: str) -> _CallBucket:
        leased = self._leased.pop(who, None) or _CallBucket()
        self._leased[who] = leased
        if len(self._leased) > _MOST_LEASED:
            self._leased.popitem(last=False)
        return leased

    async def _refill(self, leased: _CallBucket, who: str, rate: float) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < leased.refused_until_s:
            raise _too_many(leased.refused_until_s - now_s)
        burst = max(1, math.ceil(rate * _BURST_S))
        lease_size = max(1, math.ceil(rate * _LEASE_S))
        try:
            lease = await self._limits.take(
                self._find_app(), _shorten(who), _BUCKET,
                rate=rate, burst=burst, want=lease_size, now_ms=self._clock.now_ms(),
            )  # fmt: skip
        except HouseError:
            leased.tokens += lease_size
            return
        leased.tokens += lease.granted
        if leased.tokens < 1:
            leased.refused_until_s = now_s + max(lease.retry_after_ms, 1) / 1000
            raise _too_many(lease.retry_after_ms / 1000)


def _too_many(wait_s: float) -> TooMany:
    seconds = max(1, math.ceil(wait_s))
    return TooMany(TOO_MANY.format(seconds=seconds), retry_after_s=seconds)


def _shorten(who: str) -> str:
    """Return a bucket name of bounded length, because user and client names have any length."""
    return hashlib.blake2b(who.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
