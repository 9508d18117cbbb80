"""Callers' patterns: the same language as Python's engine where both know it, and nothing that can blow up."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import FilterSyntax
from cluster.query.columnar.dictionary import TextDictionary
from cluster.query.language.automaton import Automaton, StepBudget
from cluster.query.language.patterns import compile_regex, compile_wildcard
from cluster.query.language.text_analysis import fold
from tests.unit.cluster.query.strategies import STEADY, steps_of

_atoms = st.sampled_from(
    [
        "a",
        "b",
        "é",
        ".",
        "[ab]",
        "[^a]",
        "[a-c]",
        "[^b-é]",
        "\\d",
        "\\w",
        "\\S",
        "\\.",
        "[\\d-]",
        "(?:)",
        "😀",
    ]
)
_expressions = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.builds("({}|{})".format, inner, inner),
        st.builds(
            "(?:{}){}".format, inner, st.sampled_from(["?", "*", "+", "{2}", "{0}", "{1,}", "{0,2}", "{1,3}"])
        ),
    ),
    max_leaves=8,
)
_subjects = st.text(alphabet="abcé1.-😀 \n", max_size=8)


@STEADY
@given(_expressions, st.lists(_subjects, min_size=1, max_size=12))
def test_expressions_match_what_python_matches(expression: str, subjects: list[str]) -> None:
    theirs = re.compile(expression, re.DOTALL | re.ASCII)
    ours = compile_regex(expression)
    for subject in subjects:
        assert ours.accepts(subject) == bool(theirs.fullmatch(subject)), (expression, subject)


@STEADY
@given(
    st.text(alphabet="ab*?", max_size=8),
    st.lists(st.text(alphabet="ab\n", max_size=8), min_size=1, max_size=12),
)
def test_wildcards_match_what_the_shell_matches(pattern: str, subjects: list[str]) -> None:
    ours = compile_wildcard(pattern)
    for subject in subjects:
        assert ours.accepts(subject) == fnmatch.fnmatchcase(subject, pattern), (pattern, subject)


@STEADY
@given(_expressions, st.lists(_subjects, max_size=20))
def test_all_texts_at_once_are_decided_like_one_at_a_time(expression: str, subjects: list[str]) -> None:
    ours = compile_regex(expression)
    vocabulary = TextDictionary()
    for subject in subjects:
        vocabulary.add(subject)
    for filler in range(300):
        vocabulary.add("a" * (filler % 7) + chr(0x4E00 + filler))
    chosen = vocabulary.like(ours)
    assert not chosen[-1]
    for subject in subjects:
        assert chosen[vocabulary.find(subject)] == ours.accepts(subject)


def test_a_large_vocabulary_is_decided_block_by_block_while_it_grows() -> None:
    vocabulary, pattern = TextDictionary(), compile_regex(r"item_\d*7\d*(x|é)")
    for size in (10, 5_000, 8_192, 8_193, 8_600, 20_000):
        for number in range(len(vocabulary), size):
            vocabulary.add(f"item_{number}{'xyé😀'[number % 4]}")
        expected = [("7" in str(number)) and number % 4 in (0, 2) for number in range(size)]
        assert vocabulary.like(pattern)[:-1].tolist() == expected


def test_a_block_with_more_characters_than_a_byte_counts_is_decided_too() -> None:
    vocabulary = TextDictionary()
    for number in range(9_000):
        vocabulary.add(chr(0x4E00 + number) + "x" * (number % 3))
    assert np.flatnonzero(vocabulary.like(compile_regex("[\u4e00-\u4e05].*"))).tolist() == [0, 1, 2, 3, 4, 5]
    assert int(vocabulary.like(compile_wildcard("?xx")).sum()) == 3_000


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("story_.+", "story_7", "story_"), ("^a|b$", "a", "ab"), ('a".*"b', "a.*b", "axb"), ("a\\nb", "a\nb", "anb"),
        ("", "", "a"), ("a|", "", "b"), ("()", "", "a"), ("[]a]+", "a]", "b"), ("[^]]", "a", "]"), ("[a-]", "-", "b"),
        ("a&b", "a&b", "a"), ("~#@<1>", "~#@<1>", ""), ("a{0}", "", "a"), ("a{2,3}b", "aab", "ab"), ("\\/", "/", "a"),
        ("((((a))))", "a", "b"), ("(a|b|){3}", "ab", "abab"), (".", "\n", ""), ("\\W", "é", "e"), ("a\\|b", "a|b", "a"),
    ],
)  # fmt: skip
def test_an_expression_matches_whole_values(expression: str, matching: str, other: str) -> None:
    assert compile_regex(expression).accepts(matching)
    assert not compile_regex(expression).accepts(other)


def test_wildcards_fold_what_stands_between_their_signs() -> None:
    assert compile_wildcard("STRASSE?*", fold=fold).accepts("strassen")
    assert compile_wildcard("\\*\\?x").accepts("*?x")
    assert not compile_wildcard("\\*x").accepts("ax")


@pytest.mark.parametrize(
    "expression",
    [".*a.{12}", "(a|b)*a(a|b){10}", "(x{100}){100}", "((a?){300}){300}", "a{513}", "(" * 20 + "a" + ")" * 20,
     "[a-z]" * 600, "(a||||||||){500}(b|||||||){500}", "x" * 2_000],
)  # fmt: skip
def test_an_expression_that_would_explode_is_refused_soon(expression: str) -> None:
    def refused() -> None:
        with pytest.raises(FilterSyntax) as caught:
            compile_regex(expression)
        assert caught.value.facts["kind"] == "pattern"

    assert steps_of(refused) < 4_000_000


@pytest.mark.parametrize("expression", ["(.*a){20}", "(a*)*b", "(a|aa)+$", "(.*){10}x", "a?a?a?a?a?a?aaaaaa"])
@pytest.mark.parametrize("make", [compile_regex, lambda pattern: compile_wildcard("*a*a*a*a*b")])
def test_twice_the_text_takes_twice_the_steps(expression: str, make: Callable[[str], Automaton]) -> None:
    pattern = make(expression)
    pattern.accepts("a")
    steps = [steps_of(lambda size=size: pattern.accepts("a" * size)) for size in (500, 1_000, 2_000)]
    assert steps[1] <= 2.1 * steps[0]
    assert steps[2] <= 2.1 * steps[1]


def test_effort_is_shared_between_the_patterns_of_one_filter() -> None:
    effort = StepBudget(1_000)
    spent = []
    for _ in range(3):
        before = effort.left
        compile_regex("[a-z]{10}", effort)
        spent.append(before - effort.left)
    assert spent[0] == spent[1] == spent[2] > 0
    with pytest.raises(FilterSyntax, match="too many steps"):
        compile_regex("[a-z]{200}", effort)
