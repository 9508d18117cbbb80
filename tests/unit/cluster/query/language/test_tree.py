"""Filters that are written down again mean what they meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from cluster.errors import FilterSyntax
from cluster.query.language.parser import parse
from cluster.query.language.tree import Node, render_filter
from tests.unit.cluster.query.strategies import STEADY, trees

GOOD = [
    json.loads(line)["filter"]
    for line in (Path(__file__).parent / "corpus/good.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("text", [*GOOD, "\\-Alder:1", "a:\\-b", "a:(\\-b* OR -c)", "x:\\OR"])
def test_a_good_filter_comes_back_as_the_same_tree(text: str) -> None:
    assert parse(render_filter(parse(text))) == parse(text)


@STEADY
@given(trees)
def test_what_was_written_once_stays_as_it_is(tree: Node) -> None:
    try:
        read = parse(render_filter(tree))
    except FilterSyntax:
        return
    assert parse(render_filter(read)) == read


def test_plain_filters_are_written_as_people_write_them() -> None:
    text = 'brand:"Alder & Sons" AND (size:M OR NOT rating:["4" TO *])'
    assert render_filter(parse(text)) == text
