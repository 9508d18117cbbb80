from __future__ import annotations

from actors.retrieval.html_text import HtmlToken, scan_html, text_from_html


def test_the_text_of_a_page_has_neither_tags_nor_scripts() -> None:
    head = "<html><head><style>p{}</style><script>alert(1)</script></head>"
    page = head + "<body><h1>Bulb&nbsp;guide</h1><p>Plant <b>deep</b></p>"
    assert text_from_html(page, 2_000) == "Bulb guide Plant deep"
    assert text_from_html(page, 4) == "Bulb"


def test_a_scan_yields_texts_and_tags_outside_of_hidden_elements() -> None:
    page = "<p>Plant<!-- not --> &amp; water<nav><p>menu</p></nav><BR/><form>open"
    assert list(scan_html(page)) == [
        HtmlToken("", "p"),
        HtmlToken("Plant"),
        HtmlToken(" &amp; water"),
        HtmlToken("", "nav", is_end=True),
        HtmlToken("", "br"),
        HtmlToken("open"),
    ]
