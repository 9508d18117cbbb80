"""Names follow the vocabulary: no banned words, unique public classes, module names made of plain nouns."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.tree import ROOT, Source, sources
from tests.house.words import MODULE_WORDS

BANNED = frozenset(
    "told tell said says kin crowd standing champion means wanted wishes known held lot laid lay errand taste asked "
    "found own did here utils helpers common misc core base manager processor".split()
)
ALLOWED_NAMES = {
    "NotFound": "the error of HTTP status 404",
    "tell": "the method of Python's file protocol",
    "common": "the method of learners that users wrote",
}
"Name -> why it stays although a word of it is banned."

ALLOWED_PAIRS: dict[str, str] = {}
"Public class with several definitions -> why."


def test_no_name_has_a_banned_word() -> None:
    strays = [
        f"{source.name}:{line} {name}"
        for source in (*sources(), *_test_sources())
        for line, name in _definitions(source)
        if set(split_words(name)) & BANNED and name not in ALLOWED_NAMES
    ]
    strays += [
        source.name
        for source in (*sources(), *_test_sources())
        for part in source.path.relative_to(ROOT).with_suffix("").parts
        if set(split_words(part)) & BANNED
    ]
    assert strays == []


def test_public_classes_have_unique_names() -> None:
    homes = defaultdict(list)
    for source in sources():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(source.name)
    doubles = {name: where for name, where in homes.items() if len(where) > 1 and name not in ALLOWED_PAIRS}
    assert doubles == {}


def test_module_names_are_made_of_listed_words() -> None:
    strays = set()
    for source in sources():
        for part in source.path.relative_to(ROOT).with_suffix("").parts:
            if part.startswith("__"):
                continue
            strays |= {f"{word} in {source.name}" for word in split_words(part) if word not in MODULE_WORDS}
    assert sorted(strays) == [], "name a module by nouns; add a noun of the field to tests/house/words.py"


def test_every_listed_word_is_in_use() -> None:
    used = {
        word
        for source in sources()
        for part in source.path.relative_to(ROOT).with_suffix("").parts
        for word in split_words(part)
    }
    assert sorted(set(MODULE_WORDS) - used) == []


def split_words(name: str) -> list[str]:
    """Split `EngineState` or `engine_state` into its words, in lower case."""
    pattern = r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+"
    return [word.lower() for part in name.split("_") for word in re.findall(pattern, part)]


def _definitions(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


@cache
def _test_sources() -> tuple[Source, ...]:
    return tuple(Source(path) for path in sorted((ROOT / "tests").rglob("*.py")) if _is_ours(path))


def _is_ours(path: Path) -> bool:
    return "node_modules" not in path.parts
