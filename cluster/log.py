"""Structured logging without keys, tokens, passwords and query strings.

set_up_logging()   called once by each process
open_stderr()      the standard error of the process, for processes in which Ray Serve replaces `sys.stderr`
redact(text)       the same rules for text that is not a log line
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Mapping, MutableMapping
from datetime import datetime, timezone
from typing import Any, TextIO

import structlog

REDACTED = "***"

_KEY_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b(ksk|kpk)_([a-z]{3})_[0-9A-Za-z]{8,}(?:_[0-9A-Za-z]+)?"), rf"\1_\2_{REDACTED}"),
    (re.compile(r"\b(kat|kiv)_[0-9A-Za-z]{8,}(?:_[0-9A-Za-z]+)?"), rf"\1_{REDACTED}"),
)
"API keys, personal tokens, and tokens of invitations."
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    *_KEY_RULES,
    (re.compile(r"(?<![0-9A-Za-z_-])eyJ[0-9A-Za-z_-]{4,}\.[0-9A-Za-z_.-]*"), REDACTED),
    (re.compile(r"(?i)\b(bearer|basic)[ \t]{1,4}[0-9A-Za-z._~+/=-]{4,}"), rf"\1 {REDACTED}"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://)[^\s/@]*@"), rf"\1{REDACTED}@"),
    (re.compile(r"(?<=\S)\?[^\s\"'#]+"), f"?{REDACTED}"),
    (
        re.compile(r"(?i)\b(api_key|user_hash|jwt_token|password|requirepass)([\s\"'=:]{1,8})[^\s\"'&,}]+"),
        rf"\1\2{REDACTED}",
    ),
)
"No pattern repeats a repetition, and each starts where a match is likely: hostile text costs linear time."

_SECRET_FIELD = re.compile(r"(?i)(secret|password|token|authorization|api_key|user_hash|cookie|url$)")


def redact(text: str) -> str:
    """Return the text without anything that looks like a secret or a query string.

    Cost: linear in the text.
    """
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_keys(text: str) -> str:
    """Return the text without API keys and personal tokens. Cost: linear in the text."""
    for pattern, replacement in _KEY_RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_fields(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return one log event without secrets (a structlog processor)."""
    for name, value in event.items():
        event[name] = _clean(name, value)
    return event


def _clean(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if _SECRET_FIELD.search(name) and value:
            return REDACTED
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _clean(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean("", inner) for inner in value]
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return value


class _RedactingFilter(logging.Filter):
    """Removes secrets from lines of libraries that use the standard library's logging."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        # The message has its arguments now; with them, it would be formatted a second time and fail at a `%`.
        record.args = None
        return True


class _JsonFormatter(logging.Formatter):
    """Writes a line of a library as one JSON object with the fields of Kiosk's own lines."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__()
        self._facts = facts

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc).isoformat().replace("+00:00", "Z")
        line = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "timestamp": moment,
            "logger": record.name,
            **self._facts,
        }
        # The filter sees the message only, and a stack trace can quote a secret too.
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


def open_stderr() -> TextIO:
    """Return the standard error of this process; each line is written at once.

    In its replicas, Ray Serve replaces `sys.stderr` by its own logger. That logger holds up to 1,000 lines back, drops
    lines below its level, and loses what it holds when the process is killed. Ray rotates the file behind the
    descriptor.
    """
    return os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")


def set_up_logging(
    *, stream: TextIO | None = None, level: int = logging.INFO, people: bool = False, process: str = ""
) -> None:
    """Write events to a stream, one JSON object in each line (or coloured text for people), without secrets.

    `process` names the kind of the process in each line, beside its process id.
    """
    target = sys.stderr if stream is None else stream
    facts = {"process": process, "pid": os.getpid()} if process else {}
    renderer: Any = (
        structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(sort_keys=False)
    )

    def add_process(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.update(facts)
        return event

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([add_process] if facts else []),
            # Before the redaction, so that stack traces go through it.
            structlog.processors.format_exc_info,
            redact_fields,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        # A command ends before caching pays, and tests run many commands in one process.
        cache_logger_on_first_use=not people,
    )
    handler = logging.StreamHandler(target)
    handler.addFilter(_RedactingFilter())
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(text if people else _JsonFormatter(facts))
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
