from __future__ import annotations

import gzip
import io
import json
import time

import pytest

from cluster.errors import Invalid
from jobs.articles import wordpress_exports
from jobs.articles.feed_documents import LARGEST_DOCUMENT, FeedDocument, decompress_body, parse_feed_document
from jobs.articles.json_ld import LOCKED, parse_page_article

PLACE = "https://news.example.com/feed"


def parse(text: str | bytes, **headers: str) -> FeedDocument:
    body = text if isinstance(text, bytes) else text.encode()
    return parse_feed_document(
        body, PLACE, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def test_rss_with_full_text_images_and_a_modification() -> None:
    document = parse(
        """<rss xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:media="http://search.yahoo.com/mrss/"
        xmlns:dcterms="http://purl.org/dc/terms/" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
        <language>de-DE</language><atom:link rel="next" href="/feed?page=2"/><item><guid>g</guid><title>T</title>
        <link>https://news.example.com/a</link><pubDate>Mon, 02 Mar 2026 10:15:00 +0100</pubDate>
        <dcterms:modified>2026-03-03T00:00:00Z</dcterms:modified><category>World</category>
        <description>Short.</description><content:encoded><![CDATA[<p>Long.</p>]]></content:encoded>
        <media:content url="https://news.example.com/a.jpg" medium="image"/></item></channel></rss>"""
    )
    (story,) = document.entries
    assert (story.html, story.published, story.updated) == (
        "<p>Long.</p>",
        "2026-03-02T09:15:00Z",
        "2026-03-03T00:00:00Z",
    )
    assert (story.language, story.topic, story.images) == ("de", "World", ("https://news.example.com/a.jpg",))
    assert document.linked == ("https://news.example.com/feed?page=2",)


def test_a_document_of_attributes_is_refused_before_it_is_parsed() -> None:
    element = b"<a " + b"".join(b"%c='' " % letter for letter in range(97, 123)) + b"/>"
    with pytest.raises(Invalid, match="attributes"):
        parse(b"<rss>" + element * (LARGEST_DOCUMENT // len(element) - 1) + b"</rss>")


def test_an_encoding_that_the_parser_does_not_know_counts_as_utf_8() -> None:
    item = "<rss><channel><item><guid>g</guid><title>Öl</title></item></channel></rss>"
    (story,) = parse(item, content_type="text/xml; charset=cp037").entries
    assert story.title == "Öl"


def test_atom_announces_removals() -> None:
    document = parse(
        "<feed xmlns='http://www.w3.org/2005/Atom' xmlns:at='http://purl.org/atompub/tombstones/1.0'>"
        "<at:deleted-entry ref='tag:a,1' when='2026-01-01T00:00:00Z'/></feed>"
    )
    assert document.removed == ("tag:a,1",)


def test_a_sitemap_names_pages_and_its_index_the_newest_first() -> None:
    pages = parse(
        """<urlset xmlns="http://www.google.com/schemas/sitemap/0.84" xmlns:n="http://x/news"><url>
        <loc> https://news.example.com/a </loc><lastmod>2026-03-02</lastmod><n:news><n:publication><n:language>en
        </n:language></n:publication><n:title>T</n:title><n:keywords>a, b</n:keywords></n:news></url><url/></urlset>"""
    )
    (story,) = pages.entries
    assert (story.url, story.updated, story.tags, story.language) == (
        "https://news.example.com/a",
        "2026-03-02",
        ("a", "b"),
        "en",
    )
    assert not pages.has_text
    index = parse(
        "<sitemapindex><sitemap><loc>/old.xml</loc><lastmod>2020-01-01</lastmod></sitemap><sitemap><loc>/new.xml</loc>"
        "<lastmod>2026-01-01</lastmod></sitemap><sitemap/></sitemapindex>"
    )
    assert index.linked == ("https://news.example.com/new.xml", "https://news.example.com/old.xml")


def test_json_feed_of_both_versions_and_items_that_are_none() -> None:
    items = [
        {"id": 7, "url": "https://news.example.com/7", "content_text": "Text.", "author": {"name": "Ada"}},
        {"id": "8", "title": "T", "content_html": "<p>x</p>", "tags": [1, "a"], "authors": "nobody"},
        None, "x", {},
    ]  # fmt: skip
    feed = {
        "version": "https://jsonfeed.org/version/1",
        "language": "en-GB",
        "author": {"name": "Desk"},
        "items": items,
    }
    first, second, empty = parse(json.dumps(feed)).entries
    assert (first.id, first.parts[0].text, first.authors, first.language) == ("7", "Text.", ("Ada",), "en")
    assert (second.tags, second.authors, empty.id) == (("a",), ("Desk",), "")


EXPORT = """<?xml version="1.0"?><rss xmlns:excerpt="http://wordpress.org/export/1.2/excerpt/"
 xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:wp="http://wordpress.org/export/1.2/"><channel><language>en-US</language><wp:author><wp:author_login>ada
</wp:author_login><wp:author_display_name>Ada Byron</wp:author_display_name></wp:author>%s</channel></rss>"""
POST = """<item><title>T</title><link>https://news.example.com/t</link><guid>https://news.example.com/?p=1</guid>
<dc:creator>ada</dc:creator><content:encoded><![CDATA[[caption id="1"]One.[/caption]\n\nTwo.]]></content:encoded>
<excerpt:encoded>Short.</excerpt:encoded><wp:post_date_gmt>2026-03-02 09:15:30</wp:post_date_gmt>
<wp:post_modified_gmt>0000-00-00 00:00:00</wp:post_modified_gmt><wp:status>%s</wp:status>
<wp:post_type>%s</wp:post_type><wp:post_password>%s</wp:post_password>
<category domain="category">World</category><category domain="post_tag">x</category></item>"""


def test_an_export_of_wordpress_gives_published_posts_only() -> None:
    posts = [
        ("publish", "post", ""),
        ("draft", "post", ""),
        ("publish", "page", ""),
        ("publish", "post", "secret"),
    ]
    text = EXPORT % "".join(POST % post for post in posts)
    (story,) = parse(text).entries
    assert list(wordpress_exports.read_posts(io.BytesIO(text.encode()))) == [story]
    assert (story.id, story.html, story.summary) == (
        "https://news.example.com/?p=1",
        "<p>One.</p><p>Two.</p>",
        "Short.",
    )
    assert (story.authors, story.published, story.updated) == (("Ada Byron",), "2026-03-02T09:15:30Z", "")
    assert (story.topic, story.tags) == ("World", ("World", "x"))
    assert parse(EXPORT % (POST % ("trash", "post", ""))).removed == ("https://news.example.com/?p=1",)


def test_an_export_that_declares_entities_is_refused() -> None:
    text = "<!DOCTYPE rss [<!ENTITY a 'b'>]>" + EXPORT.removeprefix('<?xml version="1.0"?>') % (
        POST % ("publish", "post", "")
    )
    with pytest.raises(Invalid, match="entities"):
        list(wordpress_exports.read_posts(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("<?xml version='1.0' encoding='latin-1'?><rss><item><title>Öl</title></item></rss>".encode("l1"), "utf-8"),
        ("<rss><item><title>Öl</title></item></rss>".encode("cp1252"), "windows-1252"),
        ("<?xml version='1.0' encoding='no-such'?><rss><item><title>Öl</title></item></rss>".encode(), ""),
        ("<rss><item><title>Öl</title></item></rss>".encode(), "no-such-either"),
        ("<rss><item><title>Öl</title></item></rss>".encode("utf-16"), ""),
    ],
)  # fmt: skip
def test_encodings_that_are_declared_wrongly_or_not_at_all(text: bytes, charset: str) -> None:
    (story,) = parse(text, content_type=f"text/xml; charset={charset}").entries
    assert story.title == "Öl"


def test_compression_has_a_bound() -> None:
    data = b"x" * 1_000
    assert decompress_body(gzip.compress(gzip.compress(data)), {"content-encoding": "gzip"}, 1_000) == data
    began_s = time.monotonic()
    for bomb in (gzip.compress(b" " * (100 << 20)), gzip.compress(b"") * 100_000, gzip.compress(data)[:-9]):
        with pytest.raises(Invalid):
            decompress_body(bomb, {}, LARGEST_DOCUMENT)
    assert time.monotonic() - began_s < 2.0


def page(*nodes: object, head: str = "") -> str:
    return f"<html>{head}<script type=application/ld+json>{json.dumps(nodes)}</script></html>"


def test_a_page_gives_the_article_that_names_it() -> None:
    other = {"@type": "NewsArticle", "headline": "Other", "url": "https://news.example.com/other"}
    mine = {
        "@type": ["Thing", "https://schema.org/ReportageNewsArticle"], "headline": "A &amp; B", "articleBody": "Text.",
        "author": [{"name": "Ada"}, "Bob", {"name": "Ada"}], "keywords": "a, b", "articleSection": ["World", "UK"],
        "mainEntityOfPage": {"@id": "https://news.example.com/a"}, "isAccessibleForFree": "False",
        "image": [{"url": "/a.jpg"}, "https://cdn.example.com/b.jpg", 7],
        "correction": [
            {"text": "Old.", "datePublished": "2026-01-01"}, {"text": "New.", "datePublished": "2026-02-01"},
        ],
    }  # fmt: skip
    result = parse_page_article(
        page({"@graph": [other, {"mainEntity": mine}]}, head="<link href=/a rel='x canonical'>"),
        "https://news.example.com/amp/a",
    )
    assert result.canonical == "https://news.example.com/a"
    story = result.story
    assert story is not None
    assert (story.title, story.authors, story.topic, story.tags) == (
        "A & B",
        ("Ada", "Bob"),
        "World",
        ("a", "b"),
    )
    assert (story.corrected, story.correction_note, story.access) == ("2026-02-01", "New.", LOCKED)
    assert story.images == ("https://news.example.com/a.jpg", "https://cdn.example.com/b.jpg")


@pytest.mark.parametrize(
    "text",
    [
        "", "<script type='application/ld+json'>{", "<script type='application/ld+json'>" * 100_000,
        "<script type='application/ld+json'>" + "[" * 50_000 + "</script>", page({"@type": 7}, [[[[]]]], None),
        page({"@type": "NewsArticleX"}), "<link rel=canonical href='https://[x'>" + "<link " * 100_000,
        "<script type='application/ld+json'>" + '{"a":' * 2_000 + "1" + "}" * 2_000 + "</script>",
    ],
)  # fmt: skip
def test_hostile_pages_give_no_article_in_time(text: str) -> None:
    began_s = time.monotonic()
    assert parse_page_article(text, "https://news.example.com/a").story is None
    assert time.monotonic() - began_s < 1.0
