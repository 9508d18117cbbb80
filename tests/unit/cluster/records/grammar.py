"""What every upload message must look like: the expression the specification's own client parses them with."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from cluster.errors import Unprocessable
from cluster.records.validation.upload import parse_upload

MESSAGE = re.compile(r"^\s*data\.(\d+)(?:\.(\S+))?\s+(?:\(([^)]*)\)\s+)?is\s+invalid\.\s+(.*)$")
NOW = 1_772_442_930_250
"2026-03-02T09:15:30.250Z"
REQUIRED = "The attribute is required."
NOT_ALLOWED = "The attribute is not allowed."


def at_most(characters: int) -> str:
    """Word a fault of length."""
    return f"The attribute should have at most {characters} characters."


def not_of_format(name: str) -> str:
    """Word a fault of form."""
    return f"The attribute should match '{name}' format."


def wrong(expected: str, given: str) -> str:
    """Word a type fault."""
    return f"The attribute expected to be of type '{expected}', but '{given}' is given."


def body_of(*records: object) -> bytes:
    """Write an upload body."""
    return orjson.dumps({"data": records})


def faults(noun: Any, *records: object) -> list[str]:
    """Upload bad records and take the messages."""
    with pytest.raises(Unprocessable) as caught:
        parse_upload(noun, body_of(*records), now_ms=NOW)
    return list(caught.value.facts["messages"])


def kept(noun: Any, record: object) -> Any:
    """Upload one good user or product and take what would be stored."""
    (accepted,) = parse_upload(noun, body_of(record), now_ms=NOW).records
    return orjson.loads(accepted.json)
