"""Names that code binds: parameters, locals, attributes, import aliases, keys of dictionaries.

`python -m tests.house.bindings [PATH ...]` prints each binding with a banned word; with `--write` it writes the counts
of all folders to `old_bindings.json`, the table that `test_bindings.py` compares.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.tree import Source, sources, sources_of_tests

TABLE = Path(__file__).with_name("old_bindings.json")
"Folder -> number of its bindings with banned words; folders without one are not listed."

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


@cache
def count_old_bindings() -> dict[str, int]:
    """Return the number of bindings with banned words for each folder of the product and of the tests that has any."""
    counts: Counter[str] = Counter()
    for source in (*sources(), *sources_of_tests()):
        counts[source.name.rpartition("/")[0]] += len(old_bindings(source))
    return {folder: count for folder, count in sorted(counts.items()) if count}


def main(arguments: list[str]) -> None:
    """Print the bindings of files below the named paths, or write the table."""
    if arguments == ["--write"]:
        TABLE.write_text(json.dumps(count_old_bindings(), indent=1) + "\n", "utf-8")
        return
    for source in (*sources(), *sources_of_tests()):
        if source.name.startswith(tuple(arguments) or ""):
            for line, name in old_bindings(source):
                print(f"{source.name}:{line} {name}")


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


if __name__ == "__main__":
    main(sys.argv[1:])
