"""Licence files follow the grammar of RSL 1.0, whatever a publisher may set. `rsl.rng` names the grammar's sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from lxml import etree

from cluster.records.archive.archive_terms import (
    ArchiveTerms,
    Disclaimer,
    Operator,
    Payment,
    Usage,
    Warranty,
    find_fault,
)
from cluster.records.archive.rsl_document import (
    NAMESPACE,
    format_link,
    licence_path,
    list_file_terms,
    render_licence_file,
    render_robots,
    render_rsl,
)

GRAMMAR = etree.RelaxNG(etree.parse(str(Path(__file__).with_name("rsl.rng"))))
ADDRESS = "https://news.example.com/licences?a=1&b='2'"
LETTERS = "abZ09._~:/?@!$&'()*+,;=-"
PATH_LETTERS = "".join(chr(code) for code in range(33, 127) if code != 35)
FULL = ArchiveTerms(
    permits=("search", "ai-input"), prohibits=("ai-train",), users=("non-commercial", "education"),
    not_users=("government",), countries=("DE", "EU"), not_countries=("XX",), payment="crawl", amount="0.015",
    currency="EUR", standard="https://example.org/pay", custom=ADDRESS, server="https://rights.example.org",
    contact="mailto:licences@example.com", warranties=("ownership", "authority"), disclaimers=("as-is",), attested=True,
    holder='Müller & "Söhne" <Press> \u2028', holder_type="person", terms_url=ADDRESS, paths=("/news/*", "/x$"),
    valid_days=7,
)  # fmt: skip
SEARCH_ONLY = ArchiveTerms(permits=("search",))


def find_faults(text: str) -> list[str]:
    """Return what the grammar refuses, and repeated types in one licence or assets, which it can't express."""
    tree = etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False))
    faults = [] if GRAMMAR.validate(tree) else [str(entry) for entry in GRAMMAR.error_log] or ["invalid"]
    names = {"r": NAMESPACE}
    for licence in tree.iterfind(".//r:license", names):
        kinds = Counter((each.tag, each.get("type")) for each in licence if each.get("type"))
        faults += [f"{kind} twice" for kind, count in kinds.items() if count > 1]
    assets = Counter(each.get("url") for each in tree.iterfind(".//r:content", names))
    return faults + [f"{url} twice" for url, count in assets.items() if count > 1]


def draw_terms(random: Random) -> ArchiveTerms:
    """Return any terms that a publisher may set."""

    def some(words: Sequence[str], least: int = 0) -> tuple[str, ...]:
        return tuple(random.choices(words, k=random.randint(least, 4)))

    def text(letters: str, most: int) -> str:
        return "".join(random.choices(letters, k=random.randint(0, most)))

    addresses = (
        "",
        ADDRESS,
        f"http://a-b.example:8080/{text(LETTERS, 40)}",
        "https://a.example",
        "https://a.example/%2f?x",
    )
    web = {
        name: random.choice(addresses) for name in ("standard", "custom", "server", "terms_url", "contact")
    }
    return ArchiveTerms(
        permits=some(get_args(Usage)), prohibits=some(get_args(Usage)), users=some(get_args(Operator)),
        not_users=some(get_args(Operator)), countries=some(("DE", "EU", "ZZ")), not_countries=some(("FR", "US")),
        payment=random.choice(get_args(Payment)), amount=random.choice(("", "0", "12.5", "0.000001", "999999999")),
        currency="EUR", warranties=some(get_args(Warranty)), disclaimers=some(get_args(Disclaimer)),
        attested=random.random() < 0.5, holder=text("<>&'\"];[! \u00a0\u2028é😀x", 60),
        paths=("/" + text(PATH_LETTERS, 30), *("/" + word for word in some(("a", "b*", "c$", '"<&>')))),
        valid_days=random.randint(1, 3_650), **web,
    )  # fmt: skip


def test_every_document_follows_the_grammar() -> None:
    random = Random(7)
    for _ in range(1_000):
        terms = [draw_terms(random) for _ in range(random.randint(1, 3))]
        text = render_rsl(terms)
        assert find_faults(text) == [], text
        root = etree.fromstring(text.encode())
        assert [each.get("url") for each in root] == list(
            dict.fromkeys(path for each in terms for path in each.paths)
        )
        assert root.get("max-age") == str(min(each.valid_days for each in terms))
        assert etree.fromstring(text.encode()).find(f".//{{{NAMESPACE}}}license") is not None


