"""Everything that the product defines is named somewhere else in the product or in its documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
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
    "check_health": "a method that Ray Serve calls",
    "record_autoscaling_stats": "a method that Ray Serve calls",
    "connection_lost": "a method that asyncio calls",
    "data_received": "a method that asyncio calls",
    "_schedule_with_spread_strategy": "a method that Ray Serve calls",
    "build_ingest_commands": "the command line names it by its noun",
    "build_models_commands": "the command line names it by its noun",
    "acl_rules": "the source of the rules in the guide and in the chart",
    "wait_idle": "lets tests wait for what goes on in the background",
    "wait_for_writes": "lets tests wait for what goes on in the background",
    "active_count": "shows tests what goes on in the background",
    "joined_segments": "shows tests what goes on in the background",
    "changed_count": "shows tests what goes on in the background",
    "count_waiting": "shows tests what goes on in the background",
}
"Name -> why it stays although nothing of the product names it."
_WORD = re.compile(r"\w+")
_PLAIN = {"property", "staticmethod", "classmethod"}
"Other decorators register what they decorate."


def test_no_definition_is_named_by_tests_only() -> None:
    named = Counter(word for source in sources() for word in _list_words(source))
    defined = Counter(name for source in sources() for name in _list_definitions(source))
    documented: set[str] = set()
    for pattern in ("docs/**/*.md", "docs/**/*.py", "docs/**/*.ipynb", "README.md", "pyproject.toml"):
        for path in ROOT.glob(pattern):
            documented.update(_WORD.findall(path.read_text("utf-8")))
    dead = {name for name, count in defined.items() if named[name] <= count}
    assert dead - documented - ALLOWED.keys() == set(), "delete it, or move it to the tests that use it"
    assert ALLOWED.keys() - dead == set(), "the product names it by now"


def _list_words(source: Source) -> Iterator[str]:
    """Yield the names of a file and the words of its strings, but not of docstrings and comments."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.NAME:
            yield token.string
        elif tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and not token.string.startswith(
            '"""'
        ):
            yield from _WORD.findall(token.string)


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
