from __future__ import annotations

import time

import pytest

from jobs.feeds.robots import NOTHING, parse_robots


@pytest.mark.parametrize(
    ("rules", "target", "is_allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /a$", "/a", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /x*y*z", "/x1y2z3", False),
        ("User-agent: *\nDisallow: /search?q=", "/search?q=1", False),
        ("User-agent: *\nDisallow: /%C3%96l", "/Öl", False),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: Kiosk\nAllow: /\n\nUser-agent: *\nDisallow: /", "/a", True),
        ("User-agent: a\nUser-agent: kiosk # us\nDisallow: /a\n", "/a", False),
        ("User-agent: kiosk\nDisallow: /a\nSitemap: https://x/\nDisallow: /b", "/b", False),
        ("Disallow: /", "/a", True),
        ("\ufeffUser-agent: *\r\nDisallow: /a\r\n", "/b", True),
    ],
)  # fmt: skip
def test_the_longest_pattern_of_the_group_of_this_agent_decides(
    rules: str, target: str, is_allowed: bool
) -> None:
    assert parse_robots(rules).allows(target) is is_allowed


def test_the_pause_between_requests() -> None:
    assert parse_robots("User-agent: *\nCrawl-delay: 2.5").delay_s == 2.5
    assert parse_robots("User-agent: kiosk\nCrawl-delay: 9e99\nDisallow: /x").delay_s == 0.0
    assert parse_robots("User-agent: a\nCrawl-delay: 7\nUser-agent: kiosk\nDisallow: /x").delay_s == 0.0


def test_a_host_that_fails_allows_nothing() -> None:
    assert not NOTHING.allows("/a")


def test_hostile_rules_cost_little() -> None:
    began_s = time.monotonic()
    text = "User-agent: *\n" + "".join(f"Disallow: /{'*a' * 200}{number}\n" for number in range(1_000))
    assert parse_robots(text).allows("/" + "a" * 2_000)
    assert time.monotonic() - began_s < 2.0


def test_thousands_of_agents_with_thousands_of_rules_cost_little() -> None:
    text = "User-agent: a\n" * 30_000 + "Allow:/\n" * 5_000 + "User-agent: *\nDisallow: /b\n"
    began_s = time.monotonic()
    rules = parse_robots(text)
    assert time.monotonic() - began_s < 2.0
    assert not rules.allows("/b")
