"""Errors: every class, message and code with status, cause and remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster import errors
from cluster.errors import KioskError, messages
from deployments.edge.http.errors import reply_from_error
from docs.generate.markdown import quote_code, write_page, write_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_INTRO = """
A refusal over HTTP has a status and a JSON body with `message`. Status 422 has one entry for each fault: `detail` (a
list of `{loc, msg, type}`), or for uploads `data` (one sentence for each invalid record) and `details` (every fault of
a record that has several). Status 429 and 503 have `Retry-After` in seconds. Status 401 says in `WWW-Authenticate` what
is wrong with the key. Every reply has `X-Request-Id`; the log of an API replica names the same id.

Retry 429, 500 and 503 with growing pauses. Retry no other status: the same request gets the same refusal.
"""
_CLASSES = """
## Classes

Every refusal inside Kiosk is one of these classes. The code stands in logs and in `--json`. The class decides the
status. Any other exception is a fault of Kiosk: status 500, and one line in the log.
"""
_NOT_REFUSALS = ("SUCCESS", "DELETED")


def build_page() -> str:
    """Write the page of all errors."""
    data = read_texts()
    classes = [
        (
            f"`{name}`",
            f"`{kind.code}`",
            status_of(kind),
            data["classes"][name]["cause"],
            data["classes"][name]["remedy"],
        )
        for name, kind in list_classes().items()
    ]
    fixed = [
        (
            quote_code(text),
            str(data["messages"][name]["status"]),
            data["messages"][name]["cause"],
            data["messages"][name]["remedy"],
        )
        for name, text in list_messages().items()
    ]
    sections = [
        "## Messages\n\nTexts that clients may compare; they do not change.\n\n"
        + write_table(("Message", "Status", "Cause", "Remedy"), fixed),
        f"{_CLASSES.strip()}\n\n" + write_table(("Class", "Code", "Status", "Cause", "Remedy"), classes),
        *(_write_family(family) for family in data["families"]),
    ]
    return write_page("Errors", _INTRO, sections)


def read_texts() -> dict[str, Any]:
    """Read causes and remedies: of classes, of fixed messages, and of families of messages."""
    return tomllib.loads(Path(__file__).with_name("errors.toml").read_text("utf-8"))


def list_classes() -> dict[str, type[KioskError]]:
    """List the classes of `cluster.errors` that can leave their process, a parent before its children."""
    return {kind.__name__: kind for kind in _walk(KioskError) if kind is not errors.ColumnsNotReady}


def list_messages() -> dict[str, str]:
    """List the messages of the specification that refuse something."""
    found = {name: text for name, text in vars(messages).items() if name.isupper()}
    return {name: text for name, text in found.items() if name not in _NOT_REFUSALS}


def status_of(kind: type[KioskError]) -> str:
    """Ask the table of statuses what a class is answered with; empty when it never reaches a client."""
    if kind is errors.InvalidSetting:
        return ""
    if issubclass(kind, errors.Fault):
        return "500"
    return str(reply_from_error(kind("x"), "message", request_id="docs").status)


def _walk(kind: type[KioskError]) -> Iterator[type[KioskError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from _walk(below)


def _write_family(family: Mapping[str, Any]) -> str:
    rows = [
        (quote_code(row["text"]), str(row["status"]), row["cause"], row["remedy"]) for row in family["rows"]
    ]
    headings = (family["heading"], "Status", "Cause", "Remedy")
    return f"## {family['title']}\n\n{family['text']}\n\n{write_table(headings, rows)}"
