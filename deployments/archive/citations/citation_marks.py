"""Marks of links: short signed texts by which a visit of an article is joined to the call that linked it.

    mark      <token>.<archive>.<product id>      archive: empty for the default one
    token     27 characters: call id (8 bytes), hour of its end (3 bytes), tag (9 bytes), as URL-safe base64
    tag       HMAC-SHA256 over app, archive, product id, call id and hour, its first 9 bytes

The call id is random, and the row of the call names agent, tool and skill. No mark names a person. A forged mark is
valid once in 2^72 guesses.

A link carries its mark in the query parameter `kiosk_mark`, or it leads to the redirect address `/visits/{mark}`.

Source: RFC 2104 (HMAC, with a truncated tag)
"""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

PURPOSE = "archive citation marks"
"Purpose of the derived key."
PARAMETER = "kiosk_mark"
VISITS = "/visits"
"Path of the redirect address, and of the address to which `kiosk.js` reports a visit."
LIFE_H = 720
"Hours for which a visit of a link counts."
MOST_PRODUCT_ID = 120
"Characters of a product id in a mark; links of articles with longer ids carry none."
MOST_MARK = 600
"Characters of a mark that is read."
_TAG_BYTES = 9
_TOKEN = re.compile(r"[A-Za-z0-9_-]{27}", re.ASCII)
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CitationMark:
    """What a genuine mark says."""

    call_id: str
    archive_id: str
    product_id: str
    expires_h: int
    "Hours since 1970."

    def is_expired(self, now_ms: int) -> bool:
        return now_ms >= self.expires_h * _HOUR_MS


@dataclass(frozen=True, slots=True)
class MarkSigner:
    """Signs marks with the first of its keys, and verifies what any of them signed."""

    keys: tuple[bytes, ...]
    "32 bytes each, the same on all replicas."

    def sign(self, app_id: str, archive_id: str, call_id: str, product_id: str, now_ms: int) -> str:
        """Return the mark of one link of a call. Cost: 5 microseconds."""
        # Three bytes hold the hours until the year 3883. Links should be short, and seconds would need more
        # bytes.
        body = bytes.fromhex(call_id) + (now_ms // _HOUR_MS + LIFE_H).to_bytes(3, "big")
        tag = _compute_tag(self.keys[0], (app_id, archive_id, product_id), body)
        return f"{_encode(body + tag)}.{archive_id}.{product_id}"

    def verify(self, app_id: str, mark: str) -> CitationMark | None:
        """Return what a mark of an app says; None if it is not genuine."""
        token, _, rest = mark.partition(".")
        archive_id, _, product_id = rest.partition(".")
        if not product_id or len(product_id) > MOST_PRODUCT_ID or not _TOKEN.fullmatch(token):
            return None
        # 27 characters stand for 20 bytes; `_encode` cut off one sign of padding.
        raw = base64.urlsafe_b64decode(token + "=")
        if _encode(raw) != token:  # the last character has two spare bits
            return None
        body = raw[:-_TAG_BYTES]
        tag = raw[-_TAG_BYTES:]
        for key in self.keys:
            if hmac.compare_digest(tag, _compute_tag(key, (app_id, archive_id, product_id), body)):
                return CitationMark(body[:8].hex(), archive_id, product_id, int.from_bytes(body[8:], "big"))
        return None


@dataclass(frozen=True, slots=True)
class MarkedLinks:
    """The addresses of one call's articles, with marks."""

    signer: MarkSigner
    app_id: str
    archive_id: str
    call_id: str
    now_ms: int
    redirect: str = ""
    "Origin of Kiosk, to which links lead first; empty: they lead to the article."

    def mark(self, product_id: str, url: str) -> str:
        """Return the address of an article with a mark; unchanged where there is none, or no room for a mark."""
        if not url or not product_id or len(product_id) > MOST_PRODUCT_ID:
            return url
        mark = self.signer.sign(self.app_id, self.archive_id, self.call_id, product_id, self.now_ms)
        quoted = quote(mark, safe="", errors="surrogatepass")
        if self.redirect:
            return f"{self.redirect}{VISITS}/{quoted}"
        # The query stands before the fragment: browsers don't send what follows `#`.
        head, hash_sign, fragment = url.partition("#")
        return f"{head}{'&' if '?' in head else '?'}{PARAMETER}={quoted}{hash_sign}{fragment}"


def remove_mark(url: str) -> tuple[str, str]:
    """Return an address without its mark, and the product of a redirect address; empty for other addresses."""
    if PARAMETER in url:
        head, hash_sign, fragment = url.partition("#")
        address, _, query = head.partition("?")
        # Cut as text: parsing and encoding again would rewrite the other parameters.
        kept = "&".join(part for part in query.split("&") if not part.startswith(f"{PARAMETER}="))
        return f"{address}{'?' if kept else ''}{kept}{hash_sign}{fragment}", ""
    if f"{VISITS}/" in url:
        try:
            mark = unquote(urlsplit(url).path.rpartition(f"{VISITS}/")[2])
        except ValueError:
            return url, ""
        # The tag is not checked here: the product id only says which article a text means.
        token, _, rest = mark.partition(".")
        if _TOKEN.fullmatch(token):
            return url, rest.partition(".")[2]
    return url, ""


def archive_of_mark(mark: str) -> str:
    """Return the archive that a mark names, genuine or not."""
    return mark.partition(".")[2].partition(".")[0]


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _compute_tag(key: bytes, names: tuple[str, ...], body: bytes) -> bytes:
    # With the lengths, so that different names never give the same message.
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    message = b"".join(len(name).to_bytes(4, "big") + name for name in encoded) + body
    return hmac.digest(key, message, "sha256")[:_TAG_BYTES]
