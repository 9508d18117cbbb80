"""Work grows with the text and no faster: counted in instructions, not in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.errors import FilterSyntax
from cluster.query.language.parser import parse
from cluster.query.language.text_analysis import split_words, without_markup
from tests.unit.cluster.query.strategies import steps_of

_SHAPES: dict[str, Callable[[int], str]] = {
    "clauses side by side": lambda n: "brand:Alder " * n,
    "clauses joined by both operators": lambda n: " OR ".join(["a:1 AND b:2"] * n),
    "one list of values": lambda n: "size:(" + " OR ".join(["M"] * n) + ")",
    "groups side by side": lambda n: "(a:1 -b:2) " * n,
    "signs": lambda n: "+a:1 -b:2 " * n,
    "ranges": lambda n: "price:[1 TO 2] " * (n // 4),
    "one long word": lambda n: "a:" + "x" * 50 * n,
    "escapes": lambda n: "a:" + "\\x" * n,
    "escapes in a phrase": lambda n: 'a:"' + '\\"' * n + '"',
    "ampersands": lambda n: "a:" + "&x" * n,
    "colons in a time": lambda n: "published_at:(" + "2024-01-01T10:30:00Z " * (n // 4) + ")",
    "words of a text field": lambda n: 'title:"' + "red " * (n // 2) + '"',
    "blanks": lambda n: " " * 30 * n + "a:1",
    "an open quote": lambda n: 'a:"' + "x " * n,
    "open groups": lambda n: "(" * n,
    "signs in a row": lambda n: "-" * n,
    "stars": lambda n: "a:x" + "*" * n,
    "an open expression": lambda n: "a:/" + "(" * n,
    "an expression of counts": lambda n: "a:/" + "a{2}" * (n // 8) + "/",
    "an open range": lambda n: "a:[" + "\\x" * n,
}


def _attempt(text: str) -> None:
    try:
        parse(text)
    except FilterSyntax:
        return


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES.keys())
def test_twice_the_filter_takes_at_most_twice_the_steps(shape: Callable[[int], str]) -> None:
    _attempt(shape(4))
    small, large, larger = (steps_of(lambda n=n: _attempt(shape(n))) for n in (100, 200, 400))
    assert large <= 2.1 * small + 200
    assert larger <= 2.1 * large + 200


@pytest.mark.parametrize(
    "text",
    ["(" * 10_000 + "a:b" + ")" * 10_000, "NOT " * 10_000 + "a:b", "a:b " * 10_000, "a:b OR " * 10_000, "x" * 65_536,
     "-(" * 10_000, "a:(" * 10_000, "a:*x*y " * 5_000, "a:[1 TO 2] " * 5_000, "a:/(.*a){9}/ " * 3_000, "\\" * 65_535],
)  # fmt: skip
def test_what_is_over_a_budget_is_refused_after_bounded_work(text: str) -> None:
    refusals = []

    def refused() -> None:
        with pytest.raises(FilterSyntax) as caught:
            parse(text)
        refusals.append(caught.value)

    assert steps_of(refused) < 1_500_000
    assert len(refusals[0].message) < 200


@pytest.mark.parametrize("piece", ["<", "<p", "<!--", "<script>", "&amp", "<b>x</b>", "<p>x", "< ", "<a <b"])
def test_twice_the_markup_takes_at_most_twice_the_steps(piece: str) -> None:
    steps = [steps_of(lambda n=n: split_words(without_markup(piece * n))) for n in (200, 400, 800)]
    assert steps[1] <= 2.1 * steps[0] + 200
    assert steps[2] <= 2.1 * steps[1] + 200
