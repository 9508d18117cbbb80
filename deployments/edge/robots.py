"""Does a request look automated? Asked only of publishable keys.

Source: reference 3.2 (the words are its proposal); switch: decision I4.
"""

from __future__ import annotations

_WORDS = (
    b"bot", b"crawl", b"spider", b"curl", b"wget", b"postman", b"python", b"httpx", b"aiohttp", b"node",
    b"axios", b"okhttp", b"java", b"go-http", b"libwww", b"headless",
)  # fmt: skip


def looks_automated(user_agent: bytes | None) -> str:
    """Tell why a request looks automated; empty when it does not.

    The reason is one of our own words, never the caller's text.
    """
    if not user_agent or not user_agent.strip():
        return "no user agent"
    lowered = user_agent.lower()
    for word in _WORDS:
        if word in lowered:
            return word.decode()
    return ""
