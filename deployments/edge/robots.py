"""Does a request look automated? Asked only of publishable keys.

A request without `User-Agent` looks automated, and so does one whose `User-Agent` holds a word of the list below.
The app setting `bot_rule` (off, log, on) decides what follows.
"""

from __future__ import annotations

import re

_BOUNDED = {
    b"bot": re.compile(rb"(?<!\bcu)bot"),
    b"java": re.compile(rb"(?<![a-z])java(?![a-z])"),
    b"node": re.compile(rb"(?<![a-z])node(?:js)?(?![a-z])"),
}
"""How short words have to stand, because browsers of people hold them too: phones of the maker Cubot, JavaFX. Robots
hang `bot` onto their names, so it need not stand alone."""
_WORDS = (
    b"bot", b"crawl", b"spider", b"curl", b"wget", b"postman", b"python", b"httpx", b"aiohttp", b"node",
    b"axios", b"okhttp", b"java", b"go-http", b"libwww", b"headless",
)  # fmt: skip


def detect_robot(user_agent: bytes | None) -> str:
    """Tell why a request looks automated; empty when it does not.

    The reason is one of our own words, never the caller's text.
    """
    if not user_agent or not user_agent.strip():
        return "no user agent"
    lowered = user_agent.lower()
    for word in _WORDS:
        if word in lowered and (word not in _BOUNDED or _BOUNDED[word].search(lowered)):
            return word.decode()
    return ""
