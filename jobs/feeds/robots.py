"""Rules of a host for robots: what may be fetched, and how long to wait between two requests.

Source: RFC 9309; `Crawl-delay` is an older extension of it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

AGENT = "kiosk"
"The product token that rules name."
MOST_BYTES = 512_000
"Bytes of `robots.txt` that are read; RFC 9309 asks for 500 KiB."
_MOST_RULES = 5_000
_MOST_STARS = 20


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one host for one agent."""

    rules: tuple[tuple[str, bool], ...] = ()
    "Pattern of a path -> whether it is allowed."
    delay_s: float = 0.0

    def allows(self, target: str) -> bool:
        """Return whether a path with its query may be fetched: the longest pattern decides, and allows on a tie."""
        target = _decode(target)
        if target == "/robots.txt":
            return True
        best = (0, True)
        for pattern, is_allowed in self.rules:
            if _matches(pattern, target):
                best = max(best, (len(pattern), is_allowed))
        return best[1]


NOTHING = RobotsRules((("/", False),))
"The rules of a host that does not answer: nothing may be fetched."


def parse_robots(text: str) -> RobotsRules:
    """Return the rules of a file for an agent; those for all agents if none names it."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    delays: dict[str, float] = {}
    # groups of other agents are not kept: a hostile file has thousands, each with the same thousands of rules
    names: set[str] = set()
    is_open = False
    "Whether further names belong to the group."
    count = 0
    for line in text.splitlines():
        name, separator, value = line.partition("#")[0].partition(":")
        name = name.strip().lower()
        value = value.strip()
        if not separator:
            continue
        if name == "user-agent":
            names = names if is_open else set()
            is_open = True
            if value.lower() in (AGENT, "*"):
                names.add(value.lower())
                groups.setdefault(value.lower(), [])
        elif name in ("allow", "disallow"):
            is_open = False
            count += bool(names)
            if value and count <= _MOST_RULES:
                for group in names:
                    groups[group].append((_decode(value), name == "allow"))
        elif name == "crawl-delay":
            is_open = False
            for group in names:
                delays[group] = _parse_seconds(value)
    chosen = AGENT if AGENT in groups else "*"
    return RobotsRules(tuple(groups.get(chosen, ())), delays.get(chosen, 0.0))


def _parse_seconds(text: str) -> float:
    return min(float(text), 1e6) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text) else 0.0


def _decode(text: str) -> str:
    """Return a path for comparison: percent-encoded and plain characters are equal, except those with a meaning."""
    return unquote(re.sub(r"%(2[4Ff5Aa])", lambda match: "%25" + match[1].upper(), text))


def _matches(pattern: str, target: str) -> bool:
    """Return whether a pattern matches the beginning of a target; `*` stands for anything, `$` for the end.

    Cost:
        linear in the target for each star
    """
    is_whole = pattern.endswith("$")
    first, *parts = pattern.removesuffix("$").split("*", _MOST_STARS)
    if not target.startswith(first):
        return False
    at = len(first)
    if is_whole and not parts:
        return at == len(target)
    for number, part in enumerate(parts, 1):
        if is_whole and number == len(parts):
            # The end must not overlap what matched before it.
            return target.endswith(part) and len(target) - len(part) >= at
        at = target.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True
