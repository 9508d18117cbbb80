"""Everything that the product defines is named somewhere else in the product or in its documentation."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.house.tree import ROOT, Source, sources

ALLOWED = {
    "handle_starttag": "a method that Python's HTML parser calls",
    "readinto": "a method that Python's buffered readers call",
    "seekable": "a method that pyarrow calls",
    "get_credentials": "a method that redis-py calls",
    "prepare_key": "a method that PyJWT calls",
    "check_key_length": "a method that PyJWT calls",
    "reconfigure": "a method that Ray Serve calls",
    "_schedule_with_spread_strategy": "a method that Ray Serve calls",
    "build_ingest_commands": "the command line names it by its noun",
    "build_models_commands": "the command line names it by its noun",
    "build_bench_commands": "the command line names it by its noun",
    "acl_rules": "the source of the rules in the guide and in the chart",
    "wait_idle": "lets tests wait for what goes on in the background",
    "wait_for_writes": "lets tests wait for what goes on in the background",
    "active_count": "shows tests what goes on in the background",
    "changed_count": "shows tests what goes on in the background",
    "count_waiting": "shows tests what goes on in the background",
}
"Name -> why it stays although nothing of the product names it."
_WORD = re.compile(r"\w+")
_PLAIN = {"property", "staticmethod", "classmethod"}
"Other decorators register what they decorate."


def test_no_definition_is_named_by_tests_only() -> None:
    named = Counter(word for source in sources() for word in _WORD.findall(source.text))
    documented: set[str] = set()
    for pattern in (
        "docs/**/*.md",
        "docs/**/*.py",
        "docs/**/*.ipynb",
        "README.md",
        "pyproject.toml",
        "tests/contract/*.md",
    ):
        for path in ROOT.glob(pattern):
            documented.update(_WORD.findall(path.read_text("utf-8")))
    dead = {
        f"{source.name} {name}"
        for source in sources()
        for name in _list_definitions(source)
        if named[name] == 1 and name not in documented and name not in ALLOWED
    }
    assert dead == set(), "delete it, or move it to the tests that use it"
    assert {name for name in ALLOWED if named[name] != 1} == set(), "the product names it by now"


def _list_definitions(source: Source) -> Iterator[str]:
    """Yield functions, classes, methods and constants; names of two underscores are Python's."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            decorators = {getattr(decorator, "id", "") for decorator in node.decorator_list}
            if not node.name.startswith("__") and (isinstance(node, ast.ClassDef) or decorators <= _PLAIN):
                yield node.name
    for node in source.tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        yield from (
            target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("__")
        )
