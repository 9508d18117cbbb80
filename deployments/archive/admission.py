"""Admission of archive clients: the publisher's rules, reread every second, and the clients' rate limits.

`ArchiveCaller` is the account that signed in, and its client.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cluster.access_tier import SIGNED_IN
from cluster.clock import Clock
from cluster.errors import Invalid, TooMany
from cluster.records.archive.archive_client import (
    BY_SIGNATURE,
    DEFAULT_CALLS_PER_MINUTE,
    EVERYBODY,
    UNSIGNED,
    ClientRule,
    SignatureState,
    find_rule,
    fold_client_name,
)
from cluster.store.archive.client_rules import ClientRuleStore
from cluster.store.installation.rate_limits import LimitStore
from cluster.store.refreshing_cache import RefreshingCache
from deployments.edge.limits.leased_buckets import LEASE_S, LeasedBucket, cancel_leases


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
    signature: SignatureState = ""
    "What the signature of this request proves; it identifies software and gives no right."
    agent: str = ""
    "Host of the agent that signed this request; empty unless its signature is verified."


READ_EVERY_S = 0.5
NOT_ALLOWED = "This client is not allowed to use the archive; ask its publisher"
TOO_MANY = "Too many calls; try again in {seconds} s"
_BUCKET = "archive"
_OF_EACH = frozenset({*BY_SIGNATURE.values(), UNSIGNED})
"Rules whose rate is that of one person, as that of `*` is."
_RULES = "rules"
_BURST_S = 5.0
_MOST_LEASED = 4096


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
        self._leased: OrderedDict[str, LeasedBucket] = OrderedDict()
        self._cache = RefreshingCache(self._load, clock)

    async def start(self) -> None:
        """Read the rules if the store answers, and start to follow their changes."""
        await self._cache.follow(_RULES, READ_EVERY_S, away_event="client_rules_kept")

    async def close(self) -> None:
        """Stop following the rules."""
        await cancel_leases(self._leased.values())
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
        rule = find_rule(
            self._rules,
            person.client_id,
            person.client_name,
            person.client_host,
            person.signature,
            person.agent,
        )
        if rule.decision == "deny":
            raise Invalid(NOT_ALLOWED)
        return rule

    async def spend(self, rule: ClientRule, person: ArchiveCaller) -> None:
        """Count one call of a tool.

        Errors:
            TooMany: with `retry_after_s`
        """
        per_minute, who = self._rate_of(rule, person)
        # A rate of 0 means no limit. A client that must not call has a rule that denies it.
        if not per_minute:
            return
        bucket = self._bucket(who, per_minute / 60)
        wait_s = await bucket.wait_s()
        if wait_s:
            seconds = max(1, math.ceil(wait_s))
            raise TooMany(TOO_MANY.format(seconds=seconds), retry_after_s=seconds)
        bucket.spend()

    def _rate_of(self, rule: ClientRule, person: ArchiveCaller) -> tuple[float, str]:
        if rule.client != EVERYBODY and rule.calls_per_minute is not None:
            client = fold_client_name(rule.client)
            # Such a rule covers many agents and people: with a common rate, any of them could use it up for all.
            if client in _OF_EACH:
                return rule.calls_per_minute, f"{rule.client} {person.user_id}"
            # A rule that names a client bounds all its users together.
            return rule.calls_per_minute, f"client {client}"
        everybody = self._rules.get(EVERYBODY)
        rate = everybody.calls_per_minute if everybody is not None else None
        return DEFAULT_CALLS_PER_MINUTE if rate is None else rate, f"person {person.user_id}"

    def _bucket(self, who: str, rate: float) -> LeasedBucket:
        # Taken out and put back, so that the order of the dictionary is the order of the last use.
        bucket = self._leased.pop(who, None)
        # A changed rule begins a new bucket, so that it holds at once.
        if bucket is None or bucket.rate != rate:
            bucket = LeasedBucket(
                self._limits,
                self._clock,
                (self._find_app(), _shorten(who), _BUCKET),
                rate=rate,
                burst=max(1, math.ceil(rate * _BURST_S)),
                lease_size=max(1, math.ceil(rate * LEASE_S)),
            )
        self._leased[who] = bucket
        if len(self._leased) > _MOST_LEASED:
            # The store counts on, so a bucket that is dropped and opened again gives nobody more calls.
            self._leased.popitem(last=False)
        return bucket


def _shorten(who: str) -> str:
    """Return a bucket name of bounded length, because user and client names have any length."""
    return hashlib.blake2b(who.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
