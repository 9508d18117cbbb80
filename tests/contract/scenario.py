"""The specification as scenarios: what they look like, and what "the body holds this" means.

    - name: an unknown user reads as not found
      needs: [fresh]                  # an app nobody has written to; skipped against a live server
      steps:
        - send: GET /v1/users/nobody  # method and raw target
          as: shop secret             # app and key; also `nobody`, or `someone` for an unknown key
          in: header                  # where the key goes; default: secret in the header, publishable in the query
          agent: curl/8               # default: a browser
          headers: {X: y}
          json: {...}                 # or `text:` for raw bytes
          hash: gina-7                # adds `user_hash` for this id to the JSON
          token: {user_id: gina-7, exp: +60}   # adds a bearer token signed with the app's secret key
          expect: 404                 # status
          body: {message: not found}  # what the reply holds: named keys, all list items
          exactly: {...}              # the whole reply
          header: {allow: GET}        # reply headers, whole values
          keep: {task: data.task_id}  # for later steps, as ${task}
          settle: true                # wait until what was accepted is applied

Words in angle brackets stand for any value of a kind: <uuid> <int> <str> <list> <object> <time> <any> <absent>;
`~text` for a text that contains it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_KINDS: dict[str, Any] = {
    "<int>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<str>": lambda value: isinstance(value, str) and value != "",
    "<list>": lambda value: isinstance(value, list),
    "<object>": lambda value: isinstance(value, dict),
    "<any>": lambda value: True,
    "<uuid>": lambda value: isinstance(value, str) and _UUID.fullmatch(value),
    "<time>": lambda value: isinstance(value, str) and _TIME.fullmatch(value),
}


@dataclass(frozen=True)
class Scenario:
    """One rule of the specification, as requests and what they are answered with."""

    name: str
    steps: list[dict[str, Any]]
    needs: list[str] = field(default_factory=list)


def load(folder: Path) -> list[Scenario]:
    """Read all scenarios of a folder."""
    scenarios = []
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text("utf-8")):
            scenarios.append(
                Scenario(f"{path.stem}: {entry['name']}", entry["steps"], entry.get("needs", []))
            )
    assert len({scenario.name for scenario in scenarios}) == len(scenarios), "two scenarios have one name"
    return scenarios


def filled(value: Any, kept: dict[str, str]) -> Any:
    """Put kept values where `${name}` stands."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda match: kept[match[1]], value)
    if isinstance(value, list):
        return [filled(item, kept) for item in value]
    if isinstance(value, dict):
        return {name: filled(item, kept) for name, item in value.items()}
    return value


def differences(expected: Any, given: Any, *, whole: bool, path: str = "body") -> list[str]:
    """List where a reply differs from what is expected; `whole` allows no other keys."""
    if isinstance(expected, dict):
        return _object_differences(expected, given, whole=whole, path=path)
    if isinstance(expected, list):
        if not isinstance(given, list) or len(given) != len(expected):
            return [f"{path}: expected {len(expected)} items, got {given!r}"]
        return [
            line
            for at, (left, right) in enumerate(zip(expected, given, strict=True))
            for line in differences(left, right, whole=whole, path=f"{path}[{at}]")
        ]
    if isinstance(expected, str) and expected in _KINDS:
        return [] if _KINDS[expected](given) else [f"{path}: {given!r} is no {expected}"]
    if isinstance(expected, str) and expected.startswith("~"):
        good = isinstance(given, str) and expected[1:] in given
        return [] if good else [f"{path}: {given!r} does not contain {expected[1:]!r}"]
    same = expected == given and isinstance(expected, bool) == isinstance(given, bool)
    return [] if same else [f"{path}: expected {expected!r}, got {given!r}"]


def _object_differences(expected: dict[str, Any], given: Any, *, whole: bool, path: str) -> list[str]:
    if not isinstance(given, dict):
        return [f"{path}: expected an object, got {given!r}"]
    lines = []
    for name, value in expected.items():
        if value == "<absent>":
            lines += [f"{path}.{name} is there"] if name in given else []
        elif name not in given:
            lines.append(f"{path}.{name} is missing from {given!r}")
        else:
            lines += differences(value, given[name], whole=whole, path=f"{path}.{name}")
    if whole:
        lines += [f"{path}.{name} was not expected" for name in given if name not in expected]
    return lines
