"""Names of tests, for tables that say which test keeps which sentence of an interface."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


@cache
def list_tests(path: str) -> frozenset[str]:
    """Return the names of the functions of a file, relative to the folder of tests."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
