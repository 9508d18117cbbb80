"""Pairs of a set of tiers and an article: what the ask endpoints show, and would show without the locked articles.

Each article has one word of its own in title and text, so a leak is a word that may not appear.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import orjson

from cluster.access_tier import may_read
from tests.contract.test_ask import Desk
from tests.contract.test_ask_access import open_interface, token_with

NAMED = ("subscriber", "gold", "silver")
TIERS = tuple(chain.from_iterable(combinations(NAMED, size) for size in range(4)))
"All sets of the three tiers, each with a token; without one, nothing but open articles is read."
ACCESSES = ("open", "open", "registered", *NAMED)
TOPICS = ("harbour", "river", "parliament", "museum", "railway", "orchard")
QUESTION = "Which harbour will open?"
TOPIC_PAIRS = (("harbour", "museum"), ("river", "orchard"), ("railway", "river"), ("orchard", "parliament"))
ROWS = 100
QUERIES = 40
_WORDS = re.compile("[a-z]+")


@dataclass
class PairCount:
    """What was compared, and what leaked."""

    pairs: int = 0
    shown: int = 0
    quoted: int = 0
    "Words of locked articles in answers, for tiers that open them."
    leaks: list[str] = field(default_factory=list)


def build_articles(count: int) -> list[dict[str, Any]]:
    """Return articles of all accesses, with a word of their own in title and text."""
    draw = random.Random(24)
    return [
        {
            "product_id": f"p-{number}", "type": "article", "language": "en", "access": draw.choice(ACCESSES),
            "title": f"The {draw.choice(TOPICS)} of {_word(number)}", "authors": [f"Writer {number % 7}"],
            "url": f"https://news.example/{number}", "published_at": "2026-01-05T09:00:00Z",
            "html": f"<p>{_word(number)} says that the {draw.choice(TOPICS)} near the {draw.choice(TOPICS)} "
            f"will open in {2027 + number % 9}.</p>",
        }
        for number in range(count)
    ]  # fmt: skip


async def compare_pairs(count: int) -> PairCount:
    """Return what each set of tiers gets that it may not read, in texts, counts and facets."""
    articles, result = build_articles(count), PairCount()
    question_ids: list[str] = []
    async with open_interface(articles) as client:
        for names in (None, *TIERS):
            tiers = frozenset() if names is None else frozenset((*names, "registered"))
            readable = [
                number
                for number, article in enumerate(articles)
                if article["access"] == "open" or may_read(article["access"], tiers)
            ]
            token = None if names is None else token_with(client, tiers=list(names))
            text = await collect_shown(client, token, count)
            words = {_word(number) for number in range(count)} & set(_WORDS.findall(text.lower()))
            leaked = words - {_word(number) for number in readable}
            result.leaks += [f"{names} shows {word}" for word in sorted(leaked)]
            for topic, other in TOPIC_PAIRS:
                text = f"In which year will the {topic} near the {other} open?"
                question_ids.append(await client.post_question(text, browser=True, token=token))
            await read_answers(client, articles, question_ids, result)
            result.leaks += await find_wrong_counts(client, token, [articles[number] for number in readable])
            result.pairs += len(articles)
            result.shown += len(words)
    return result


async def collect_shown(client: Desk, token: dict[str, Any] | None, count: int) -> str:
    """Return all that the endpoints show to a token: searches, completions, questions and an answer."""
    shown: list[Any] = []

    async def post(path: str, **body: Any) -> None:
        reply = await client.post(path, body, browser=True, token=token)
        assert reply.status == 200, reply.body
        shown.append(reply.json()["data"])

    for topic in TOPICS:
        await post("search", q=topic, answer=False, rows=ROWS)
        await post("query_suggestion", q=topic)
        await post("autocomplete", q=f"the {topic}")
        await post("search_autocomplete", q=f"the {topic}", completion_fields=["title"], rows=20)
    await post("trending_questions", rows=20)
    for number in range(0, count, max(1, count // QUERIES)):
        # A reply repeats no query, so a word in it comes from an article.
        await post("search", q=_word(number), answer=False, rows=ROWS)
        await post("search_autocomplete", q=_word(number)[:-1], completion_fields=["title"])
        await post("related_questions", product_id=f"p-{number}")
    question_id = await client.post_question(QUESTION, browser=True, token=token)
    shown.append(await client.finished(question_id))
    await client.corner.asking.queue.wait_idle()
    shown.append((await client.get(f"questions/{question_id}/answer", token=token)).json())
    return orjson.dumps(shown).decode()


async def read_answers(
    client: Desk, articles: Sequence[Mapping[str, Any]], question_ids: Sequence[str], result: PairCount
) -> None:
    """Read the stored answers of all sets of tiers by each of the sets, in all ways, and record what is quoted."""
    await client.corner.asking.queue.wait_idle()
    locked = {_word(number): article["access"] for number, article in enumerate(articles)}
    for names in (None, *TIERS):
        tiers = frozenset() if names is None else frozenset((*names, "registered"))
        token = None if names is None else token_with(client, tiers=list(names))
        replies = [
            await client.get(f"questions/{question_id}/answer", token=token) for question_id in question_ids
        ]
        for extra in ({}, {"cite_start": "("}):
            replies.append(await client.post("answers", {"question_ids": question_ids, **extra}, token=token))
        words = set(_WORDS.findall(b"".join(reply.body for reply in replies).decode().lower()))
        for word in words & locked.keys():
            if locked[word] == "open":
                continue
            if may_read(locked[word], tiers):
                result.quoted += 1
            else:
                result.leaks.append(f"{names} reads {word} in an answer")


async def find_wrong_counts(
    client: Desk, token: dict[str, Any] | None, readable: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return where total and facets of all articles are not those of the readable ones."""
    body = {"q": "*", "answer": False, "rows": 1, "facets": ["authors"]}
    data = (await client.post("search", body, browser=True, token=token)).json()["data"]
    counts = dict(data["facet_counts"]["facet_fields"]["authors"])
    expected = Counter(author for article in readable for author in article["authors"])
    return [f"{token} counts {data['total']}, {counts}"] * (
        (data["total"], counts) != (len(readable), expected)
    )


def _word(number: int) -> str:
    """Return a word that only one article has."""
    letters = "bcdfghklmnprstvz"
    syllables = ""
    for _ in range(5):
        number, rest = divmod(number, 16)
        syllables += letters[rest] + "aeiou"[(number + rest) % 5]
    return f"{syllables}x"
