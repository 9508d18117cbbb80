"""Generated records and filters over one small world, so that filters often match; and counted steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any as Anything

from hypothesis import settings
from hypothesis import strategies as st

from cluster.query.language.tree import (
    All,
    Any,
    Everything,
    Exists,
    Node,
    Not,
    Phrase,
    Range,
    Regex,
    Term,
    Wildcard,
)

STEADY = settings(
    derandomize=not os.environ.get("HOUSE_FREE_SEED"), deadline=None, max_examples=250, database=None
)
"The settings of every property test here: the same examples each time, unless asked otherwise."

WORDS = [
    "red",
    "Red",
    "trowel",
    "Größe",
    "STRASSE",
    "straße",
    "園芸",
    "über",
    "naïve",
    "42",
    "4.0",
    "a-b",
    "ﬁn",
    "",
]
TEXTS = [
    "Alder",
    "alder",
    "Alder & Sons",
    "M",
    "true",
    "4",
    "4.0",
    "-5",
    "1e1",
    "2024-01-15",
    "2024",
    "a*b",
    "😀",
    "",
    " ",
]
DATES = [
    "2024-01-15T10:30:00Z",
    "2024-01-15",
    "2023-12-31T23:59:59.999Z",
    "2024-01-15T12:30:00+02:00",
    "nonsense",
]
NUMBERS = [0, 4, 4.0, 4.5, -5, 10, 1e300, 2024, 9_007_199_254_740_993]

texts = st.sampled_from(TEXTS)
scalars = st.one_of(texts, st.sampled_from(NUMBERS), st.booleans(), st.sampled_from(DATES))
sentences = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
values = st.one_of(st.none(), scalars, st.lists(st.one_of(st.none(), scalars), max_size=3))

records: st.SearchStrategy[dict[str, Anything]] = st.fixed_dictionaries(
    {},
    optional={
        "product_id": st.sampled_from(["p-1", "p-2", "story_7"]),
        "title": sentences,
        "html": sentences.map(lambda text: f"<p class='red'>{text}</p><script>trowel</script> &amp; <!-- x -->"),
        "brand": values,
        "price": st.sampled_from(NUMBERS),
        "availability": st.sampled_from(["IN_STOCK", "OUT_OF_STOCK"]),
        "published_at": st.one_of(st.none(), st.sampled_from(DATES)),
        "tags": st.lists(texts, max_size=3),
        "categories": st.lists(st.lists(texts, max_size=2), max_size=2),
        "children": st.lists(st.fixed_dictionaries({"id": texts}, optional={"title": sentences}), max_size=2),
        "custom_attributes": st.dictionaries(st.sampled_from(["x", "y", "x.y"]), values, max_size=3),
    },
)  # fmt: skip

fields = st.sampled_from(
    ["title", "html", "brand", "price", "availability", "published_at", "tags", "categories", "children.title",
     "children.id", "children", "custom_attributes.x", "attributes.y", "custom_attributes.x.y", "custom_attributes",
     "product_id", "product_group_id", "condition", "enable_question_answering", "nowhere"]
)  # fmt: skip

bound = st.one_of(
    texts, st.sampled_from(WORDS), sentences, st.sampled_from(DATES), st.sampled_from(["False", "TRUE"])
)
ends = st.one_of(st.none(), bound)
globs = st.lists(
    st.sampled_from(["*", "?", "a", "A", "lder", "r", "e", "\\*", "ß", "4"]), min_size=1, max_size=4
)
expressions = st.sampled_from(
    ["[Aa]lder.*", ".*", ".+", "p-\\d", "[^a-z]+", "(red|über)?", "\\w{2,4}", "4(\\.0)?", '"a*b"', ".", ""]
)

leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(Term, fields, bound),
    st.builds(Phrase, fields, bound),
    st.builds(Wildcard, fields, globs.map("".join)),
    st.builds(Regex, fields, expressions),
    st.builds(Exists, fields),
    st.builds(Range, fields, ends, ends, st.booleans(), st.booleans()),
    st.just(Everything()),
)
trees: st.SearchStrategy[Node] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, max_size=3).map(lambda nodes: All(tuple(nodes))),
        st.lists(inner, max_size=3).map(lambda nodes: Any(tuple(nodes))),
    ),
    max_leaves=6,
)


def steps_of(run: Callable[[], object]) -> int:
    """Count the bytecode instructions of a call: work without a clock."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Anything:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def height_of(node: Node) -> int:
    """Measure a tree."""
    tallest, waiting = 0, [(node, 1)]
    while waiting:
        item, height = waiting.pop()
        tallest = max(tallest, height)
        if isinstance(item, (All, Any)):
            waiting.extend((child, height + 1) for child in item.children)
        elif isinstance(item, Not):
            waiting.append((item.child, height + 1))
    return tallest
