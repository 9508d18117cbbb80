"""Texts to trees, and mistakes to kinds and positions: a corpus, budgets, and any text at all."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.errors import FilterSyntax
from cluster.query.language.limits import (
    MAX_BYTES,
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_FIELD,
    MAX_SEGMENTS,
    PATTERN_WEIGHT,
    RANGE_WEIGHT,
    WORD_WEIGHT,
)
from cluster.query.language.parser import parse
from tests.unit.cluster.query.strategies import STEADY, height_of
from tests.unit.cluster.query.tree_text import render_tree

_RANGES, _WORDS, _PATTERNS = (MAX_CLAUSES // weight for weight in (RANGE_WEIGHT, WORD_WEIGHT, PATTERN_WEIGHT))
_CORPUS = Path(__file__).parent / "corpus"


def _lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (_CORPUS / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("line", _lines("good.jsonl"), ids=lambda line: line["filter"][:60])
def test_a_valid_filter_has_the_expected_tree(line: dict[str, str]) -> None:
    assert render_tree(parse(line["filter"])) == line["tree"]


@pytest.mark.parametrize("line", _lines("bad.jsonl"), ids=lambda line: line["filter"][:60])
def test_a_bad_filter_is_refused_where_it_is_wrong(line: dict[str, str]) -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse(line["filter"])
    assert (caught.value.facts["kind"], caught.value.facts["position"]) == (line["kind"], line["position"])
    assert f"(at character {line['position']})" in caught.value.message


def test_a_message_does_not_repeat_a_long_value() -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse("price:" + "x" * 5_000)
    assert len(caught.value.message) < 120


def _joined(clause: str, count: int) -> str:
    return " ".join([clause] * count)


@pytest.mark.parametrize(
    ("kind", "most", "over"),
    [
        ("too_long", "a:" + "x" * (MAX_BYTES - 2), "a:" + "x" * (MAX_BYTES - 1)),
        ("too_long", "a:" + "é" * (MAX_BYTES // 2 - 1), "a:" + "é" * (MAX_BYTES // 2)),
        ("too_many_clauses", _joined("a:1", MAX_CLAUSES), _joined("a:1", MAX_CLAUSES + 1)),
        ("too_many_clauses", _joined("a:*", MAX_CLAUSES), _joined("a:*", MAX_CLAUSES + 1)),
        ("too_many_clauses", _joined("*:*", MAX_CLAUSES), _joined("*:*", MAX_CLAUSES + 1)),
        ("too_many_clauses", _joined("a:[1 TO 2]", _RANGES), _joined("a:[1 TO 2]", _RANGES) + " a:1"),
        ("too_many_clauses", _joined("created_at:2024", _RANGES), _joined("created_at:2024", _RANGES) + " a:1"),
        ("too_many_clauses", f'title:"{_joined("x", _WORDS)}"', f'title:"{_joined("x", _WORDS + 1)}"'),
        ("too_many_clauses", _joined('title:"!"', MAX_CLAUSES), _joined('title:"!"', MAX_CLAUSES + 1)),
        ("too_many_clauses", _joined("a:x*", _PATTERNS), _joined("a:x*", _PATTERNS) + " a:1"),
        ("too_many_clauses", _joined("a:/x/", _PATTERNS), _joined("a:/x/", _PATTERNS) + " a:1"),
        ("too_deep", "(" * MAX_DEPTH + "a:1" + ")" * MAX_DEPTH, "(" * (MAX_DEPTH + 1) + "a:1" + ")" * (MAX_DEPTH + 1)),
        ("field", "a" * MAX_FIELD + ":1", "a" * (MAX_FIELD + 1) + ":1"),
        ("field", "a." * (MAX_SEGMENTS - 1) + "a:1", "a." * MAX_SEGMENTS + "a:1"),
    ],
)  # fmt: skip
def test_each_budget_admits_its_limit_and_not_one_more(kind: str, most: str, over: str) -> None:
    parse(most)
    with pytest.raises(FilterSyntax) as caught:
        parse(over)
    assert caught.value.facts["kind"] == kind


def test_a_tree_that_grows_taller_than_its_groups_is_refused() -> None:
    text = "a:1"
    for _ in range(40):
        text = f"NOT (a:1 AND (b:1 OR {text}))"
    with pytest.raises(FilterSyntax) as caught:
        parse(text)
    assert caught.value.facts["kind"] == "too_deep"


def test_the_tallest_tree_still_travels() -> None:
    text = "a:1"
    for level in range(MAX_DEPTH - 2):
        text = f"(b:1 {'AND' if level % 2 else 'OR'} {text})"
    tree = parse(text)
    assert height_of(tree) > MAX_DEPTH - 3
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree) == hash(parse(text))


def test_half_a_surrogate_pair_is_refused_where_it_stands() -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse('a:"x\ud800"')
    assert (caught.value.facts["kind"], caught.value.facts["position"]) == ("character", 4)


@STEADY
@given(st.text(max_size=60))
@example("a:\x00")
def test_any_text_is_parsed_or_refused_with_a_position_inside_it(text: str) -> None:
    _parsed_or_refused(text)


@STEADY
@given(
    st.lists(
        st.sampled_from(
            ["a", "brand", ":", " ", "(", ")", "[", "]", "{", "}", '"', "/", "\\", "*", "?", "+", "-", "!", "&&",
             "||", " AND ", " OR ", " NOT ", " TO ", "1", "2024-01-01T00:00:00Z", "title:", "price:", "{!", "^", "~",
             "published_at:", "|", "&", "é", "😀"]
        ),
        max_size=25,
    ).map("".join)
)  # fmt: skip
def test_any_mix_of_the_language_is_parsed_or_refused_with_a_position_inside_it(text: str) -> None:
    _parsed_or_refused(text)


def test_damaged_good_filters_are_parsed_or_refused() -> None:
    rng = random.Random(7)
    texts = [line["filter"] for line in _lines("good.jsonl")]
    for _ in range(3_000):
        text = list(rng.choice(texts) + " " + rng.choice(texts))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 2)] = rng.choice('():"[]{}/\\*?+-! ANDOR&|^~')
        _parsed_or_refused("".join(text))


def _parsed_or_refused(text: str) -> None:
    refused = None
    try:
        tree = parse(text)
    except FilterSyntax as error:
        refused = error.facts
    if refused is not None:
        assert 0 <= refused["position"] <= len(text)
        assert refused["kind"]
        return
    assert height_of(tree) <= MAX_DEPTH
    assert parse(text) == tree
