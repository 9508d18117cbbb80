"""What a backup does with each Redis key: every function of `cluster.store.keys` has one class.

    control     few and small; read together, atomically, at the cut of a backup
    bulk        many or large; read one after the other while the installation serves
    log         the change logs; read last, up to the cut
    derived     rebuilt from other keys by a restore
    ephemeral   rate limits, leases, heartbeats, counters of minutes and caches; left out

A key that no function makes was written by a newer release; it counts as bulk.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from cluster.records.intake import Noun
from cluster.store import keys

CLASSES: dict[str, tuple[str, ...]] = {
    "control": (
        "access_version", "access_app", "access_key", "access_exposed", "ended_tokens_version", "ended_tokens",
        "former_ended_tokens", "schema", "oauth_version", "oauth_revoked",
        "erasure_order", "noun_seen", "attribute_types", "intake", "task_open", "compacted_offset", "trimmed",
        "client_rule", "publisher_key", "engine", "boost_rule", "experiment", "experiment_revision", "experiment_slug",
        "experiment_version", "question_open", "question_checked", "query_salt", "question_bank",
        "question_bank_version", "run", "run_revision", "run_ids", "run_open", "schedule", "feed", "thread_version",
        "thread_judged", "installation", "audit_begun",
    ),
    "bulk": (
        "access_quarantine", "account", "account_quarantine", "account_sessions", "admin_token", "invitation",
        "audit_row", "audit_archive", "oauth_grant", "oauth_grants", "oauth_client_grants",
        "oauth_clients", "oauth_clients_used",
        "record", "product_type", "task", "quarantine", "recent", "link", "linked", "deleted_users",
        "deleted_records", "archive_call", "article_revision", "article_read",
        "engine_history", "experiment_served", "exposure", "exposure_ids",
        "boost_rule_version", "question", "question_by", "question_recent", "question_citing",
        "question_entitled_citing", "question_frequency", "question_asker", "query", "served", "erasure",
        "erasure_ids", "threads", "thread_revision", "thread_new", "thread_watch",
        "file_import", "import_progress", "feed_state", "feed_article", "feed_address", "feed_check",
    ),
    "log": ("change_log",),
    "derived": ("record_ids", "product_type_ids"),
    "ephemeral": (
        "oauth_code", "oauth_assertion", "follower", "page_count", "stranger", "browser_bytes", "page", "engine_status",
        "engine_request_count", "engine_last_request", "trial_failures", "limit",
        "idempotency", "idempotency_count", "question_same",
        "question_count", "provider_tokens", "compaction_request", "lease", "log_rewrite", "releases",
        "stored_bytes", "import_stop", "live_figures", "replica_memory",
    ),
}  # fmt: skip
"Class -> names of functions of `cluster.store.keys`."

NOUNS: tuple[Noun, ...] = ("user", "product", "interaction")

_ANYTHING = {"app": r"[^{}]+", "noun": "(?:user|product|interaction)", "day": r"\d+", "minute": r"\d+"}
# NUL bytes occur in no literal part of a key.
_HOLE = "\x00hole-{}\x00"


def key_class(key: str) -> str:
    """Return the class of a key; one that this release does not know is `bulk`."""
    return next((name for name, pattern in _patterns() if pattern.fullmatch(key)), "bulk")


def is_kiosk_key(key: bytes) -> bool:
    """Return whether a key has the form of an installation's keys, so that others of the same Redis stay untouched."""
    return key.startswith((b"kiosk:", b"{"))


def control_keys(app: str | None) -> list[str]:
    """Return the names of all control keys of an app; of the global ones without an app."""
    names: list[str] = []
    for name in CLASSES["control"]:
        function: Callable[..., str] = getattr(keys, name)
        parameters = tuple(inspect.signature(function).parameters)
        if app is None and not parameters:
            names.append(function())
        elif app is not None and parameters == ("app",):
            names.append(function(app))
        elif app is not None and parameters == ("app", "noun"):
            names += [function(app, noun) for noun in NOUNS]
    return names


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    functions = [(kind, getattr(keys, name)) for kind, names in CLASSES.items() for name in names]
    # the most literal name first: an id may contain what looks like another key
    functions.sort(key=lambda pair: -len(pair[1](*("" for _ in inspect.signature(pair[1]).parameters))))
    return tuple((kind, _pattern_of(function)) for kind, function in functions)


def _pattern_of(function: Any) -> re.Pattern[str]:
    parameters = tuple(inspect.signature(function).parameters)
    text = re.escape(function(*(_HOLE.format(name) for name in parameters)))
    for name in parameters:
        text = text.replace(re.escape(_HOLE.format(name)), _ANYTHING.get(name, ".*"))
    # An id may contain a line break, which `.` matches only with this flag.
    return re.compile(text, re.DOTALL)
