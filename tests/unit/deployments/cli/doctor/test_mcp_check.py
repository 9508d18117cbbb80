"""`kiosk doctor mcp` against an archive on a port of its own, and against ones that were put behind bad proxies."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.cli.doctor.mcp_check import McpCheck
from deployments.operations.insight.installation_checks import Finding
from tests.unit.deployments.cli.doctor.conftest import PASSWORD, Proxy

pytestmark = pytest.mark.usefixtures("allow_world")


def walk(origin: str, password: str = PASSWORD, question: str = "river comet") -> list[Finding]:
    """Go the whole way."""
    return list(McpCheck(origin, "ada", password, question).run())


def test_a_good_archive_is_walked_to_the_end(place: tuple[str, Proxy]) -> None:
    findings = walk(place[0])
    assert [finding.level for finding in findings] == ["warning", *["ok"] * 9], findings
    assert "cited as [" in findings[7].words


def test_an_empty_archive_is_a_warning(place: tuple[str, Proxy]) -> None:
    call = walk(place[0], question="zzz")[7]
    assert (call.check, call.level) == ("call", "warning")
    assert "found nothing" in call.words


def test_a_wrong_password_ends_the_walk_at_the_page(place: tuple[str, Proxy]) -> None:
    last = walk(place[0], password="wrong-horse-battery")[-1]
    assert (last.check, last.level) == ("sign-in", "bad")


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        ({"add": [(b"www-authenticate", b"Basic")]}, "endpoint", "asks for sign-in"),
        ({"drop": b"origin"}, "endpoint", "stranger's page"),
        ({"status": {("/mcp", 405): 404}}, "endpoint", "GET answered 404"),
        ({"replace": (b'/mcp"', b'/mcp/"')}, "discovery", "resource is"),
        ({"replace": (b"S256", b"plain")}, "discovery", "S256"),
        ({"replace": (b'/archive"', b'/archive/"')}, "discovery", "authorization server"),
        ({"status": {("/.well-known/openid-configuration/archive", 404): 200}}, "discovery", "openid"),
        (
            {"replace": (b'"client_id":', b'"client":')},
            "registration",
            "unexpected form (KeyError: 'client_id')",
        ),
        ({"add": [(b"content-security-policy", b"form-action 'self'")]}, "sign-in", "form-action"),
        ({"replace": (b'"expires_in": 3600', b'"expires_in": 3600.0')}, "PKCE and token", "expires_in"),
        ({"replace": (b'"ask_archive"', b'"ask_the_archive"')}, "initialize and list", "the tools are"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_proxy_spoils_is_named(place: tuple[str, Proxy], spoil: Any, check: str, words: str) -> None:
    for name, value in spoil.items():
        setattr(place[1], name, value)
    last = walk(place[0])[-1]
    assert (last.check, last.level) == (check, "bad"), last
    assert words in last.words


def test_an_unreachable_server_gives_one_sentence() -> None:
    last = walk("http://127.0.0.1:9")[-1]
    assert last.level == "bad"
    assert "does not answer" in last.words


def test_plain_http_beyond_loopback_is_reported_first() -> None:
    (only,) = walk("http://news.example.com")
    assert "plain http" in only.words
