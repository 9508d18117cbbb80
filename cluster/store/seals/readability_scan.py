"""Reading every sealed record once, to count those that this release can't read wholly. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pydantic import BaseModel

from cluster.errors import NewerRelease
from cluster.records.account import Account, Code, Grant
from cluster.records.administration import AdminToken, Invitation
from cluster.records.api_keys import ApiKey
from cluster.records.apps import App
from cluster.records.archive.archive_client import ClientRule, Registration
from cluster.records.archive.article_revision import ArticleRevision, PublisherKey
from cluster.records.archive.feed import Feed, FeedArticle, FeedState
from cluster.records.boost_rule import BoostRule
from cluster.records.engine import Engine
from cluster.records.erasure import Erasure, Person
from cluster.records.experiment import Experiment
from cluster.records.file_import import FileImport, ImportProgress
from cluster.records.question import Answer, Question
from cluster.records.run import Run, Schedule
from cluster.records.thread import UserThreads
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.seals.record_seal import has_unknown_fields, noun_of, parse_record
from cluster.store.seals.seal import salt_from_key, unseal

_PAGE = 500
_HASHES: tuple[tuple[str, type[BaseModel]], ...] = (
    (keys.access_app(), App),
    (keys.access_key(), ApiKey),
    (keys.account(), Account),
    (keys.oauth_clients(), Registration),
    (keys.admin_token(), AdminToken),
    (keys.invitation(), Invitation),
    (keys.erasure_order(), Person),
)
_HASHES_OF_APPS = (
    (keys.engine, Engine),
    (keys.experiment, Experiment),
    (keys.boost_rule, BoostRule),
    (keys.run, Run),
    (keys.schedule, Schedule),
    (keys.client_rule, ClientRule),
    (keys.threads, UserThreads),
    (keys.erasure, Erasure),
    (keys.file_import, FileImport),
    (keys.import_progress, ImportProgress),
    (keys.article_revision, ArticleRevision),
    (keys.publisher_key, PublisherKey),
    (keys.feed, Feed),
    (keys.feed_state, FeedState),
    (keys.feed_article, FeedArticle),
)
_FIELDS: dict[str, type[BaseModel]] = {"asked": Question, "answer": Answer, "grant": Grant, "code": Code}
"Fields of keys that hold one record each."


@dataclass
class ReadabilityCounts:
    """Counts by noun."""

    read: Counter[str] = field(default_factory=Counter)
    extended: Counter[str] = field(default_factory=Counter)
    "Readable, with fields of a newer release, which every write keeps."
    unreadable: Counter[str] = field(default_factory=Counter)
    "Only a newer release can read them; they stay."
    broken: Counter[str] = field(default_factory=Counter)
    "Their checksum does not match; the next read moves them to the quarantine."

    def add(self, kind: type[BaseModel], key: str, name: str, sealed: bytes) -> None:
        """Count one record."""
        noun = noun_of(key)
        body = unseal(sealed, salt_from_key(key, name))
        if body is None:
            self.broken[noun] += 1
            return
        try:
            record = parse_record(kind, body)
        except NewerRelease:
            self.unreadable[noun] += 1
            return
        self.read[noun] += 1
        self.extended[noun] += has_unknown_fields(record)


async def scan_records(server: RedisClient) -> ReadabilityCounts:
    """Read all records of apps, engines, experiments, accounts, questions and so on; products and users are plain JSON.

    Cost: two passes over the names of all keys, 1 s for a million
    """
    counts = ReadabilityCounts()
    app_ids = [name_of(name) for name in await server.execute_slow("HKEYS", keys.access_app())]
    hashes = [*_HASHES, *((key(app_id), kind) for app_id in app_ids for key, kind in _HASHES_OF_APPS)]
    for key, kind in hashes:
        async for name, sealed in _fields(server, key):
            counts.add(kind, key, name, sealed)
    # Records with a key each, found by their names.
    for pattern in ("*}:question:*", keys.oauth_grant("*"), keys.oauth_code("*")):
        async for key in _names(server, pattern):
            for name, value in zip(_FIELDS, await server.execute_slow("HMGET", key, *_FIELDS), strict=True):
                if value is not None:
                    counts.add(_FIELDS[name], key, name, value)
    return counts


async def _fields(server: RedisClient, key: str) -> AsyncIterator[tuple[str, bytes]]:
    cursor = b"0"
    # HSCAN may return a field twice while the hash grows.
    seen = set[str]()
    while True:
        cursor, flat = await server.execute_slow("HSCAN", key, cursor, "COUNT", _PAGE)
        for name, value in split_pairs(flat):
            field_name = name_of(name)
            if field_name not in seen:
                seen.add(field_name)
                yield field_name, value
        if cursor == b"0":
            return


async def _names(server: RedisClient, pattern: str) -> AsyncIterator[str]:
    cursor = b"0"
    # SCAN may return a key several times.
    seen = set[str]()
    while True:
        cursor, names = await server.execute_slow(
            "SCAN", cursor, "MATCH", pattern, "COUNT", 2_000, "TYPE", "hash"
        )
        for name in map(name_of, names):
            if name not in seen:
                seen.add(name)
                yield name
        if cursor == b"0":
            return
