"""Terms as machines read them: the licence file of RSL, its addresses, the link to it, and lines for robots.txt.

Source: Really Simple Licensing (RSL) 1.0; draft-ietf-aipref-attach-05; RFC 9309 section 2.2.4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from urllib.parse import quote

from cluster.records.archive.archive_terms import ArchiveTerms, express_preferences

NAMESPACE = "https://rslstandard.org/rsl"
MEDIA_TYPE = "application/rsl+xml"
LICENCE_FILE = "/license.xml"
"Address of the licence file of an archive, below the archive's."


def licence_path(name: str = "") -> str:
    """Return the address of a licence file below that of its archive, by the name of its terms."""
    return f"/license-{quote(name, safe='{}')}.xml" if name else LICENCE_FILE


def format_link(address: str) -> str:
    """Return the value of the header `Link` that leads to a licence file."""
    return f'<{address}>; rel="license"; type="{MEDIA_TYPE}"'


def list_file_terms(terms: Mapping[str, ArchiveTerms]) -> list[ArchiveTerms]:
    """Return the terms that the file of an archive holds: its own, and those of licences with paths of their own.

    Others hold for the articles whose results or pages link to their files.
    """
    named = [each for name, each in sorted(terms.items()) if name and each.paths != ("/",)]
    return [terms[""], *named] if "" in terms else named


def render_licence_file(terms: Mapping[str, ArchiveTerms], name: str = "") -> str | None:
    """Return the licence file of an archive, or the one of the terms with a name; None if there is none."""
    described = list_file_terms(terms) if not name else [terms[name]] if name in terms else []
    return render_rsl(described) if described else None


def render_rsl(terms: Sequence[ArchiveTerms]) -> str:
    """Return an RSL document with an asset for each path; the first terms of a path count."""
    by_path: dict[str, ArchiveTerms] = {}
    for each in terms:
        for path in each.paths:
            by_path.setdefault(path, each)
    days = min(each.valid_days for each in terms)
    lines = [line for path, each in by_path.items() for line in _render_content(path, each)]
    head = f'<rsl xmlns="{NAMESPACE}" max-age="{days}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *lines, "</rsl>", ""])


def render_robots(terms: Mapping[str, ArchiveTerms], address: str) -> str:
    """Return the lines that point to an archive's terms in the robots.txt of the publisher's site.

    `address` is that of the licence file. Lines about use belong to a group; others may stand anywhere.
    """
    described = list_file_terms(terms)
    usage = [
        f"Content-Usage: {path + ' ' if path != '/' else ''}{preferences}"
        for each in described
        if (preferences := express_preferences(each))
        for path in each.paths
    ]
    licence = [f"License: {address}"] if described else []
    group = ["", "User-agent: *", *dict.fromkeys(usage)] if usage else []
    return "".join(f"{line}\n" for line in (*licence, *group))


def _render_content(path: str, terms: ArchiveTerms) -> Iterator[str]:
    yield f"  <content{_attributes({'url': path, 'server': terms.server})}>"
    yield "    <license>"
    for element, values in (
        ("permits", (terms.permits, terms.users, terms.countries)),
        ("prohibits", (terms.prohibits, terms.not_users, terms.not_countries)),
    ):
        for kind, words in zip(("usage", "user", "geo"), values, strict=True):
            if words:
                yield f"      {_element(element, ' '.join(dict.fromkeys(words)), type=kind)}"
    yield from _render_payment(terms)
    legal = {
        "warranty": " ".join(dict.fromkeys(terms.warranties)),
        "disclaimer": " ".join(dict.fromkeys(terms.disclaimers)),
        "attestation": "true" if terms.attested else "",
        "contact": terms.contact,
    }
    for kind, text in legal.items():
        if text:
            yield f"      {_element('legal', text, type=kind)}"
    yield "    </license>"
    if terms.holder:
        yield f"    {_element('copyright', terms.holder, type=terms.holder_type)}"
    if terms.terms_url:
        yield f"    {_element('terms', terms.terms_url)}"
    yield "  </content>"


def _render_payment(terms: ArchiveTerms) -> Iterator[str]:
    parts = [
        _element(element, text)
        for element, text in (("standard", terms.standard), ("custom", terms.custom))
        if text
    ]
    if terms.amount:
        parts.append(_element("amount", terms.amount, currency=terms.currency))
    if not terms.payment and not parts:
        return
    yield f"      <payment{_attributes({'type': terms.payment or 'free'})}>"
    yield from (f"        {part}" for part in parts)
    yield "      </payment>"


def _element(name: str, text: str, **attributes: str) -> str:
    return f"<{name}{_attributes(attributes)}>{escape(text)}</{name}>"


def _attributes(values: Mapping[str, str]) -> str:
    return "".join(f' {name}="{escape(value)}"' for name, value in values.items() if value)
