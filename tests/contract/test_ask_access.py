"""The ask endpoints and locked articles: the token's tiers open them; for all others they never were."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import orjson
import pytest

from cluster.records.engine import Engine
from tests.contract.test_ask import Desk
from tests.fakes.corner_shop import happen, upload, view
from tests.fakes.local_recommender import open_recommending_corner
from tests.fakes.request_handler import StillClock
from tests.fakes.small_archive import ARTICLES
from tests.fakes.stores.memory import memory_stores

ACCESS = {"river-treaty": "subscriber", "mill-closes": "gold", "harbour-crane": "registered"}
TYPED = ("two", "larg", "mill", "riv", "camara", "tende", "brigde", "rivets", "the zepelin and", "part 7")
"Beginnings and typos of titles: open ones complete them, and locked ones would change how."
QUERIES = (
    "treaty about the water of the river", "river", "the crane of the harbour", "the mill",
    "Largest crane of the coast", "Two countries share the River Ardle",
)  # fmt: skip
TYPOS = (
    "zepelin",
    "zeppelin",
    "zep",
    "zeppelin river",
    "rivet",
    "rivetz river",
    "zeppelinriver",
    "harbr",
    "luftschiff",
)
"Words that stand in locked articles alone, typos of them, and typos of open words that are nearer to locked ones."
SECRETS = [
    {
        "product_id": f"airship-{number}", "type": "article", "language": language, "access": tier,
        "title": f"The zeppelin and the rivets, part {number}", "authors": ["Ada Airship"],
        "url": f"https://news.example/airship-{number}", "published_at": "2026-01-05T09:00:00Z",
        "html": "<p>The zeppelin has rivetz of the harbrs. Ein Luftschiff fliegt nicht.</p>",
    }
    for number, (tier, language) in enumerate([("subscriber", "en"), ("gold", "de"), ("gold", "en")] * 14)
]  # fmt: skip


def named(title: str, count: int, **facts: str) -> list[dict[str, Any]]:
    key = title.lower().replace(" ", "-")
    return [
        {
            "product_id": f"{key}-{number}", "type": "article", "language": "en", "title": f"{title} {number}",
            "url": f"https://news.example/{key}-{number}", "html": "<p>x</p>", **facts,
        }
        for number in range(count)
    ]  # fmt: skip


LEFT_OPEN = [
    *named("Camaraderie of the north", 12), *named("Camera of the south", 30),
    *named("Tenderness of the north", 12), *named("Tenda of the south", 3),
    *named("Bridge of the harbour", 4), *named("Brigade of the mill", 4),
]  # fmt: skip
SECRETS += [
    *named("Camara is the word", 1, access="gold"), *named("Camaraman of the east", 8, access="subscriber"),
    *named("Tenda of the east", 30, access="gold"), *named("Brigdes of the east", 9, access="gold"),
    *named("The bridge, a brigade", 40, access="subscriber"),
]  # fmt: skip
LOCKED = [
    *LEFT_OPEN,
    *({**article, "access": ACCESS.get(article["product_id"], "open")} for article in ARTICLES),
    *SECRETS,
]
ABSENT = [
    *LEFT_OPEN,
    *(article for article in ARTICLES if article["product_id"] not in ACCESS),
]


_MOVING = ("took", "service_id")


@asynccontextmanager
async def open_interface(
    articles: Sequence[dict[str, Any]], reads: Mapping[str, int] = MappingProxyType({})
) -> AsyncIterator[Desk]:
    clock = StillClock()
    stores = memory_stores(clock)
    events = [
        view(f"reader-{number}", product_id)
        for product_id, count in sorted(reads.items())
        for number in range(count)
    ]
    async with open_recommending_corner(clock, stores) as corner:
        await upload(stores, list(articles), app_id="shop")
        if events:
            await happen(stores, events, app_id="shop")
        await stores.engines.put(Engine(app_id="shop", engine_id="default", created_at=0))
        await corner.asking.start()
        yield Desk(corner, corner.handler)


def token_with(client: Desk, **claims: Any) -> dict[str, Any]:
    return {"user_id": "gina", "exp": client.corner.clock.now_ms() // 1000 + 60, **claims}


async def search(client: Desk, q: str, **more: Any) -> dict[str, Any]:
    identity = {name: more.pop(name) for name in ("token", "browser") if name in more}
    answer = await client.post("search", {"q": q, "answer": False, "rows": 50, **more}, **identity)
    assert answer.status == 200, answer.body
    data: dict[str, Any] = answer.json()["data"]
    return data


def ids(data: dict[str, Any]) -> list[str]:
    return [product["product_id"] for product in data["products"]]


async def everything_shown(client: Desk) -> list[Any]:
    """Return all that the endpoints show to somebody without a token, scores and order included."""
    shown: list[Any] = []
    for q in (*QUERIES, *TYPOS):
        for more in ({"facets": ["authors"]}, {"order_by": [{"field": "published_at"}]}):
            data = await search(client, q, browser=True, **more)
            shown.append((q, {name: value for name, value in data.items() if name not in _MOVING}))
    for path, bodies in (
        (
            "search_autocomplete",
            [{"q": q, "completion_fields": ["title"], "rows": 8} for q in (*TYPED, *TYPOS)],
        ),
        ("autocomplete", [{"q": q} for q in (*TYPED, *TYPOS)]),
        ("query_suggestion", [{"q": q} for q in (*QUERIES, *TYPOS)]),
        ("trending_questions", [{}]),
        ("related_questions", [{"product_id": name} for name in (*ACCESS, "river-flood", "mill-opens")]),
    ):
        for body in bodies:
            answer = await client.post(path, body, browser=True)
            data = answer.json().get("data")
            if isinstance(data, dict):
                data = {name: value for name, value in data.items() if name not in _MOVING}
            shown.append((path, body, answer.status, data))
    return shown


async def test_without_a_token_a_locked_article_is_as_if_it_never_was() -> None:
    async with (
        open_interface(LOCKED) as locked,
        open_interface(ABSENT) as absent,
        open_interface([*LEFT_OPEN, *ARTICLES]) as opened,
    ):
        with_locks, without, all_open = (
            await everything_shown(locked), await everything_shown(absent), await everything_shown(opened)
        )  # fmt: skip
    for locked_answer, absent_answer in zip(with_locks, without, strict=True):
        assert orjson.dumps(locked_answer) == orjson.dumps(absent_answer)
    assert with_locks != all_open, "open, these articles do show"
    text = repr([entry[1:] for entry in with_locks])
    for article in (*ARTICLES, *SECRETS):
        if article["product_id"] in ACCESS or article in SECRETS:
            assert article["title"] not in text.replace(repr(QUERIES[-1]), "")


OPEN_READS = {
    "camera-of-the-south-3": 5, "camera-of-the-south-7": 9, "camera-of-the-south-8": 10, "river-flood": 7,
    "mill-opens": 6, "bridge-of-the-harbour-2": 3, "brigade-of-the-mill-1": 4, "tenda-of-the-south-1": 2,
    "camaraderie-of-the-north-4": 1,
}  # fmt: skip
LOCKED_READS = {
    "river-treaty": 40, "mill-closes": 25, "camaraman-of-the-east-2": 60, "tenda-of-the-east-1": 33,
    "the-bridge,-a-brigade-3": 90, "airship-1": 12,
}  # fmt: skip
BROWSE = ({"q": "of the", "rows": 50}, {"q": "the north", "rows": 50}, {"q": "south", "rows": 50})


async def shown_after_reads(
    articles: Sequence[dict[str, Any]], reads: Mapping[str, int], **claims: Any
) -> list[Any]:
    """Return lists, and all that is shown, after people without a token read articles."""
    async with open_interface(articles, reads) as client:
        token = token_with(client, **claims) if claims else None
        lists = [
            [
                (product["product_id"], round(product["_personalization_score"], 6))
                for product in data["products"]
            ]
            for body in BROWSE
            for data in [await search(client, **body, browser=True, token=token)]
        ]
        shown = [] if claims else await everything_shown(client)
        return [lists, shown]


async def test_what_locked_articles_do_changes_no_order_of_others() -> None:
    quiet = await shown_after_reads(LOCKED, OPEN_READS)
    assert await shown_after_reads(LOCKED, {**OPEN_READS, **LOCKED_READS}) == quiet
    assert await shown_after_reads(ABSENT, OPEN_READS) == quiet
    assert await shown_after_reads(LOCKED, {}) != quiet, "what open articles do shows"
    subscriber = {"tiers": ["subscriber"]}
    gold_reads = {name: LOCKED_READS[name] for name in ("mill-closes", "tenda-of-the-east-1")}
    all_reads = await shown_after_reads(LOCKED, {**OPEN_READS, **LOCKED_READS}, **subscriber)
    readable = {name: count for name, count in LOCKED_READS.items() if name not in gold_reads}
    assert await shown_after_reads(LOCKED, {**OPEN_READS, **readable}, **subscriber) == all_reads
    assert await shown_after_reads(LOCKED, OPEN_READS, **subscriber) != all_reads


@pytest.fixture
async def client() -> AsyncIterator[Desk]:
    async with open_interface(LOCKED) as opened:
        yield opened


@pytest.mark.parametrize(
    ("tiers", "readable"),
    [
        (None, {"harbour-crane"}), ([], {"harbour-crane"}), (["subscriber"], {"harbour-crane", "river-treaty"}),
        (["gold", "subscriber"], set(ACCESS)), (["silver", "open", 3, None, "Gold"], {"harbour-crane"}),
        ("gold", {"harbour-crane"}), ({"gold": 1}, {"harbour-crane"}),
    ],
)  # fmt: skip
async def test_the_tiers_of_the_token_open_their_articles(
    client: Desk, tiers: Any, readable: set[str]
) -> None:
    token = token_with(client, **({} if tiers is None else {"tiers": tiers}))
    shown: set[str] = set()
    for q in QUERIES:
        data = await search(client, q, browser=True, token=token)
        assert data["total"] == len(data["products"])
        shown |= set(ids(data)) & set(ACCESS)
        for product in data["products"]:
            assert product["product_id"] not in ACCESS or product["snippet"]
    assert shown == readable


async def test_titles_are_completed_for_those_who_may_read_them(client: Desk) -> None:
    body = {"q": "two countr", "completion_fields": ["title"]}
    for tiers, count in ((["subscriber"], 1), (["gold"], 0)):
        answer = await client.post(
            "search_autocomplete", body, browser=True, token=token_with(client, tiers=tiers)
        )
        assert len(answer.json()["data"]["completions"]["title"]) == count


async def test_a_browser_and_a_secret_key_claim_no_tier_without_a_token(client: Desk) -> None:
    claimed = {
        "tiers": ["gold"],
        "metadata": {"tiers": ["gold"]},
        "user_id": "gina",
        "user_type": "subscriber",
    }
    for browser in (True, False):
        body = {name: value for name, value in claimed.items() if not browser or name != "user_id"}
        answer = await client.post("search", {"q": "the mill", "answer": False, **body}, browser=browser)
        assert answer.status == 200, answer.body
        assert not {product["product_id"] for product in answer.json()["data"]["products"]} & set(ACCESS)


FIELD_NAMES = (
    {"fq": "access:gold"}, {"fq": "custom_attributes.zeppelin:x"}, {"fq": "zepelin:x"}, {"boost_fq": "zeppelim:1"},
    {"facets": ["access", "custom_attributes.zeppelin", "custom_attributes.zepelin"]},
    {"order_by": [{"field": "custom_attributes.zeppelin"}]},
    {"facet_filters": {"custom_attributes.zeppelin": {"terms": ["x"]}}},
)  # fmt: skip


async def test_no_message_names_a_field_that_only_locked_articles_have() -> None:
    secret = {**SECRETS[0], "product_id": "secret", "custom_attributes": {"zeppelin": "x"}, "access": "gold"}
    others = [{**secret, "product_id": f"secret-{number}", "access": f"tier-{number}"} for number in range(3)]
    shown = []
    for articles in ([*ABSENT, secret, *others], ABSENT):
        async with open_interface(articles) as client:
            replies = [await search(client, "river", browser=True, **named) for named in FIELD_NAMES]
            shown.append([{key: reply[key] for key in reply.keys() - set(_MOVING)} for reply in replies])
            if articles is not ABSENT:
                gold = token_with(client, tiers=["gold"])
                data = await search(client, "river", token=gold, fq="zepelin:x")
                assert data["warnings"][0]["did_you_mean"] == "custom_attributes.zeppelin"
                assert "warnings" not in await search(client, "river", token=gold, fq="access:gold")
    assert orjson.dumps(shown[0], option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        shown[1], option=orjson.OPT_SORT_KEYS
    )
    assert all("warnings" in reply for reply in shown[0])


async def test_a_filter_can_not_bring_a_locked_article_back(client: Desk) -> None:
    for fq in ("access:gold", "access:*", "access:gold OR product_id:*", "NOT access:open"):
        data = await search(client, "*", fq=fq, browser=True, rows=100)
        assert not set(ids(data)) & set(ACCESS)
        assert data["total"] == len(data["products"])
