"""`kiosk doctor archive` against a good archive, and against ones behind bad proxies."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deployments.cli.doctor.archive_check import ArchiveCheck
from deployments.operations.insight.installation_checks import Finding
from tests.unit.deployments.cli.doctor.conftest import ACCOUNTS, PASSWORD, Proxy

pytestmark = pytest.mark.usefixtures("allow_world")
VISITORS = itertools.cycle(ACCOUNTS)


def walk(url: str, archive_id: str = "") -> dict[str, Finding]:
    """Go the whole way."""
    check = ArchiveCheck(url, next(VISITORS), PASSWORD, "river comet", archive_id)
    return {finding.check: finding for finding in check.run()}


def test_a_good_archive_is_walked_in_both_eras(place: tuple[str, Proxy]) -> None:
    findings = walk(place[0])
    assert [finding.level for finding in findings.values()] == ["warning", *["ok"] * 20], findings
    assert list(findings)[-1] == "end of access"
    assert findings["stateless tools"].words == "5 tools; search and fetch agree"
    assert findings["licence file"].words.endswith("/mcp/license.xml holds the terms that replies name")
    assert findings["keys of statements"].words == "statements are verified by 1 public key"


def test_a_named_archive_is_walked_at_its_address(place: tuple[str, Proxy]) -> None:
    findings = walk(place[0], "sports")
    assert [finding.level for finding in findings.values()] == ["warning", *["ok"] * 20], findings
    assert "/mcp/sports" in findings["address"].words
    assert findings["metadata"].words.startswith("three addresses")
    assert findings["licence file"].words.startswith("no terms are set")
    lost = walk(place[0], "wine")
    assert list(lost) == ["address", "endpoint"]
    assert lost["endpoint"].level == "bad"


@pytest.mark.parametrize(
    ("spoil", "check", "words", "advice"),
    [
        ({"drop": b"mcp-method"}, "server/discover", "answered 400", "Mcp-*"),
        ({"drop": b"mcp-name"}, "stateless tools", "answered 400", "Mcp-*"),
        ({"drop": b"mcp-protocol-version"}, "server/discover", "answered 400", "Mcp-*"),
        ({"drop_reply": b"access-control-allow-origin"}, "metadata", "is closed to pages", "Allow-Origin"),
        ({"drop_reply": b"access-control-allow-origin"}, "catalog", "is closed to pages", "Allow-Origin"),
        ({"drop_reply": b"etag"}, "server cards", "ETag", "ETags"),
        ({"drop_reply": b"cache-control"}, "PKCE and token", "cached on the way", ""),
        ({"error_page": b"<html>404</html>"}, "bodies of errors", "no JSON-RPC error", "replaces the bodies"),
        ({"error_page": b"<html>400</html>"}, "header rules", "no JSON-RPC error", "replaces the bodies"),
        ({"replace": (b"2026-07-28", b"2026-07-29")}, "server cards", "other revisions", "keeps answers"),
        ({"replace": (b"/mcp/server-card", b"/mcp/card")}, "catalog", "the catalog names", "KIOSK_PUBLIC_URL"),
        ({"add": [(b"x-cache", b"HIT from edge")]}, "caching", "x-cache says", "keeps answers"),
        ({"status": {("/llms.txt", 200): 404}}, "guide", "answered 404", "routed"),
        ({"status": {("/mcp/license.xml", 200): 403}}, "licence file", "answered 403", "routed"),
        ({"replace": (b"<rsl ", b"<html ")}, "licence file", "is no RSL", "keeps answers"),
        ({"status": {("/mcp/jwks.json", 200): 404}}, "keys of statements", "answered 404", "routed"),
        ({"replace": (b'"keys"', b'"locks"')}, "keys of statements", "no public keys", "keeps answers"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_a_proxy_breaks_is_named(
    place: tuple[str, Proxy], spoil: Any, check: str, words: str, advice: str
) -> None:
    for name, value in spoil.items():
        setattr(place[1], name, value)
    finding = walk(place[0])[check]
    assert words in finding.words
    assert advice in finding.advice
    assert (finding.level == "bad") == bool(words)


def test_a_broken_document_does_not_end_the_walk(place: tuple[str, Proxy]) -> None:
    place[1].status = {("/llms.txt", 200): 404}
    findings = walk(place[0])
    assert [finding.check for finding in findings.values() if finding.level == "bad"] == ["guide"]
    assert list(findings)[-1] == "end of access"
