"""The same filters read by luqum, an independent parser, and by rules written from the Lucene query parser's."""

from __future__ import annotations

from typing import Any as Anything

from hypothesis import given
from hypothesis import strategies as st
from luqum import tree as other
from luqum.parser import parser as other_parser

from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.language.parser import parse
from tests.unit.cluster.query.strategies import STEADY

Record = dict[str, Anything]

_ARE = st.sampled_from(["0", "1", "2"])
_clauses = st.one_of(
    st.builds("{}:{}".format, st.sampled_from("abc"), _ARE),
    st.builds('{}:"{}"'.format, st.sampled_from("abc"), _ARE),
    st.builds("{}:({} OR {})".format, st.sampled_from("abc"), _ARE, _ARE),
    st.builds("{}:({} AND NOT {})".format, st.sampled_from("abc"), _ARE, _ARE),
    st.builds("{}:[{} TO {}]".format, st.sampled_from("abc"), _ARE, _ARE),
    st.builds("{}:{{{} TO {}]".format, st.sampled_from("abc"), _ARE, _ARE),
    st.builds("{}:[* TO {}}}".format, st.sampled_from("abc"), _ARE),
    st.builds("{}:*".format, st.sampled_from("abc")),
    st.just("*:*"),
)


def _operated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = inner.map("({})".format)
    operand = st.one_of(_clauses, _clauses.map("NOT {}".format), grouped, grouped.map("NOT {}".format))
    beside = st.one_of(
        _clauses,
        grouped,
        *(_clauses.map((sign + "{}").format) for sign in ("+", "-", "NOT ")),
        grouped.map("-{}".format),
    )
    return st.one_of(
        st.lists(operand, min_size=1, max_size=4).flatmap(
            lambda parts: st.lists(
                st.sampled_from([" AND ", " OR "]), min_size=len(parts), max_size=len(parts)
            ).map(
                lambda joins: "".join(part + join for part, join in zip(parts, joins, strict=True))[
                    : -len(joins[-1])
                ]
            )
        ),
        st.lists(beside, min_size=1, max_size=4).map(" ".join),
    )


_filters = st.recursive(_clauses, _operated, max_leaves=8)
_records: st.SearchStrategy[Record] = st.dictionaries(
    st.sampled_from("abc"),
    st.one_of(_ARE, st.lists(_ARE, max_size=2), st.sampled_from([0, 1, 2])),
    max_size=3,
)


@STEADY
@given(_filters, st.lists(_records, min_size=1, max_size=8))
def test_we_find_what_luqum_reads(text: str, records: list[Record]) -> None:
    ours, theirs = parse(text), other_parser.parse(text)
    for record in records:
        assert matches_filter(ours, record) == _holds(theirs, record, None), text


def _holds(node: Anything, record: Record, field: str | None) -> bool:
    if isinstance(node, other.SearchField):
        if node.name == "*":
            return True
        return _holds(node.expr, record, node.name)
    if isinstance(node, (other.Group, other.FieldGroup)):
        return _holds(node.expr, record, field)
    if isinstance(node, (other.Not, other.Prohibit)):
        return not _holds(node.a, record, field)
    if isinstance(node, other.Plus):
        return _holds(node.a, record, field)
    if isinstance(node, other.AndOperation):
        return all(_holds(child, record, field) for child in node.operands)
    if isinstance(node, other.OrOperation):
        return any(_holds(child, record, field) for child in node.operands)
    if isinstance(node, other.UnknownOperation):
        signs = [(_sign(child), _holds(_bare(child), record, field)) for child in node.operands]
        return _occurs(signs)
    value_or_values = record.get(field or "", [])
    texts = [
        str(value) for value in (value_or_values if isinstance(value_or_values, list) else [value_or_values])
    ]
    if isinstance(node, other.Range):
        return any(_inside(node, value) for value in texts)
    term = str(node.value).strip('"')
    return bool(texts) if term == "*" else term in texts


def _inside(node: other.Range, value: str) -> bool:
    low, high = str(node.low).strip(), str(node.high).strip()
    above = low == "*" or value > low or (node.include_low and value == low)
    return above and (high == "*" or value < high or (node.include_high and value == high))


def _sign(node: Anything) -> str:
    return {other.Plus: "+", other.Prohibit: "-", other.Not: "-"}.get(type(node), "")


def _bare(node: Anything) -> Anything:
    return node.a if _sign(node) else node


def _occurs(signs: list[tuple[str, bool]]) -> bool:
    """Decide a Lucene Boolean query: must, must not, should."""
    must = [occurs for sign, occurs in signs if sign == "+"]
    should = [occurs for sign, occurs in signs if not sign]
    if any(occurs for sign, occurs in signs if sign == "-"):
        return False
    if must:
        return all(must)
    return any(should) if should else True


@STEADY
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "+", "-"]),
            st.sampled_from("abc"),
            _ARE,
            st.sampled_from([" ", " OR ", " || "]),
        ),
        min_size=1,
        max_size=5,
    ).filter(lambda parts: any(part[0] for part in parts)),
    st.lists(_records, min_size=1, max_size=8),
)
def test_signs_mean_what_they_mean_to_solr_whether_or_not_or_stands_between(
    parts: list[tuple[str, str, str, str]], records: list[Record]
) -> None:
    text = "".join(f"{sign}{field}:{value}{join}" for sign, field, value, join in parts)
    tree = parse(text[: -len(parts[-1][3])])
    for record in records:
        signs = [(sign, matches_filter(parse(f"{field}:{value}"), record)) for sign, field, value, _ in parts]
        assert matches_filter(tree, record) == _occurs(signs), text
