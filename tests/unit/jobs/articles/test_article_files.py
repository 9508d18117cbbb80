from __future__ import annotations

import bz2
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.archive.passages import document_from_product
from cluster.errors import Invalid
from cluster.records.validation.upload import parse_upload
from jobs.articles.article_files import ArchiveReading
from jobs.ingest.files.unreadable_row import UnreadableRow

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" xml:lang="en">
  <siteinfo><sitename>News</sitename><base>https://en.news.example/wiki/Main_Page</base></siteinfo>
"""
WIKI_TEXT = """{{date|January 4, 2019}}
{{infobox|x={{nested|y}}}}
[[File:Bridge.jpg|thumb|A bridge]]
The '''bridge''' over the [[River Ardle|Ardle]] reopened on Friday.&lt;ref&gt;A paper&lt;/ref&gt;

== Repairs ==
Workers replaced [http://x.example nine hundred] bolts.

== Sources ==
* {{source|url=http://x}}
[[Category:Science and technology]]
[[Category:Bridges]]
[[Category:January 4, 2019]]
"""


def page(title: str, text: str = WIKI_TEXT, *, ns: int = 0, number: int = 7, more: str = "") -> str:
    return (
        f"<page><title>{title}</title><ns>{ns}</ns><id>{number}</id>{more}<revision><id>1</id>"
        "<timestamp>2019-01-05T10:00:00Z</timestamp><contributor><username>Ida</username></contributor>"
        f'<text xml:space="preserve">{text}</text></revision></page>\n'
    )


def rows_of(path: Path, **options: Any) -> list[Any]:
    reading = ArchiveReading(**options)
    return [
        row for source in reading.find(str(path)) for _, rows in reading.chunks(source, 10) for row in rows
    ]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def accepted(rows: list[dict[str, Any]]) -> None:
    """The upload validation accepts the records."""
    parse_upload("product", json.dumps({"data": rows}).encode(), now_ms=1_700_000_000_000)


def test_a_page_of_a_dump_becomes_an_article_with_sections_date_author_topic_and_address(
    tmp_path: Path,
) -> None:
    dump = HEAD + page("Bridge reopens") + "</mediawiki>"
    (row,) = rows_of(write(tmp_path, "news.xml.bz2", bz2.compress(dump.encode())))
    accepted([row])
    assert row["product_id"] == "en-7"
    assert row["title"] == "Bridge reopens"
    assert row["description"] == "The bridge over the Ardle reopened on Friday."
    assert [(child["title"], child["description"]) for child in row["children"]] == [
        ("Repairs", "Workers replaced nine hundred bolts.")
    ]
    assert row["published_at"] == "2019-01-04"
    assert row["updated_at"] == "2019-01-05T10:00:00Z"
    assert row["authors"] == ["Ida"]
    assert row["categories"] == [["News", "Science"]]
    assert row["tags"] == ["Science and technology", "Bridges"]
    assert row["url"] == "https://en.news.example/wiki/Bridge_reopens"
    assert row["language"] == "en"
    assert row["custom_attributes"]["licence"] == "CC BY 2.5"
    document = document_from_product(row)
    assert document is not None
    assert "Repairs" in {section.title for section in document.sections}


@pytest.mark.parametrize("kept", [0.0, 0.6])
def test_a_truncated_packed_dump_has_a_clear_error(tmp_path: Path, kept: float) -> None:
    dump = HEAD + "".join(page(f"Bridge {n * 7919}", number=n) for n in range(4_000)) + "</mediawiki>"
    data = bz2.compress(dump.encode(), compresslevel=1)
    path = write(tmp_path, "news.xml.bz2", data[: int(len(data) * kept)] or b"BZh9")
    with pytest.raises(Invalid, match=r"news\.xml\.bz2 can't be read"):
        rows_of(path)


def test_redirects_talk_and_templates_are_no_articles_and_no_refusals(tmp_path: Path) -> None:
    dump = (
        HEAD
        + page("Talk:Bridge", ns=1)
        + page("Old name", more='<redirect title="Bridge reopens" />')
        + page("Bridge reopens")
        + "</mediawiki>"
    )
    assert [row["title"] for row in rows_of(write(tmp_path, "news.xml", dump))] == ["Bridge reopens"]


def test_broken_pages_cost_only_themselves(tmp_path: Path) -> None:
    dump = (
        HEAD.encode()
        + page("First", number=1).encode()
        + b"<page><title>Broken</title><ns>0</ns><revision></page>\n"
        + page("Wrong encoding", number=2).replace("Friday", "Fr\xe9day").encode("latin-1")
        + page("Empty", " ", number=3).encode()
        + page("Last", number=4).encode()
        + b"<page><title>Cut o"
    )
    rows = rows_of(write(tmp_path, "news.xml", dump))
    assert [row["title"] for row in rows if not isinstance(row, UnreadableRow)] == ["First", "Last"]
    reasons = [row.reason for row in rows if isinstance(row, UnreadableRow)]
    assert len(reasons) == 4
    assert "not XML" in reasons[0]
    assert "not UTF-8" in reasons[1]
    assert "no text" in reasons[2]
    assert "ends within a page" in reasons[3]


def test_an_oversized_page_is_skipped_without_filling_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.articles.mediawiki.LARGEST_PAGE", 1 << 20)
    dump = HEAD + page("Huge", "x " * (3 << 20), number=1) + page("After", number=2) + "</mediawiki>"
    rows = rows_of(write(tmp_path, "news.xml", dump))
    assert isinstance(rows[0], UnreadableRow)
    assert rows[-1]["title"] == "After"


def test_entities_of_a_document_are_never_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    dump = bomb + HEAD + page("With entity", "Text &b; more") + page("After", number=8) + "</mediawiki>"
    rows = rows_of(write(tmp_path, "news.xml", dump))
    assert "aaaa" not in str(rows[0])
    assert rows[-1]["title"] == "After"
    feed = (
        bomb + "<rss><channel><item><title>&b;</title><link>https://x.example/1</link></item></channel></rss>"
    )
    padded = "<!--" + "x" * 1_100_000 + "-->" + feed
    for hidden in (feed.encode(), feed.encode("utf-16"), feed.encode("utf-32"), padded.encode()):
        with pytest.raises(Invalid, match="entities"):
            rows_of(write(tmp_path, "feed.rss", hidden))
    parameter = feed.replace("<!ENTITY a ", '<!ENTITY % p SYSTEM "file:///etc/hostname"> %p; <!ENTITY a ')
    with pytest.raises(Invalid, match="entities"):
        rows_of(write(tmp_path, "feed.rss", parameter))


def test_a_feed_of_nothing_but_tags_is_not_read(tmp_path: Path) -> None:
    for feed in (b"<rss>" + b"<a/>" * 2_000_001, ("<rss>" + "<a/>" * 2_000_001).encode("utf-16")):
        with pytest.raises(Invalid, match="tags"):
            rows_of(write(tmp_path, "feed.rss", feed))


def test_a_feed_may_name_a_document_type_which_is_never_fetched(tmp_path: Path) -> None:
    feed = """<?xml version="1.0"?><!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN"
      "http://127.0.0.1:9/rss-0.91.dtd"><rss version="0.91"><channel><item><title>Mill opens</title>
      <link>https://x.example/mill</link><description>The mill opened again.</description></item></channel></rss>"""
    (row,) = rows_of(write(tmp_path, "feed.rss", feed))
    assert row["title"] == "Mill opens"


@pytest.mark.parametrize(
    "text",
    [
        "{{" * 20_000,
        "[[" * 20_000,
        "{|" * 20_000,
        "&lt;b&gt;" * 20_000,
        "&lt;ref&gt;" * 20_000,
        "'''" * 20_000,
    ],
)
def test_hostile_wiki_text_ends_in_time(tmp_path: Path, text: str) -> None:
    began = time.monotonic()
    rows = rows_of(write(tmp_path, "news.xml", HEAD + page("Hostile", text) + page("After", number=8)))
    assert rows[-1]["title"] == "After"
    assert time.monotonic() - began < 20


def test_going_on_skips_what_is_done_and_keeps_the_numbers(tmp_path: Path) -> None:
    dump = HEAD + "".join(page(f"Story {number}", number=number) for number in range(25)) + "</mediawiki>"
    reading = ArchiveReading()
    (source,) = reading.find(str(write(tmp_path, "news.xml", dump)))
    (first, rows), *_ = reading.chunks(source, 10, skip=20)
    assert first == 20
    assert [row["title"] for row in rows if not isinstance(row, UnreadableRow)] == [
        f"Story {n}" for n in range(20, 25)
    ]


def test_rss_items_keep_text_date_author_and_address(tmp_path: Path) -> None:
    feed = """<?xml version="1.0"?><rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/"
      xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>News</title><language>en-gb</language>
      <copyright>CC BY 4.0</copyright>
      <item><title>Mill opens</title><link>https://x.example/mill</link><guid>mill-1</guid><dc:creator>Ida</dc:creator>
      <pubDate>Tue, 20 Feb 2024 09:00:00 +0100</pubDate><category>Business</category>
      <content:encoded><![CDATA[<p>The paper mill <b>opened</b> again.</p>]]></content:encoded></item>
      <item><title></title><link>https://x.example/none</link></item></channel></rss>"""
    good, bad = rows_of(write(tmp_path, "feed.xml", feed))
    accepted([good])
    assert good["product_id"] == "mill-1"
    assert good["html"] == "<p>The paper mill <b>opened</b> again.</p>"
    assert good["published_at"] == "2024-02-20T08:00:00Z"
    assert good["authors"] == ["Ida"]
    assert good["categories"] == [["News", "Business"]]
    assert good["language"] == "en"
    assert good["custom_attributes"]["licence"] == "CC BY 4.0"
    assert isinstance(bad, UnreadableRow)
    assert "no title" in bad.reason


def test_atom_entries_are_read_likewise(tmp_path: Path) -> None:
    feed = """<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de"><author><name>Redaktion</name></author>
      <entry><id>urn:1</id><title>Die Brücke</title><link href="https://x.example/b"/><updated>2024-01-02T03:04:05Z</updated>
      <content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Die Brücke ist offen.</p></div></content>
      <category term="Lokales"/></entry></feed>"""
    (row,) = rows_of(write(tmp_path, "feed.atom", feed))
    accepted([row])
    document = document_from_product(row)
    assert document is not None
    assert document.text == "Die Brücke ist offen."
    assert (row["authors"], row["language"]) == (["Redaktion"], "de")
    assert row["published_at"] == "2024-01-02T03:04:05Z"


def test_rows_with_the_usual_names_are_understood(tmp_path: Path) -> None:
    line = {"id": "n1", "headline": "Flood", "body": "It rained.\n\nIt rained more.", "date": "2023-11-02"}
    line |= {"byline": "Ida; Jonas", "section": "World", "url": "https://x.example/1", "license": "CC0"}
    (row,) = rows_of(write(tmp_path, "news.jsonl", json.dumps(line)))
    accepted([row])
    assert row["paragraphs"] == ["It rained.", "It rained more."]
    assert row["authors"] == ["Ida", "Jonas"]
    assert row["categories"] == [["News", "World"]]
    assert row["custom_attributes"]["licence"] == "CC0"
    pq.write_table(pa.Table.from_pylist([line]), tmp_path / "news.parquet")
    assert rows_of(tmp_path / "news.parquet") == [row]


def test_a_record_that_is_one_already_stays_as_it_is(tmp_path: Path) -> None:
    record = {
        "product_id": "a",
        "type": "article",
        "title": "T",
        "children": [{"id": "1", "html": "<p>x</p>"}],
    }
    # Values of the wrong type stay too, for the validation to refuse this row alone.
    broken = {"product_id": "b", "type": "article", "paragraphs": 5}
    rows = rows_of(write(tmp_path, "news.jsonl", f"{json.dumps(record)}\n{json.dumps(broken)}"))
    assert rows == [{**made, "enable_question_answering": True} for made in (record, broken)]


def test_a_folder_without_an_archive_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "picture.png", b"\x89PNG")
    with pytest.raises(Invalid, match="no archive"):
        rows_of(tmp_path)
