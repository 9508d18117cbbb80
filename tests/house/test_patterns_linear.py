"""Patterns given to Python's regex engine: written by us, never by callers, and none takes more than linear time.

What callers send as an expression is run by `cluster/query/language/automaton.py`. Patterns in pydantic fields
are run by an
engine that is linear by construction.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.house.tree import sources

pytestmark = pytest.mark.slow

_CALLS = {"compile", "fullmatch", "match", "search", "sub", "subn", "split", "findall", "finditer"}
_MODES = ("fullmatch", "match", "search", "sub", "subn", "split", "findall", "finditer")
_USES = re.compile(rf"\b(\w+)\.({'|'.join(_MODES)})\b")
_SIZES = (2_000, 4_000, 8_000)
_SCREENED_S = 0.0002
"What takes less for the smallest size is linear enough: quadratic time there would take 3 ms for the largest."
_BOUNDED = {r"(\w[\w.]*)\Z": "looks at 24 characters"}
"Patterns that never see long texts."
_DATA_FILES = "actors.language.language_data"
"Compiles patterns of files that are part of the product; `_compiled` finds them."
_DATA_COMPILERS = (
    "actors/language/language_data.py",
    "actors/language/language_schema.py",
    "cluster/store/backup_key_classes.py",
)
_REPRESENTATIVES = "a1_A 0.-:/\n\t\"'<>&?=,éñ漢z!\\[]{}()+*#@|~^%$"


@dataclass(frozen=True)
class Written:
    """A pattern in the source."""

    where: str
    text: str | bytes
    flags: int
    modes: tuple[str, ...]


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    constants = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and getattr(node, "value", None) is not None:
                constants[target.id] = node.value  # type: ignore[attr-defined]
    return constants


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _CALLS
        ):
            yield node


def _is_ours(node: ast.expr, names: dict[str, ast.expr], imported: set[str]) -> bool:
    """Tell whether a pattern is made of constants of a module only."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in imported or (node.id in names and _is_ours(names[node.id], names, imported))
    if isinstance(node, ast.JoinedStr):
        inner = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return all(_is_ours(part, names, imported) for part in inner)
    if isinstance(node, ast.BinOp):
        return _is_ours(node.left, names, imported) and _is_ours(node.right, names, imported)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        return all(_is_ours(argument, names, imported) for argument in node.args)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sorted":
        return _is_ours(node.args[0], names, imported)
    return isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.DictComp))


