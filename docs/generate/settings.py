"""Settings: name, type, default, secret or not, meaning."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from cluster.records.apps import SWITCHES, AppSettings, new_app_settings
from cluster.settings import Settings
from docs.generate.markdown import write_page, write_table

_INTRO = """
Kiosk reads its settings from the environment, once, when a process starts. A setting that is not named here has no
effect. A value of the wrong type ends the command with exit code 2 and one line that names the setting.

Several installations on one machine differ in `KIOSK_DATA_DIR` and `KIOSK_PORT`. A command that talks to a running
installation uses the settings of that installation and names those of the shell that differ.

Give a secret as a file (`..._FILE`) where you can: a file can be limited to one user, the environment of a process
can't. Kiosk removes the settings marked as secret from the environment of every process that it starts.
"""
_SWITCHES = """
## Switches of an app

`kiosk apps switch APP` shows the switches of one app, and `kiosk apps switch APP NAME=VALUE` changes one. API replicas
follow within a second. The columns show the values that a new app of each environment gets.
"""
_GROUPS = {
    "Data and keys": ("data_dir", "redis_", "master_key", "manifest_key", "learners", "disk_limit"),
    "Artifact store": ("artifacts_", "cache_"),
    "HTTP": (
        "host",
        "port",
        "public_url",
        "edge_url",
        "plain_sign_in",
        "trusted_proxies",
        "address_",
        "max_body",
    ),
    "Processes and memory": (
        "replicas_",
        "reserve_memory",
        "api_nodes",
        "engine_nodes",
        "training_nodes",
        "dashboard",
        "object_store",
    ),
    "Archive for agents": ("archive_",),
    "Language model": ("llm_",),
}
_OTHER = "Other"
_KINDS = {
    bool: "`true` or `false`",
    int: "integer",
    float: "number",
    Path: "path",
    str: "text",
    SecretStr: "text",
}
_BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_SECRECY = re.compile(r"\s*(Not secret|Secret)(:[^.]*)?\.\s*$")


def build_page() -> str:
    """Write the page of all settings."""
    meanings = read_meanings()
    groups: dict[str, list[tuple[str, ...]]] = {name: [] for name in (*_GROUPS, _OTHER)}
    for name, field in Settings.model_fields.items():
        meaning = _SECRECY.sub("", meanings.get(name, ""))
        secret = "yes" if is_secret(field) else "no"
        row = (
            f"`KIOSK_{name.upper()}`",
            _describe_kind(field),
            _describe_default(name, field),
            secret,
            meaning,
        )
        groups[_group_of(name)].append(row)
    headings = ("Setting", "Type", "Default", "Secret", "Meaning")
    tables = [f"## {name}\n\n{write_table(headings, rows)}" for name, rows in groups.items() if rows]
    return write_page("Settings", _INTRO, [*tables, _write_switches()])


def _write_switches() -> str:
    """Write the table of all switches of an app, with the values that new apps get."""
    new = {name: new_app_settings(name) for name in ("development", "production")}
    rows = [
        (
            f"`{name}`",
            _show_value(getattr(new["development"], name)),
            _show_value(getattr(new["production"], name)),
            f"{meaning}.",
        )
        for name, meaning in SWITCHES.items()
        if name in AppSettings.model_fields
    ]
    return f"{_SWITCHES.strip()}\n\n{write_table(('Switch', 'Development', 'Production', 'Meaning'), rows)}"


def _show_value(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{item}`" for item in value) or "none"
    return f"`{value}`" if value not in ("", {}) else "none"


def read_meanings() -> dict[str, str]:
    """Read the text that stands below each field of `Settings`."""
    tree = ast.parse(dedent(inspect.getsource(Settings)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    found = {}
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = inspect.cleandoc(str(text.value.value))
    return found


def is_secret(field: FieldInfo) -> bool:
    """Is the value of a setting hidden wherever settings are shown?"""
    return SecretStr in _kinds_of(field)


def _group_of(name: str) -> str:
    return next((group for group, starts in _GROUPS.items() if name.startswith(starts)), _OTHER)


def _kinds_of(field: FieldInfo) -> tuple[Any, ...]:
    return field.annotation, *get_args(field.annotation)


def _describe_kind(field: FieldInfo) -> str:
    kind = next(text for known, text in _KINDS.items() if known in _kinds_of(field))
    bounds = list(_bounds_of(field))
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind


def _bounds_of(field: FieldInfo) -> Iterator[str]:
    for rule in field.metadata:
        for name, words in _BOUNDS.items():
            if hasattr(rule, name):
                yield f"{words} {getattr(rule, name):,}"


def _describe_default(name: str, field: FieldInfo) -> str:
    if name == "data_dir":
        return "`~/.kiosk`"
    default = None if field.default_factory is not None else field.default
    if default is None or default == "":
        return "none"
    return f"`{str(default).lower()}`" if isinstance(default, bool) else f"`{default}`"
