"""Answers as markdown: each sentence cited, nothing of a passage alive."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.answers.extractive.answer_composer import AnswerSentence, ComposedAnswer
from actors.answers.extractive.markdown import (
    escape_text,
    list_cited_products,
    render_citation,
    render_markdown,
)
from actors.archive.messages import Snippet

SNIPPETS = [
    Snippet(
        "a", 0, "A", "", (), "", "https://news.example/a(1)", "Tulips go 15 cm deep. They like sun.", 1.0, ""
    ),
    Snippet("b", 0, "B", "", (), "", "javascript:alert(1)", "Bulbs rest in winter.", 0.5, ""),
]
COMPOSED = ComposedAnswer(
    (
        AnswerSentence("Tulips go 15 cm deep.", 0, 0, 21, 1.0),
        AnswerSentence("Bulbs rest in winter.", 1, 0, 21, 1.0),
        AnswerSentence("They like sun.", 0, 22, 36, 1.0),
    ),
    refused=False,
    confidence=0.9,
)


def test_every_sentence_carries_the_number_of_its_article() -> None:
    assert (
        render_markdown(COMPOSED, SNIPPETS)
        == "Tulips go 15 cm deep [1]. Bulbs rest in winter [2]. They like sun [1]."
    )
    assert list_cited_products(COMPOSED, SNIPPETS) == ("a", "b")


def test_citation_marks_are_configurable() -> None:
    assert render_markdown(COMPOSED, SNIPPETS, cite_start="(", cite_end=")").startswith(
        "Tulips go 15 cm deep (1)."
    )


def test_a_citation_links_to_web_pages_only() -> None:
    shown = render_markdown(COMPOSED, SNIPPETS, cite_link=True)
    assert "deep [[1]](https://news.example/a%281%29)." in shown
    assert "winter [2]." in shown
    assert "javascript" not in shown


def test_addresses_may_be_given_by_article() -> None:
    shown = render_markdown(COMPOSED, SNIPPETS, cite_link=True, urls={"b": "https://shop.example/b"})
    assert "[[2]](https://shop.example/b)" in shown


SENTENCES = (
    "The Harrow Bay mill was bought by Edda *Winther* of Tolvik.",
    "Harrow Bay lies east of Tolvik.",
    "Builders came from Łódź & Co on 14 March.",
)


def render(template: str, *sentences: str) -> str:
    text = " ".join(sentences)
    snippet = Snippet("a", 0, "A", "", (), "", "https://news.example/a", text, 1.0, "")
    cited = tuple(
        AnswerSentence(sentence, 0, text.index(sentence), text.index(sentence) + len(sentence), 1.0)
        for sentence in sentences
    )
    composed = ComposedAnswer(cited, refused=False, confidence=1.0)
    return render_markdown(composed, [snippet], cite_link=True, term_link=template)


def test_names_are_links_to_a_search_each_once() -> None:
    shown = render("https://x.example/s?q=%s", *SENTENCES)
    assert "The [Harrow Bay](https://x.example/s?q=Harrow%20Bay) mill" in shown
    assert "of [Tolvik](https://x.example/s?q=Tolvik) [[1]](https://news.example/a)." in shown
    assert "(https://x.example/s?q=%C5%81%C3%B3d%C5%BA" in shown
    assert shown.count("Bay](") == shown.count("[Tolvik](") == 1
    assert "[Builders]" not in shown
    assert "[March]" not in shown
    assert "](https://x.example" not in render("", *SENTENCES)


@given(st.text("AaBb ()[]*\\_&<.’é%", max_size=40), st.text("Cc ]([)<'", max_size=20))
def test_no_text_breaks_out_of_a_link(first: str, second: str) -> None:
    sentence = f"X {first} Yz {second}"
    shown = render("/s?q=%s", sentence)
    for address in re.findall(r"(?<!\\)\]\(([^)]*)\)", shown):
        assert re.fullmatch(r"/s\?q=[\w%.~-]+|https://news\.example/a", address), shown


def test_a_refusal_is_empty() -> None:
    assert render_markdown(ComposedAnswer(), SNIPPETS) == ""


@pytest.mark.parametrize(
    "url", ["", "ftp://x/y", "javascript:alert(1)", "data:text/html,x", "//x", "http://", "https:// x"]
)
def test_anything_but_a_web_address_is_no_link(url: str) -> None:
    assert render_citation(3, url=url) == "[3]"


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_what_looks_like_markup_is_shown_as_it_is(text: str, expected: str) -> None:
    assert escape_text(text) == expected


@given(st.text("ab[](){}<>!*_`~|#&\\:/.h tp\n1-", max_size=60))
def test_no_sentence_becomes_a_link_an_image_or_a_tag(text: str) -> None:
    shown = escape_text(text)
    assert "<" not in shown
    assert ">" not in shown
    bare = shown.replace("\\\\", "")
    assert "[" not in bare.replace("\\[", "")
    assert "`" not in bare.replace("\\`", "")