def _imports(tree: ast.Module) -> set[str]:
    """Name what is imported in capitals: constants of other modules of ours."""
    names = [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return {name for name in names if name.isupper()}


def test_no_text_of_a_caller_is_ever_compiled() -> None:
    strange = []
    for source in sources():
        tree = source.tree
        names, imported = _constants(tree), _imports(tree)
        for call in _calls(tree):
            if source.name not in _DATA_COMPILERS and not _is_ours(call.args[0], names, imported):
                strange.append(f"{source.name}:{call.lineno}")
    assert strange == []


# --- twice the text, twice the time -----------------------------------------------------------------------------------


def _find_uses(text: str) -> set[tuple[str, str]]:
    """Find which method of which name a text of Python uses, for the methods that run a pattern."""
    return set(_USES.findall(text))


def _written() -> list[Written]:
    """Find the patterns that are constants, and how they are used."""
    patterns = []
    uses = {source.name: _find_uses(source.text) for source in sources()}
    everywhere = set().union(*uses.values())
    for source in sources():
        tree = source.tree
        names = {id(node): name for name, node in _constants(tree).items() if isinstance(node, ast.Call)}
        scope: dict[str, Any] = {"re": re}
        for call in _calls(tree):
            try:
                text, flags = _value(call, tree, scope)
            except (NameError, TypeError, AttributeError):
                continue
            mode = call.func.attr  # type: ignore[attr-defined]
            modes: tuple[str, ...] = (mode,)
            if mode == "compile":
                name = names.get(id(call))
                callers = uses[source.name] if name is None or name.startswith("_") else everywhere
                used = [mode for mode in _MODES if (name, mode) in callers]
                modes = tuple(used) or ("search",)
            if text not in _BOUNDED:
                patterns.append(Written(f"{source.name}:{call.lineno}", text, flags, modes))
    return patterns


def _compiled() -> Iterator[Written]:
    """Find the patterns that modules compile of words in data files."""
    everywhere = set().union(*(_find_uses(source.text) for source in sources()))
    for source in sources():
        if f"{_DATA_FILES}.compile_pattern" not in {name for _, name in source.imports}:
            continue
        for name, value in vars(importlib.import_module(source.module)).items():
            patterns = [value] if isinstance(value, re.Pattern) else _inner_patterns(value)
            callers = _find_uses(source.text) if name.startswith("_") else everywhere
            used = [mode for mode in _MODES if (name, mode) in callers]
            for pattern in patterns:
                yield Written(
                    f"{source.name}:{name}", pattern.pattern, pattern.flags, tuple(used) or ("search",)
                )


def _inner_patterns(value: Any) -> list[re.Pattern[str]]:
    """List the patterns of a mapping from languages to rows of name and pattern."""
    rows = value.values() if isinstance(value, Mapping) else ()
    return [cell for row in rows if isinstance(row, tuple) for _, cell in row if isinstance(cell, re.Pattern)]


def _value(call: ast.Call, tree: ast.Module, scope: dict[str, Any]) -> tuple[str | bytes, int]:
    """Work out a pattern and its flags from the constants of its module."""
    simple = [
        node
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        and node.value is not None
        and not any(isinstance(inner, (ast.Call, ast.Lambda)) for inner in ast.walk(node.value))
    ]
    if "\x00done" not in scope:
        scope["\x00done"] = True
        for node in simple:
            plain = ast.unparse(node)
            try:
                exec(plain, scope)
            except Exception:  # noqa: BLE001 - a constant that needs more than constants is no pattern
                continue
    at = 3 if call.func.attr in ("sub", "subn") else 1  # type: ignore[attr-defined]
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if call.func.attr == "compile":  # type: ignore[attr-defined]
        given += call.args[at : at + 1]
    text = eval(ast.unparse(call.args[0]), scope)
    flags = int(eval(ast.unparse(given[0]), scope)) if given else 0
    return text, flags


def _pumps(text: str) -> list[str]:
    """Make the pieces worth repeating: signs that occur in the pattern or stand for a class, their pairs, words."""
    literal = [char for char in dict.fromkeys(re.sub(r"\\[a-zA-Z]", "", text)) if char.isprintable()]
    signs = list(dict.fromkeys([*_REPRESENTATIVES, *literal]))[:60]
    words = re.findall(r"[A-Za-z<\[{'\"!-]{2,}", text)[:12]
    pairs = ["".join(pair) for pair in product("a1 .\n<'-", repeat=2)]
    return [*signs, *pairs, *words, *[word + " " for word in words]]


def _run(pattern: re.Pattern[Any], mode: str, subject: Any) -> None:
    if mode in ("sub", "subn"):
        getattr(pattern, mode)("" if isinstance(subject, str) else b"", subject)
    elif mode == "finditer":
        list(pattern.finditer(subject))
    else:
        getattr(pattern, mode)(subject)


def _time(pattern: re.Pattern[Any], mode: str, subject: Any, times: int) -> float:
    best = float("inf")
    for _ in range(times):
        before = time.process_time()
        _run(pattern, mode, subject)
        best = min(best, time.process_time() - before)
    return best


def _is_linear(pattern: re.Pattern[Any], mode: str, make: Any) -> bool:
    """Tell whether twice the subject takes about twice the time; what takes next to nothing is linear enough."""
    small, middle, large = _SIZES
    smallest = make(small)
    screened = _time(pattern, mode, smallest, 1)
    if screened >= _SCREENED_S:
        screened = min(screened, _time(pattern, mode, smallest, 1))
    if screened < _SCREENED_S:
        return True
    # what fails below takes more than nine times the smallest, so most patterns need no second measurement
    if _time(pattern, mode, make(large), 1) <= 9 * screened:
        return True
    first, second, third = (_time(pattern, mode, make(size), 3) for size in (small, middle, large))
    return not (second > 3 * first and third > 3 * second)


@pytest.mark.parametrize("written", [*_written(), *_compiled()], ids=lambda written: written.where)
def test_twice_the_text_takes_twice_the_time(written: Written) -> None:
    text = written.text if isinstance(written.text, str) else written.text.decode("latin-1")
    pattern = re.compile(written.text, written.flags)
    is_bytes = isinstance(written.text, bytes)
    for pump in _pumps(text):
        for before, after in (("", ""), ("", "\x01"), (text[:1], "\x01")):

            def make(size: int, pump: str = pump, before: str = before, after: str = after) -> Any:
                made = before + pump * (size // len(pump)) + after
                return made.encode("utf-8") if is_bytes else made

            for mode in written.modes:
                assert _is_linear(pattern, mode, make), f"{mode} of {pump!r} repeated"
