"""Citations of articles: a markdown link that no title can break, and the sentence that asks for the citation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, urlsplit

DEFAULT_LICENCE = "CC BY 2.5"

_PLAIN_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]+(?:/[!-~]*)?")
"Matches nearly all plain addresses, much faster than parsing them."
_CC_PARTS = {
    "by": "Attribution",
    "by-sa": "Attribution-ShareAlike",
    "by-nd": "Attribution-NoDerivatives",
    "by-nc": "Attribution-NonCommercial",
    "by-nc-sa": "Attribution-NonCommercial-ShareAlike",
    "by-nc-nd": "Attribution-NonCommercial-NoDerivatives",
}
_CC_NAMES = {name.casefold(): part for part, name in _CC_PARTS.items()}
_CC_VERSIONS = ("1.0", "2.0", "2.5", "3.0", "4.0")
_CC_CODE = re.compile(
    r"(?:cc[ -](?P<part>by(?:-(?:sa|nd|nc(?:-(?:sa|nd))?))?)|creative commons (?P<name>[a-z-]+))"
    r"(?:[ -](?P<version>\d\.\d))?(?: (?:international|unported|generic))?(?: licen[cs]e)?"
)
_CC_ADDRESS = re.compile(
    r"https?://(?:www\.)?creativecommons\.org/(?P<kind>licenses|publicdomain)/(?P<part>[a-z-]+)/(?P<version>\d\.\d)"
    r"(?:/(?:[a-z]{2}/?)?(?:deed\.[a-z-]{2,5}|legalcode)?)?"
)
_CC0 = ("Creative Commons Zero 1.0", "https://creativecommons.org/publicdomain/zero/1.0/")
_PUBLIC_DOMAIN = ("Public Domain Mark 1.0", "https://creativecommons.org/publicdomain/mark/1.0/")
_OTHER_LICENCES = {
    "cc0": _CC0,
    "cc0 1.0": _CC0,
    "cc zero": _CC0,
    "creative commons zero": _CC0,
    "creative commons zero 1.0": _CC0,
    "public domain": ("Public domain", ""),
    "pdm": _PUBLIC_DOMAIN,
    "pdm 1.0": _PUBLIC_DOMAIN,
    "public domain mark": _PUBLIC_DOMAIN,
    "public domain mark 1.0": _PUBLIC_DOMAIN,
    "all rights reserved": ("All rights reserved", ""),
}
SEE_ARTICLE = "see the article"
_LONGEST_CODE = 120
_SAFE = "/:?#@!$&'*+,;=%-._~[]"
"Characters of an address that stay unescaped in a link; parentheses and spaces would end it."
_SPECIAL = re.compile(r"([\\\[\]`<])")
"Characters that would end a link's text: brackets, and markdown that precedes them."


@dataclass(frozen=True, slots=True)
class CitationRules:
    """The citation rules of an archive."""

    licence: str = DEFAULT_LICENCE
    "Licence of articles without one."
    extra: str = ""
    "A sentence of the publisher, added to every instruction."


def citation_format(title: str, url: str) -> str:
    """Return the markdown link to a source; without a web address only the title."""
    # A blank line would end the paragraph, and the link with it.
    label = _SPECIAL.sub(r"\\\1", " ".join(title.split())) or "Untitled"
    address = sanitize_url(url)
    if not address:
        return label
    return f"[{label}]({quote(address, safe=_SAFE)})"


def citation_instruction(rules: CitationRules, licence: str, authors: Sequence[str], *, linked: bool) -> str:
    """Return the instruction on how to cite, with the licence of the text.

    Models follow this sentence, and an article may name any licence. So the sentence contains only names of known
    licences, in fixed words.
    """
    how = "with the markdown link in citation_format" if linked else "by the title in citation_format"
    named = publisher_licence(rules.licence) if _is_same(licence, rules.licence) else article_licence(licence)
    sentences = [f"Cite this content {how}.", f"Licence: {named}."]
    if authors:
        sentences.append("Credit the authors.")
    if rules.extra:
        sentences.append(rules.extra)
    return " ".join(sentences)


def publisher_licence(licence: str) -> str:
    """Return the publisher's licence: in full if it is known, else in the publisher's words."""
    return _standard_licence(licence) or " ".join(licence.split())[:200]


def article_licence(licence: str) -> str:
    """Return an article's licence in full if it is known; else refer to the article."""
    return _standard_licence(licence) or SEE_ARTICLE


@lru_cache(maxsize=256)
def _standard_licence(licence: str) -> str:
    # The text comes from an article and may have any length; such a long one is no code of a licence.
    if len(licence) > _LONGEST_CODE:
        return ""
    text = " ".join(licence.split()).casefold().rstrip(".")
    name, address = _OTHER_LICENCES.get(text) or _creative_commons(text)
    return f"{name} ({address})" if address else name


def _creative_commons(text: str) -> tuple[str, str]:
    match = _CC_ADDRESS.fullmatch(text)
    if match is not None and match["kind"] == "publicdomain":
        return {"zero": _CC0, "mark": _PUBLIC_DOMAIN}.get(match["part"], ("", ""))
    match = match or _CC_CODE.fullmatch(text)
    if match is None:
        return "", ""
    parts = match.groupdict()
    part = parts["part"] or _CC_NAMES.get(parts.get("name") or "", "")
    version = parts["version"]
    if part not in _CC_PARTS or (version and version not in _CC_VERSIONS):
        return "", ""
    name = f"Creative Commons {_CC_PARTS[part]}"
    if not version:
        return name, ""
    return f"{name} {version}", f"https://creativecommons.org/licenses/{part}/{version}/"


def _is_same(licence: str, default: str) -> bool:
    """Return whether an article has no licence, or the licence of the installation."""
    return not licence or licence == default


def sanitize_url(url: str) -> str:
    """Return a web address unchanged; return an empty text for anything else."""
    if _PLAIN_ADDRESS.fullmatch(url):
        return url
    try:
        # This raises on an unclosed bracket, which starts an IPv6 address.
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    # Another scheme, as `javascript:`, would run where a client shows the citation.
    return url.strip() if parts.scheme in ("http", "https") and parts.netloc else ""
