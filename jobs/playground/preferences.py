"""What attracts whom: how strongly each line of the shop and each article pulls a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jobs.playground.archive import SITE as NEWS_SITE
from jobs.playground.data_files import Article, Line, Story, articles, lines
from jobs.playground.seeded_random import Dice
from jobs.playground.shop import SITE as SHOP_SITE
from jobs.playground.shop import variant_ids

HOT = 8
"So many lines of the shop are talked about in the last few days."

Weights: TypeAlias = tuple[float, ...]
"One a thing, in the order of the things."


@dataclass(frozen=True, slots=True)
class Thing:
    """A line of the shop or an article, as far as a visit is concerned."""

    id: str
    paths: tuple[tuple[str, ...], ...]
    tags: frozenset[str]
    related: tuple[str, ...]
    product_ids: tuple[str, ...]
    prices: tuple[float, ...]
    rating: float
    url: str
    fame: float
    "How much everybody looks at it, 1 being usual."
    article: bool = False


@dataclass(frozen=True, slots=True)
class Town:
    """Everything there is to see."""

    shop: tuple[Thing, ...]
    news: tuple[Thing, ...]
    by_id: Mapping[str, Thing]
    hot: frozenset[str]
    "Ids of the lines that are talked about lately."


def town() -> Town:
    """Read shop and newspaper as things to be visited."""
    shop = tuple(_thing_of_line(line) for line in lines())
    news = tuple(_thing_of_article(article) for article in articles())
    dice = Dice("hot")
    hot = frozenset(dice.pick(shop).id for _ in range(HOT))
    return Town(shop, news, {thing.id: thing for thing in shop + news}, hot)


@dataclass(frozen=True, slots=True)
class Tastes:
    """How strongly everything pulls one reader."""

    shop: Weights
    lately: Weights
    "The shop, while some of it is talked about."
    news: Weights


def tastes_of(story: Story, user_id: str, place: Town) -> Tastes:
    """Weigh everything for one reader: the story says what kind, the reader's own dice which of them."""
    wanted = frozenset(story.tags)
    shop = _pulls(place.shop, story.likes, wanted, Dice("taste", user_id, "shop"))
    news = _pulls(place.news, story.news, wanted, Dice("taste", user_id, "news"))
    talk = [3 if thing.id in place.hot else 1 for thing in place.shop]
    return Tastes(shop, tuple(pull * louder for pull, louder in zip(shop, talk, strict=True)), news)


def _pulls(
    things: Sequence[Thing], likes: Mapping[str, float], wanted: frozenset[str], dice: Dice
) -> Weights:
    paths = [(tuple(path.split(">")), weight) for path, weight in likes.items()]
    weights = []
    for thing in things:
        own = dice.share()
        liked = max((weight for path, weight in paths if _under(thing, path)), default=0.02)
        shared = len(wanted & thing.tags)
        weights.append(liked * (1 + shared) * thing.fame * (0.1 + 1.9 * own * own))
    return tuple(weights)


def _under(thing: Thing, path: tuple[str, ...]) -> bool:
    return any(own[: len(path)] == path for own in thing.paths)


def _fame(thing_id: str, most: float) -> float:
    share = Dice("fame", thing_id).share()
    return round(0.5 + (most - 0.5) * share * share, 3)


def _thing_of_line(line: Line) -> Thing:
    return Thing(
        id=line.id,
        paths=line.categories,
        tags=frozenset(line.tags),
        related=line.related,
        product_ids=tuple(variant_ids(line)),
        prices=line.variants.prices if line.variants else (line.price,),
        rating=line.rating,
        url=f"{SHOP_SITE}/{line.type}/{line.id}",
        fame=_fame(line.id, 2.5),
    )


def _thing_of_article(article: Article) -> Thing:
    return Thing(
        id=article.id,
        paths=(article.section,),
        tags=frozenset(article.tags),
        related=(),
        product_ids=(article.id,),
        prices=(0.0,),
        rating=4.0,
        url=f"{NEWS_SITE}/{article.section[0].lower()}/{article.id}",
        fame=_fame(article.id, 1.5),
        article=True,
    )
