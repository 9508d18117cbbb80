"""Detects automated requests; applied to publishable keys only.

A request without `User-Agent` looks automated, and so does one whose `User-Agent` holds a word of the list below.
The app setting `bot_rule` (off, log, on) decides what follows.
"""

from __future__ import annotations

import re

from cluster.word_lists import words_from_text

_BOUNDED = {
    b"bot": re.compile(rb"(?<!\bcu)bot"),
    b"java": re.compile(rb"(?<![a-z])java(?![a-z])"),
    b"node": re.compile(rb"(?<![a-z])node(?:js)?(?![a-z])"),
}
"""The characters that must surround short words, because some browser names contain them: Cubot phones, JavaFX.
Robots append `bot` to their names, so any character may precede it.
"""
_WORDS = tuple(
    word.encode()
    for word in words_from_text(
        "bot crawl spider curl wget postman python httpx aiohttp node axios okhttp java go-http libwww "
        "headless"
    )
)


def detect_robot(user_agent: bytes | None) -> str:
    """Return why a request looks automated; empty if it does not.

    The reason is one of a fixed set of words, never the client's text.
    """
    if not user_agent or not user_agent.strip():
        return "no user agent"
    lowered = user_agent.lower()
    for word in _WORDS:
        if word in lowered and (word not in _BOUNDED or _BOUNDED[word].search(lowered)):
            return word.decode()
    return ""
