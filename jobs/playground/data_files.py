"""The texts under `data/`, read into typed values."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict

Language = Literal["de", "fr", "es"]
Row = TypeVar("Row", bound=BaseModel)


class _Text(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Wording(_Text):
    """Title and description in another language."""

    title: str
    description: str | None = None


class Variants(_Text):
    """How the products of a line differ."""

    axis: str
    "color, size, format ..."
    values: tuple[str, ...]
    prices: tuple[float, ...]
    "One a value."


class Line(_Text):
    """One thing in the shop, with its variants."""

    id: str
    "Also the product group's id."
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
    variants: Variants | None = None
    related: tuple[str, ...] = ()
    "Ids of other lines."
    translations: dict[Language, Wording]


class Part(_Text):
    """A heading and what stands under it."""

    heading: str
    paragraphs: tuple[str, ...]


class Article(_Text):
    """One article of the newspaper."""

    id: str
    section: tuple[str, str]
    published_at: str
    authors: tuple[str, ...]
    tags: tuple[str, ...]
    title: str
    subtitle: str
    parts: tuple[Part, ...]
    translations: dict[Language, Wording] = {}


class Question(_Text):
    """A question, the article that answers it and the words of the answer; None when no article does."""

    question: str
    article: str | None
    answer: str | None


class Story(_Text):
    """A kind of reader."""

    name: str
    readers: int
    ages: tuple[int, int]
    about: str
    interests: tuple[str, ...]
    likes: dict[str, float]
    "Category path joined by `>`, or a beginning of one -> weight."
    tags: tuple[str, ...]
    news: dict[str, float]
    "The same for sections of the newspaper."
    searches: tuple[tuple[str, str], ...]
    "Words typed, and the line or article they were meant to find."
    sessions: tuple[int, int]
    reading: float
    "Share of sessions spent with the newspaper."
    buying: float
    "Probability that a session in the shop ends with a purchase, roughly."
    days: int
    "How far back the sessions reach."


class Place(_Text):
    """Where a reader lives."""

    city: str
    country: str
    locale: str
    language: str


class Names(_Text):
    """First names by gender, and last names."""

    F: tuple[str, ...]
    M: tuple[str, ...]
    last: tuple[str, ...]


class Point(_Text):
    """A place on earth, in degrees."""

    lat: float
    lon: float


class People(_Text):
    """What readers are made of, and the towns with a shop."""

    places: tuple[Place, ...]
    names: dict[str, Names]
    shops: dict[str, Point]


SHELVES = ("garden", "kitchen", "outdoor", "play", "courses", "books")
SECTIONS = ("world", "politics", "science", "sport", "business")


def data_names() -> list[str]:
    """Name every file that is read, relative to `data/`."""
    shelves = [f"shop/{shelf}.json" for shelf in SHELVES]
    sections = [f"articles/{section}.json" for section in SECTIONS]
    return [*shelves, *sections, "people.json", "questions.json", "stories.json", "words.json"]


def lines() -> list[Line]:
    """Read the shop."""
    return [line for shelf in SHELVES for line in _rows(f"shop/{shelf}.json", Line)]


def articles() -> list[Article]:
    """Read the newspaper."""
    return [article for section in SECTIONS for article in _rows(f"articles/{section}.json", Article)]


def stories() -> list[Story]:
    """Read the stories of the readers."""
    return _rows("stories.json", Story)


def questions() -> list[Question]:
    """Read questions about the newspaper whose answers are known."""
    return _rows("questions.json", Question)


def people() -> People:
    """Read names and places."""
    return People.model_validate(_tree("people.json"))


def words() -> dict[str, dict[str, str]]:
    """Read what the values of variants are called in other languages."""
    tree: dict[str, dict[str, str]] = _tree("words.json")
    return tree


def _rows(name: str, kind: type[Row]) -> list[Row]:
    return [kind.model_validate(row) for row in _tree(name)]


def _tree(name: str) -> Any:
    return orjson.loads(files("jobs.playground").joinpath("data", *name.split("/")).read_bytes())
