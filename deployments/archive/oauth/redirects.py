"""Redirect addresses: which ones a client may register, when two are equal, and how an answer is added to one.

    https://any.host/path        yes
    http://127.0.0.1:PORT/path   yes, and localhost and [::1]; any port matches
    com.example.app:/path        yes: a scheme under a domain name, as RFC 8252 requires
    cursor://path                yes: schemes of known applications
    everything else              no

Source: RFC 6749 section 3.1.2, RFC 8252 section 7, OAuth 2.1 section 2.3.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from cluster.word_lists import words_from_text

LONGEST = 2000
"Maximum length in characters."

_VISIBLE = re.compile(r"[!-~]+")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.+)", re.IGNORECASE)
_HTTPS_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?")
_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?((?:[/?].*)?)")
_ANSWERED = re.compile(r"[?&](?:code|state|iss|error|error_description)(?=[=&]|$)")
_APPLICATIONS = frozenset(
    words_from_text(
        "chatgpt claude codex cursor goose jetbrains kiro lmstudio raycast trae vscode vscode-insiders "
        "vscode-oss vscodium warp windsurf windsurf-next zed"
    )
)
"Schemes of applications that connect agents, although these schemes contain no domain name."
_PRIVATE_SCHEME = re.compile(r"[a-z][a-z0-9]{1,17}(?:\.[a-z0-9+-]+)+")
"A reversed domain name; its first part is a top-level domain, so it contains no dash."
_OF_SYSTEMS = re.compile(r"(?:microsoft|ms|windows|apple|com\.apple|android)\..*")
"Names whose schemes open parts of the operating system."


def find_fault(uri: object) -> str:
    """Return why a client can't register an address; empty if it can."""
    if not isinstance(uri, str) or not uri:
        return "a redirect address is not a text"
    if len(uri) > LONGEST:
        return f"a redirect address is longer than {LONGEST} characters"
    # Browsers read a backslash as a slash, so for them the host could end elsewhere.
    if not _VISIBLE.fullmatch(uri) or any(char in uri for char in '\\#*"<>`{}|^'):
        return "a redirect address holds a fragment, a wildcard or a character that may not stand there"
    if _ANSWERED.search(uri):
        return "a redirect address holds code, state, iss or error in its query, where the answer will stand"
    match = _SCHEME.fullmatch(uri)
    if match is None:
        return "a redirect address is not absolute"
    scheme = match[1].lower()
    rest = match[2]
    if scheme == "https":
        host = _authority(uri) if rest.startswith("//") else ""
        return "" if _is_host(host) else "an https redirect address does not name a plain host"
    if scheme == "http":
        loopback = _LOOPBACK.fullmatch(uri)
        fine = loopback is not None and _is_port(loopback[2])
        return "" if fine else "http is for loopback addresses only; use https"
    if scheme not in _APPLICATIONS and (
        not _PRIVATE_SCHEME.fullmatch(scheme) or _OF_SYSTEMS.fullmatch(scheme)
    ):
        return f"the scheme {scheme} is not allowed; use one under a domain of yours, as com.example.app"
    # With a user name before the host, people read the wrong part of the address as its target.
    if not rest.startswith("/") or "@" in _authority(uri):
        return "a redirect address with a scheme of its own goes on with a slash and names no user"
    return ""


def fingerprint(uri: str) -> str:
    """Return a fingerprint that is equal for matching addresses only.

    Two addresses match if they are equal; loopback addresses may differ in the port.
    """
    loopback = _LOOPBACK.fullmatch(uri)
    if loopback is not None and _is_port(loopback[2]):
        # A program chooses the port when it starts (RFC 8252, 7.3); the spelling of its host has to match.
        uri = f"http://{loopback[1]}:*{loopback[3]}"
    digest = hashlib.sha256(uri.encode("utf-8", "surrogatepass")).digest()
    # 120 bits: nobody makes an address with a given fingerprint, and client ids stay short.
    return base64.urlsafe_b64encode(digest[:15]).decode()


def describe_target(uri: str) -> str:
    """Return the target of an address for users: its host, or the scheme of an application."""
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def is_loopback_target(uri: str) -> bool:
    """Return whether an address leads to a program that listens on a loopback port of the user's machine."""
    return _LOOPBACK.fullmatch(uri) is not None


def parse_target_host(target: str) -> str:
    """Return the host, or the scheme of an application, from the result of `describe_target`."""
    host, _, port = target.rpartition(":")
    return (host if host and (port.isdigit() or not port) else target).lower()


def is_on_this_machine(uri: str) -> bool:
    """Return whether an address leads to a program on the user's machine."""
    return not uri.lower().startswith("https:")


def add_answer(uri: str, answer: Mapping[str, str]) -> str:
    """Add an answer to the query of a redirect address; an existing query stays unchanged."""
    joint = "&" if "?" in uri else "?"
    if uri.endswith(("?", "&")):
        joint = ""
    # `state` goes back byte for byte, also where it is not UTF-8 (RFC 6749, 4.1.2).
    return uri + joint + urlencode(answer, quote_via=quote, safe="", errors="surrogateescape")


def _authority(uri: str) -> str:
    """Return the authority of an address; brackets around an invalid IP address count as a user name."""
    try:
        return urlsplit(uri).netloc
    except ValueError:
        return "@"


def _is_host(host: str) -> bool:
    match = _HTTPS_HOST.fullmatch(host)
    return match is not None and _is_port(match[1])


def _is_port(text: str | None) -> bool:
    return text is None or int(text) < 65536
