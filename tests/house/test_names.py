"""Names follow the vocabulary: no banned words, unique public classes, module names made of plain nouns."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.house.bindings import BANNED, split_words
from tests.house.tree import ROOT, Source, sources, sources_of_tests
from tests.house.words import ACTIVITIES, COMPOUNDS, MODIFIERS, NOUNS, TERMS, VERBS

ALLOWED_NAMES = {
    "NotFound": "the error of HTTP status 404",
    "tell": "the method of Python's file protocol",
    "common": "the method of learners that users wrote",
}
"Name -> why it stays although a word of it is banned."

LISTED_WORDS = NOUNS | ACTIVITIES | VERBS | TERMS | MODIFIERS


def test_no_name_has_a_banned_word() -> None:
    strays = [
        f"{source.name}:{line} {name}"
        for source in (*sources(), *sources_of_tests())
        for line, name in _definitions(source)
        if set(split_words(name)) & BANNED and name not in ALLOWED_NAMES
    ]
    strays += [
        source.name
        for source in (*sources(), *sources_of_tests())
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
    doubles = {name: where for name, where in homes.items() if len(where) > 1}
    assert doubles == {}


def test_listed_words_are_sorted_and_stand_once() -> None:
    text = (ROOT / "tests/house/words.py").read_text("utf-8")
    blocks = [block.split() for block in re.findall(r'_words\(\n    """(.*?)"""', text, re.DOTALL)]
    assert len(blocks) == 5
    for words in blocks:
        assert words == sorted(set(words))


def test_module_names_are_made_of_listed_words() -> None:
    strays = set()
    for source in sources():
        for part in source.path.relative_to(ROOT).with_suffix("").parts:
            if not part.startswith("__") and part not in COMPOUNDS:
                *first, last = split_words(part)
                strays |= {f"{word} in {part}" for word in first if word not in LISTED_WORDS}
                strays |= {f"{last} ends {part}"} if last not in LISTED_WORDS - MODIFIERS else set()
    assert sorted(strays) == [], "name a module by nouns; a noun of the field goes into tests/house/words.py"


def _definitions(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
