"""Identifiers: one type for each kind, and the functions that create new ones."""

from __future__ import annotations

import os
import uuid
from typing import NewType

AppId = NewType("AppId", str)
"One environment's data space, e.g. `playground`. Lower case letters, digits and `-`, at most 64."

EngineId = NewType("EngineId", str)
"A named recommender of an app; `default` exists from the first product upload."

ProductId = NewType("ProductId", str)
UserId = NewType("UserId", str)

TaskId = NewType("TaskId", str)
ServiceId = NewType("ServiceId", str)
"Names one search or recommendation reply, so that a later click can be attributed to it."

DEFAULT_ENGINE = EngineId("default")
VERSION_MARK = "\x1f"
"Separates engine and version in the name of a version that is loaded beside the serving one."


def user_key_from_id(user_id: str) -> str:
    """Return the key of a user, `u:<user_id>`."""
    return "u:" + user_id


def user_key_from_anonymous_id(anonymous_id: str) -> str:
    """Return the key of a visitor, `a:<anonymous_id>`."""
    return "a:" + anonymous_id


def record_key_from_id(noun: str, record_id: str) -> str:
    """Return the key of a stored record: `u:<user_id>` or `p:<product_id>`."""
    return f"{noun[0]}:{record_id}"


def position_from_offset(offset: str) -> tuple[int, int]:
    """Return an offset of a change log (`<ms>-<n>`) as a tuple in log order; `"0"` and empty precede all others."""
    # As numbers: as texts, 9-0 would come after 10-0.
    ms, _, n = offset.partition("-")
    return int(ms or 0), int(n or 0)


def new_task_id() -> TaskId:
    """Return a new task id (uuid 4)."""
    return TaskId(str(uuid.uuid4()))


def new_question_id() -> str:
    """Return a new question id (uuid 4)."""
    return str(uuid.uuid4())


def new_request_id() -> str:
    """Return a new request id: 16 hex digits, cheap enough for every request."""
    return os.urandom(8).hex()


def new_service_id() -> ServiceId:
    """Return a new service id (uuid 4, as the API specifies)."""
    return ServiceId(str(uuid.uuid4()))
