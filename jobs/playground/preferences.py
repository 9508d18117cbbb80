"""Preferences of the sample users: the weight of each product line and each article for a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jobs.playground.data_files import NewsArticle, ProductLine, UserStory, read_articles, read_product_lines
from jobs.playground.products import NEWS_SITE, SHOP_SITE, list_variant_ids
from jobs.playground.seeded_random import SeededRandom

HOT_ITEMS = 8
"Number of product lines that trend in the last few days."

Weights: TypeAlias = tuple[float, ...]
"One weight for each item, in the order of the items."


@dataclass(frozen=True, slots=True)
class SampleItem:
    """A product line or an article, with the fields that a visit needs."""

    id: str
    paths: tuple[tuple[str, ...], ...]
    tags: frozenset[str]
    related: tuple[str, ...]
    product_ids: tuple[str, ...]
    prices: tuple[float, ...]
    rating: float
    url: str
    popularity: float
    "Popularity among all users; 1 is average."
    article: bool = False


@dataclass(frozen=True, slots=True)
class SampleCatalog:
    """All items of the sample."""

    shop: tuple[SampleItem, ...]
    news: tuple[SampleItem, ...]
    by_id: Mapping[str, SampleItem]
    hot: frozenset[str]
    "Ids of the product lines that trend."


def build_catalog() -> SampleCatalog:
    """Return the items of shop and newspaper."""
    shop = tuple(_item_from_line(line) for line in read_product_lines())
    news = tuple(_item_from_article(article) for article in read_articles())
    dice = SeededRandom("hot")
    hot = frozenset(dice.choice(shop).id for _ in range(HOT_ITEMS))
    return SampleCatalog(shop, news, {thing.id: thing for thing in shop + news}, hot)


@dataclass(frozen=True, slots=True)
class UserPreferences:
    """The weight of every item for one user."""

    shop: Weights
    lately: Weights
    "The weights of the shop while some lines trend."
    news: Weights


def build_preferences(story: UserStory, user_id: str, place: SampleCatalog) -> UserPreferences:
    """Return the weights for one user: the story determines the kinds, the user's random draws the items."""
    tags = frozenset(story.tags)
    shop = _item_weights(place.shop, story.likes, tags, SeededRandom("taste", user_id, "shop"))
    news = _item_weights(place.news, story.news, tags, SeededRandom("taste", user_id, "news"))
    talk = [3 if thing.id in place.hot else 1 for thing in place.shop]
    return UserPreferences(shop, tuple(pull * louder for pull, louder in zip(shop, talk, strict=True)), news)


def _item_weights(
    things: Sequence[SampleItem], likes: Mapping[str, float], tags: frozenset[str], dice: SeededRandom
) -> Weights:
    paths = [(tuple(path.split(">")), weight) for path, weight in likes.items()]
    weights = []
    for thing in things:
        draw = dice.random()
        liked = max((weight for path, weight in paths if _is_under(thing, path)), default=0.02)
        shared = len(tags & thing.tags)
        # draw^2: most factors are near 0.1, and a few near 2.
        weights.append(liked * (1 + shared) * thing.popularity * (0.1 + 1.9 * draw * draw))
    return tuple(weights)


def _is_under(thing: SampleItem, path: tuple[str, ...]) -> bool:
    return any(item_path[: len(path)] == path for item_path in thing.paths)


def _draw_popularity(thing_id: str, most: float) -> float:
    share = SeededRandom("fame", thing_id).random()
    # Squared, so that a few items are far more popular than the rest.
    return round(0.5 + (most - 0.5) * share * share, 3)


def _item_from_line(line: ProductLine) -> SampleItem:
    return SampleItem(
        id=line.id,
        paths=line.categories,
        tags=frozenset(line.tags),
        related=line.related,
        product_ids=tuple(list_variant_ids(line)),
        prices=line.variants.prices if line.variants else (line.price,),
        rating=line.rating,
        url=f"{SHOP_SITE}/{line.type}/{line.id}",
        popularity=_draw_popularity(line.id, 2.5),
    )


def _item_from_article(article: NewsArticle) -> SampleItem:
    return SampleItem(
        id=article.id,
        paths=(article.section,),
        tags=frozenset(article.tags),
        related=(),
        product_ids=(article.id,),
        prices=(0.0,),
        rating=4.0,
        url=f"{NEWS_SITE}/{article.section[0].lower()}/{article.id}",
        popularity=_draw_popularity(article.id, 1.5),
        article=True,
    )
