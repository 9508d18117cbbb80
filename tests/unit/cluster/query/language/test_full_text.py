"""`full_text`: groups without operators want all of their words; words without a field are looked for everywhere."""

from __future__ import annotations

import pytest

from cluster.errors import FilterSyntax
from cluster.query.language.parser import FULL_TEXT, parse
from cluster.query.language.tree import All, Any, Node, Not, Phrase, Term


def word(text: str) -> Term:
    return Term("full_text", text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("full_text:(red trowel)", All((word("red"), word("trowel")))),
        ("full_text:(red OR trowel)", Any((word("red"), word("trowel")))),
        ("full_text:(red AND trowel)", All((word("red"), word("trowel")))),
        ('full_text:"red trowel"', Phrase("full_text", "red trowel")),
        ("full_text:(red (green blue))", All((word("red"), word("green"), word("blue")))),
        ("full_text:(red trowel -green)", All((word("red"), word("trowel"), Not(word("green"))))),
        ("full_text:(red -green)", All((word("red"), Not(word("green"))))),
        ("full_text:red brand:Alder", Any((word("red"), Term("brand", "Alder")))),
        ("brand:(Alder Birk)", Any((Term("brand", "Alder"), Term("brand", "Birk")))),
    ],
)
def test_a_group_requires_all_words_by_default(text: str, tree: Node) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("trowel", word("trowel")),
        ("red AND (steel OR brand:Alder)", All((word("red"), Any((word("steel"), Term("brand", "Alder")))))),
        ("red trowel", Any((word("red"), word("trowel")))),
        ('-"red trowel"', Not(Phrase("full_text", "red trowel"))),
    ],
)
def test_words_without_a_field_belong_to_the_default(text: str, tree: Node) -> None:
    assert parse(text, FULL_TEXT) == tree


def test_without_a_default_a_word_needs_a_field() -> None:
    with pytest.raises(FilterSyntax, match="needs a field"):
        parse("trowel")
