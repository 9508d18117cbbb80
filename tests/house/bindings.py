"""Names that code binds: parameters, locals, attributes, import aliases, keys of dictionaries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.tree import Source

BANNED = {
    "told", "tell", "said", "says", "kin", "crowd", "standing", "champion", "means", "wanted", "wishes", "known",
    "held", "lot", "laid", "lay", "errand", "taste", "asked", "found", "own", "did", "here", "utils", "helpers",
    "common", "misc", "core", "base", "manager", "processor",
}  # fmt: skip
"Words that no name of a file, class or function has, alone or as one of its words."

BANNED_BINDINGS = BANNED | {
    "one", "reader", "readers", "shelf", "desk", "purses", "crowds", "door", "doors",
}  # fmt: skip
"Words that no binding has, alone or as one of its words."


def old_bindings(source: Source) -> list[tuple[int, str]]:
    """Return line and name of each binding that has a banned word."""
    return [(line, name) for line, name in _bindings(source.tree) if set(split_words(name)) & BANNED_BINDINGS]


def split_words(name: str) -> list[str]:
    """Split `EngineState` or `engine_state` into its words, in lower case."""
    pattern = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    return [word.lower() for part in name.split("_") for word in re.findall(pattern, part)]


def _bindings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, lineno=line):
                yield line, name
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                yield line, name
            case ast.Attribute(attr=name, ctx=ast.Store(), lineno=line):
                yield line, name
            case ast.alias(asname=str(name), lineno=line):
                yield line, name
            case ast.ExceptHandler(name=str(name), lineno=line) | ast.MatchAs(name=str(name), lineno=line):
                yield line, name
            case ast.Dict(keys=keys):
                for key in keys:
                    if (
                        isinstance(key, ast.Constant)
                        and isinstance(key.value, str)
                        and key.value.isidentifier()
                    ):
                        yield key.lineno, key.value
