from __future__ import annotations

import time

import pytest
from selectolax.lexbor import LexborHTMLParser

from actors.search.paragraphs.cutting import DEEPEST, MOST_PARAGRAPHS, paragraphs
from actors.search.paragraphs.showing import show, written

PAGE = """
<h1>Soil</h1><!-- note --><p>Mulch is a <b onclick="x()">loose</b> <a href="/mulch?a=1&amp;b=2">cover</a> over soil.</p>
<script>document.write("never shown to anybody")</script>
<nav><p>one two three four</p></nav>
<div hidden><p>not to be seen here</p></div>
<ul><li>Spread it<br>in May</li><li>ok</li></ul>
<h2>Compost</h2>
<div>Text of its own<p>and a paragraph inside</p></div>
<my-box><p>Inside a stranger's element</p></my-box>
"""


def test_a_page_is_cut_into_what_is_seen_under_its_headings() -> None:
    assert [(found.text, found.heading) for found in paragraphs(PAGE)] == [
        ("Mulch is a loose cover over soil.", "Soil"),
        ("Spread it in May", "Soil"),
        ("Text of its own", "Compost"),
        ("and a paragraph inside", "Compost"),
        ("Inside a stranger's element", "Compost"),
    ]


@pytest.mark.parametrize("html", ["", " ", "<p></p>", "<!--", "<p>two words</p>", "\x00", "<script>a b c d"])
def test_a_page_without_paragraphs_has_none(html: str) -> None:
    assert paragraphs(html) == []


def test_text_without_markup_is_one_paragraph() -> None:
    assert [found.text for found in paragraphs("just some plain words")] == ["just some plain words"]


def test_selectors_lead_a_browser_to_the_paragraph() -> None:
    page = LexborHTMLParser(PAGE)
    for found in paragraphs(PAGE):
        shown = show(PAGE, found.number)
        assert shown is not None
        assert shown.css_selector.startswith(":root > body:nth-child(2) > ")
        [node] = page.css(shown.css_selector)
        assert " ".join(node.text().split()).startswith(found.text.split(" ")[0])


def test_a_paragraph_is_shown_with_its_html_and_the_block_around_it() -> None:
    shown = show(PAGE, paragraphs(PAGE)[0].number, html=True, around=True)
    assert shown is not None
    assert shown.css_selector == ":root > body:nth-child(2) > p:nth-child(2)"
    assert shown.html == ('<p>Mulch is a <b>loose</b> <a href="/mulch?a=1&amp;b=2">cover</a> over soil.</p>')
    around = shown.around
    assert around is not None
    assert (around.css_selector, around.title) == (":root > body:nth-child(2)", "Soil")
    children = LexborHTMLParser(around.html).css("body > div > *")
    begin, end = around.relevant
    assert [child.tag for child in children[begin:end]] == ["h1", "p", "div", "ul"]
    place = int(around.answer_css_selector.rpartition("(")[2].rstrip(")"))
    assert children[place - 1].text() == "Mulch is a loose cover over soil."
    assert show(PAGE, 999) is None


@pytest.mark.parametrize(
    "hostile",
    [
        '<p>a b c <img src=x onerror="alert(1)"></p>', '<p onmouseover="alert(1)">a b c</p>',
        '<p>a b c <a href="javascript:alert(1)">d</a></p>', '<p>a b c <a href=" jav&#x09;ascript:alert(1)">d</a></p>',
        '<p>a b c <a href="data:text/html,<script>alert(1)</script>">d</a></p>', "<p>a b c <svg onload=alert(1)></p>",
        '<p>a b c <iframe src="javascript:alert(1)"></iframe></p>',
        '<p style="background:url(javascript:alert(1))">a b c</p>',
        '<p>a b c <a title="&quot; onclick=&quot;alert(1)">d</a></p>',
        "<p>a b c &lt;script&gt;alert(1)&lt;/script&gt;</p>",
        '<p>a b c <math><mtext><style><img src=x onerror=alert(1)></style></mtext></math></p>',
    ],
)  # fmt: skip
def test_nothing_of_a_page_runs_in_a_browser(hostile: str) -> None:
    shown = show(hostile, paragraphs(hostile)[0].number, html=True, around=True)
    assert shown is not None
    assert shown.around is not None
    for html in (shown.html, shown.around.html):
        again = LexborHTMLParser(html)
        for node in again.root.traverse():  # type: ignore[union-attr]
            assert node.tag not in ("script", "img", "svg", "iframe", "style", "math")
            assert not any(name.startswith("on") or name == "style" for name in node.attributes)
            target = "".join((node.attributes.get("href") or "").split()).lower()
            assert not target.startswith(("javascript:", "data:"))


@pytest.mark.parametrize(
    "hostile",
    [
        "<div>" * 100_000 + "one two three" + "</div>" * 100_000, "<div>x y z " * 40_000, "<b>x y z " * 40_000,
        "<p><b>x y z" * 40_000, "<p" * 100_000, "<" * 300_000, "<li>a b c" * 40_000, "<table><tr><td>a b c" * 20_000,
        "<p>x y z</p>" * 40_000, "&amp" * 80_000, "<!--" * 80_000, "<ul><li>a b c" * 30_000,
    ],
)  # fmt: skip
def test_no_page_takes_long(hostile: str) -> None:
    started = time.process_time()
    found = paragraphs(hostile)
    if found:
        show(hostile, found[-1].number, html=True, around=True)
    assert time.process_time() - started < 3
    assert len(found) <= MOST_PARAGRAPHS


def test_elements_in_each_other_are_read_to_a_depth() -> None:
    inside = "<div>" * (DEEPEST - 1) + "one two three" + "</div>" * (DEEPEST - 1)
    assert [found.text for found in paragraphs(inside)] == ["one two three"]
    assert written(LexborHTMLParser(inside).root)