def test_all_terms_stand_in_the_document() -> None:
    root = etree.fromstring(render_rsl([FULL]).encode())
    content = root[0]
    assert (content.get("url"), content.get("server")) == ("/news/*", FULL.server)
    written = [
        (etree.QName(each).localname, dict(each.attrib), each.text) for each in content.iter() if each.text
    ]
    assert [entry for entry in written if str(entry[2]).strip()] == [
        ("permits", {"type": "usage"}, "search ai-input"),
        ("permits", {"type": "user"}, "non-commercial education"),
        ("permits", {"type": "geo"}, "DE EU"),
        ("prohibits", {"type": "usage"}, "ai-train"),
        ("prohibits", {"type": "user"}, "government"),
        ("prohibits", {"type": "geo"}, "XX"),
        ("standard", {}, "https://example.org/pay"),
        ("custom", {}, ADDRESS),
        ("amount", {"currency": "EUR"}, "0.015"),
        ("legal", {"type": "warranty"}, "ownership authority"),
        ("legal", {"type": "disclaimer"}, "as-is"),
        ("legal", {"type": "attestation"}, "true"),
        ("legal", {"type": "contact"}, "mailto:licences@example.com"),
        ("copyright", {"type": "person"}, FULL.holder),
        ("terms", {}, ADDRESS),
    ]
    assert content.find(f".//{{{NAMESPACE}}}payment").get("type") == "crawl"
    assert find_fault(FULL) == ""


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ('xmlns="[^"]*"', 'xmlns="https://rslstandard.org/RSL"'), ('max-age="7"', 'max-age="0"'),
        ('max-age="7"', 'max-age="7" version="1.0"'), ('url="/x\\$"', 'url="x"'), ('url="/x\\$"', 'url="/news/*"'),
        ("search ai-input", "search,ai-input"), ("search ai-input", "train-ai"), ("search ai-input", ""),
        ('type="usage"', 'type="use"'), (">DE EU<", ">Germany<"), ('type="crawl"', 'type="inference"'),
        (' currency="EUR"', ""), (">0.015<", ">0,015<"), ('type="warranty"', 'type="promise"'), (">true<", ">yes<"),
        ("mailto:licences@", "licences "), ("<license>", "<license><licence/>"),
        ("<copyright ", '<copyright role="x" '),
        ("<license>", '<license><permits type="geo">US</permits>'), ("(?s)<license>.*?</license>", ""),
        ("(?s)<content.*</content>", ""), ("<custom>", "<accepts/><custom>"), ("<standard>https:", "<standard>"),
        ("</payment>", "<custom>/a</custom></payment>"), ("</license>", "</license><permits/>"),
        ("</terms>", "</terms><terms>/b</terms>"), (">as-is<", ">as-is everything<"), ("</rsl>", "<license/></rsl>"),
        ('type="person"', 'type="company"'),
    ],
)  # fmt: skip
def test_the_grammar_refuses_other_documents(pattern: str, wrong: str) -> None:
    text = render_rsl([FULL])
    changed = re.sub(pattern, wrong, text, count=1)
    assert changed != text
    assert find_faults(text) == []
    assert find_faults(changed) != []


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        ("search ai-input", "search press:clip"), ('type="crawl"', 'type="press:clip"'),
        ("https://example.org/pay", "urn:x:1"),
        (ADDRESS, "/licences"), ("mailto:", ""), ("</payment>", "<p:fee xmlns:p='urn:x' a='1'>2</p:fee></payment>"),
        ("</license>", "<reporting type='audit' profile='urn:x:2' endpoint='https://a.example/r'/></license>"),
        ("</license>", "</license><alternate>/index.md</alternate><schema type='application/ld+json'>{}</schema>"),
        ('url="/x\\$"', 'url=""'), ("</payment>", "<accepts type='application/x402+json'>{}</accepts></payment>"),
        ("</rsl>", "<p:note xmlns:p='urn:x'><p:line>1</p:line></p:note></rsl>"), ("<license>", "<license/><license>"),
    ],
)  # fmt: skip
def test_the_grammar_takes_what_the_specification_allows(pattern: str, other: str) -> None:
    text = render_rsl([FULL])
    changed = re.sub(re.escape(escape(pattern)) if pattern == ADDRESS else pattern, other, text, count=1)
    assert changed != text
    assert find_faults(changed) == []


def test_the_file_of_an_archive_also_holds_licences_with_paths() -> None:
    terms = {
        "": SEARCH_ONLY,
        "agency": ArchiveTerms(prohibits=("all",), paths=("/agency/",), valid_days=3),
        "cc": FULL.model_copy(update={"paths": ("/",)}),
    }
    text = render_licence_file(terms)
    assert text is not None
    assert re.findall('url="([^"]*)"', text) == ["/", "/agency/"]
    assert 'max-age="3"' in text
    assert render_licence_file(terms, "cc") == render_rsl([terms["cc"]])
    assert render_licence_file(terms, "nobody") is None
    assert render_licence_file({"cc": terms["cc"]}) is None
    assert list_file_terms({}) == []


def test_robots_lines_name_the_file_and_the_preferences_of_each_path() -> None:
    address = "https://kiosk.example.com/mcp/license.xml"
    agency = ArchiveTerms(prohibits=("all",), paths=("/agency/", "/wire/*"))
    assert render_robots({"": SEARCH_ONLY, "agency": agency}, address) == (
        f"License: {address}\n\nUser-agent: *\nContent-Usage: train-ai=n, search=y\n"
        "Content-Usage: /agency/ train-ai=n, search=n\nContent-Usage: /wire/* train-ai=n, search=n\n"
    )
    assert render_robots({"": ArchiveTerms(payment="crawl")}, address) == f"License: {address}\n"
    assert render_robots({}, address) == ""


def test_addresses_and_links_of_files() -> None:
    assert (licence_path(), licence_path("cc-by-4-0")) == ("/license.xml", "/license-cc-by-4-0.xml")
    assert licence_path("öffentlich") == "/license-%C3%B6ffentlich.xml"
    assert (
        format_link("https://a.example/l")
        == '<https://a.example/l>; rel="license"; type="application/rsl+xml"'
    )
