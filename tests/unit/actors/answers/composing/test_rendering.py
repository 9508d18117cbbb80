"""Answers as markdown: each sentence cited, nothing of a passage alive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.answers.archive.messages import Snippet
from actors.answers.composing.compose import Cited, Composed
from actors.answers.composing.rendering import as_markdown, as_text, citation, cited_products

SNIPPETS = [
    Snippet(
        "a", 0, "A", "", (), "", "https://news.example/a(1)", "Tulips go 15 cm deep. They like sun.", 1.0, ""
    ),
    Snippet("b", 0, "B", "", (), "", "javascript:alert(1)", "Bulbs rest in winter.", 0.5, ""),
]
COMPOSED = Composed(
    (
        Cited("Tulips go 15 cm deep.", 0, 0, 21, 1.0),
        Cited("Bulbs rest in winter.", 1, 0, 21, 1.0),
        Cited("They like sun.", 0, 22, 36, 1.0),
    ),
    refused=False,
    confidence=0.9,
)


def test_every_sentence_carries_the_number_of_its_article() -> None:
    assert (
        as_markdown(COMPOSED, SNIPPETS)
        == "Tulips go 15 cm deep [1]. Bulbs rest in winter [2]. They like sun [1]."
    )
    assert cited_products(COMPOSED, SNIPPETS) == ("a", "b")


def test_marks_are_the_apps_own() -> None:
    assert as_markdown(COMPOSED, SNIPPETS, cite_start="(", cite_end=")").startswith(
        "Tulips go 15 cm deep (1)."
    )


def test_a_citation_links_to_web_pages_only() -> None:
    shown = as_markdown(COMPOSED, SNIPPETS, cite_link=True)
    assert "deep [[1]](https://news.example/a%281%29)." in shown
    assert "winter [2]." in shown
    assert "javascript" not in shown


def test_addresses_may_be_given_by_article() -> None:
    shown = as_markdown(COMPOSED, SNIPPETS, cite_link=True, urls={"b": "https://shop.example/b"})
    assert "[[2]](https://shop.example/b)" in shown


def test_a_refusal_is_empty() -> None:
    assert as_markdown(Composed(), SNIPPETS) == ""


@pytest.mark.parametrize(
    "url", ["", "ftp://x/y", "javascript:alert(1)", "data:text/html,x", "//x", "http://", "https:// x"]
)
def test_anything_but_a_web_address_is_no_link(url: str) -> None:
    assert citation(3, url=url) == "[3]"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A *star* and _line_", r"A \*star\* and \_line\_"),
        ("# Not a heading", r"\# Not a heading"),
        ("1. Not a list", "1\\. Not a list"),
        ("a < b & c > d", "a &lt; b & c &gt; d"),
        ("&lt;b&gt;", "&amp;lt;b&amp;gt;"),
        ("[x](y)", "x"),
        ("He said [sic] so", r"He said \[sic\] so"),
        ("Proven [7] twice", "Proven twice"),
    ],
)
def test_what_looks_like_markup_is_shown_as_it_is(text: str, wanted: str) -> None:
    assert as_text(text) == wanted


@given(st.text("ab[](){}<>!*_`~|#&\\:/.h tp\n1-", max_size=60))
def test_no_sentence_becomes_a_link_an_image_or_a_tag(text: str) -> None:
    shown = as_text(text)
    assert "<" not in shown
    assert ">" not in shown
    bare = shown.replace("\\\\", "")
    assert "[" not in bare.replace("\\[", "")
    assert "`" not in bare.replace("\\`", "")
