"""The texts under `data/`, read into typed values.

Questions about the newspaper with the sentences that answer them; a third have no answer.

They were written by hand from the articles, before the answer engine, and never adapted to it. One half is for
the choice of thresholds (`tune`). No weights were fitted on the other half (`held`), but its metrics were visible
during the choice of settings, so they are slightly optimistic.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict

Language = Literal["de", "fr", "es"]
TextModel = TypeVar("TextModel", bound=BaseModel)


class _TextData(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TranslatedText(_TextData):
    """Title and description in another language."""

    title: str
    description: str | None = None


class ProductVariants(_TextData):
    """The attribute in which the products of a line differ."""

    axis: str
    "Name of the attribute: color, size, format ..."
    values: tuple[str, ...]
    prices: tuple[float, ...]
    "One price for each value."


class ProductLine(_TextData):
    """One product line of the shop, with its variants."""

    id: str
    "Id of the line, which is also the id of the product group."
    type: str
    title: str
    description: str
    categories: tuple[tuple[str, ...], ...]
    brand: str
    price: float
    rating: float
    tags: tuple[str, ...]
    authors: tuple[str, ...] = ()
    attributes: dict[str, Any]
    variants: ProductVariants | None = None
    related: tuple[str, ...] = ()
    "Ids of other lines."
    translations: dict[Language, TranslatedText]


class NewsSection(_TextData):
    """A heading and the text under it."""

    heading: str
    paragraphs: tuple[str, ...]


class NewsArticle(_TextData):
    """One article of the newspaper."""

    id: str
    section: tuple[str, str]
    published_at: str
    authors: tuple[str, ...]
    tags: tuple[str, ...]
    title: str
    subtitle: str
    parts: tuple[NewsSection, ...]
    translations: dict[Language, TranslatedText] = {}


class NewsQuestion(_TextData):
    """A question, the article that answers it and the words of the answer; None if no article answers it."""

    question: str
    article: str | None
    answer: str | None


class UserStory(_TextData):
    """A kind of user."""

    name: str
    users: int
    ages: tuple[int, int]
    about: str
    interests: tuple[str, ...]
    likes: dict[str, float]
    "Category path joined by `>`, or a prefix of one -> weight."
    tags: tuple[str, ...]
    news: dict[str, float]
    "The same for sections of the newspaper."
    searches: tuple[tuple[str, str], ...]
    "Search queries, and the product line or article that each should find."
    sessions: tuple[int, int]
    reading: float
    "Share of sessions spent with the newspaper."
    buying: float
    "Approximate probability that a session in the shop ends with a purchase."
    days: int
    "Number of days before the present in which the sessions lie."


class HomeTown(_TextData):
    """The home town of a user."""

    city: str
    country: str
    locale: str
    language: str


class PersonNames(_TextData):
    """First names by gender, and last names."""

    F: tuple[str, ...]
    M: tuple[str, ...]
    last: tuple[str, ...]


class ShopLocation(_TextData):
    """A place on earth, in degrees."""

    lat: float
    lon: float


class PeopleData(_TextData):
    """Names and places from which users are generated, and the towns with a shop."""

    places: tuple[HomeTown, ...]
    names: dict[str, PersonNames]
    shops: dict[str, ShopLocation]


SHOP_SECTIONS = ("garden", "kitchen", "outdoor", "play", "courses", "books")
NEWS_SECTIONS = ("world", "politics", "science", "sport", "business")


def list_data_files() -> list[str]:
    """Return the names of all data files, relative to `data/`."""
    shop_files = [f"shop/{section}.json" for section in SHOP_SECTIONS]
    sections = [f"articles/{section}.json" for section in NEWS_SECTIONS]
    return [*shop_files, *sections, "people.json", "questions.json", "stories.json", "words.json"]


def read_product_lines() -> list[ProductLine]:
    """Return the product lines of the shop."""
    return [line for section in SHOP_SECTIONS for line in _read_models(f"shop/{section}.json", ProductLine)]


def read_articles() -> list[NewsArticle]:
    """Return the articles of the newspaper."""
    return [
        article
        for section in NEWS_SECTIONS
        for article in _read_models(f"articles/{section}.json", NewsArticle)
    ]


def read_user_stories() -> list[UserStory]:
    """Return the stories of the users."""
    return _read_models("stories.json", UserStory)


def read_questions() -> list[NewsQuestion]:
    """Return questions about the newspaper with known answers."""
    return _read_models("questions.json", NewsQuestion)


def read_people() -> PeopleData:
    """Return names and places."""
    return PeopleData.model_validate(_read_json("people.json"))


def read_translations() -> dict[str, dict[str, str]]:
    """Return the translations of variant values."""
    tree: dict[str, dict[str, str]] = _read_json("words.json")
    return tree


def _read_models(name: str, kind: type[TextModel]) -> list[TextModel]:
    return [kind.model_validate(row) for row in _read_json(name)]


def _read_json(name: str) -> Any:
    return orjson.loads(files("jobs.playground").joinpath("data", *name.split("/")).read_bytes())
