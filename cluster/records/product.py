"""The product or content record, its parts and translations."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag

from cluster.access_tier import TIER_FORM
from cluster.records.field_types.fields import (
    STRICT,
    Address,
    Attributes,
    Content,
    Contents,
    DayOrMoment,
    Images,
    NamedId,
    NamedIds,
    Number,
    Paths,
    ProductId,
    ShortText,
    Strict,
    Texts,
    Title,
    Uri,
)

TRANSLATION_NAME: Final = r"^i18n_[A-Za-z]{2}$"


class Location(Strict):
    """A place on earth, in degrees."""

    lat: Annotated[Number, Field(ge=-90, le=90)]
    lon: Annotated[Number, Field(ge=-180, le=180)]


def _one_or_many(value: Any) -> str:
    return "many" if isinstance(value, list) else "one"


Locations: TypeAlias = Annotated[
    Annotated[Location, Tag("one")] | Annotated[list[Location], Field(fail_fast=True), Tag("many")],
    Discriminator(_one_or_many),
]


class Child(Strict):
    """A part of long content, for example a chapter; serves answer snippets only."""

    id: NamedId
    url: Address | None = None
    title: Title | None = None
    description: Content | None = None
    html: Content | None = None
    headers: Texts | None = None
    custom_attributes: Attributes | None = None


class Translation(Strict):
    """An `i18n_<ln>` object: the text fields in another language."""

    title: Title | None = None
    subtitle: ShortText | None = None
    description: Content | None = None
    short_description: ShortText | None = None
    html: Content | None = None
    headers: Texts | None = None
    paragraphs: Contents | None = None
    anchors: Texts | None = None
    tags: Texts | None = None
    categories: Paths | None = None
    authors: Texts | None = None
    brand: ShortText | None = None
    size: ShortText | None = None
    color: ShortText | None = None
    material: ShortText | None = None
    url: Uri | None = None
    cover_image: Uri | None = None
    custom_attributes: Attributes | None = None


def _close_schema(schema: dict[str, Any]) -> None:
    """Document in the JSON schema how the key type of the extra fields validates names."""
    schema["patternProperties"] = {TRANSLATION_NAME: schema.pop("additionalProperties", True)}
    schema["additionalProperties"] = False


class Product(Strict):
    """A product, article or other item. An upload replaces the whole record.

    Translations are the only extra fields: `product.translations["i18n_fr"].title`.

    Published in `docs/reference/rest.md`, section Products.
    """

    model_config = ConfigDict({**STRICT, "extra": "allow", "json_schema_extra": _close_schema})
    __pydantic_extra__: dict[Annotated[str, Field(pattern=TRANSLATION_NAME)], Translation | None]

    product_id: ProductId
    product_group_id: NamedId | None = None
    "All variants of one product share it; the `product_id` when absent."
    parent_id: NamedId | None = None
    related_ids: NamedIds | None = Field(
        None,
        description="Products or product groups that belong to this one. `product_to_products` prefers them; answers "
        "that cite this product name related products first in `related_resources`; `related_questions` goes on with "
        "theirs.",
    )
    type: Annotated[str, Field(max_length=512)] | None = None
    title: Title | None = None
    subtitle: ShortText | None = None
    description: Content | None = None
    short_description: ShortText | None = None
    html: Content | None = None
    headers: Texts | None = None
    paragraphs: Contents | None = None
    anchors: Texts | None = None
    children: Annotated[list[Child], Field(fail_fast=True)] | None = None
    language: Annotated[str, Field(min_length=2, max_length=64)] | None = None
    created_at: DayOrMoment | None = None
    published_at: DayOrMoment | None = None
    updated_at: DayOrMoment | None = None
    categories: Paths | None = None
    tags: Texts | None = None
    authors: Texts | None = None
    publishers: Texts | None = None
    collections: Texts | None = None
    url: Uri | None = None
    cover_image: Uri | None = None
    images: Images | None = None
    price: Number | None = None
    "`sale_price` wins when both exist."
    original_price: Number | None = None
    sale_price: Number | None = None
    margin: Number | None = None
    size: ShortText | None = None
    color: ShortText | None = None
    material: ShortText | None = None
    brand: ShortText | None = None
    condition: Literal["NEW", "USED", "REFURBISHED"] | None = None
    availability: Literal["IN_STOCK", "OUT_OF_STOCK", "PRE_ORDER"] | None = None
    "Absent counts as `IN_STOCK`."
    rating: Number | None = None
    location: Locations | None = None
    enable_question_answering: bool | None = None
    access: Annotated[str, Field(pattern=TIER_FORM)] | None = None
    corrected_at: DayOrMoment | None = None
    correction_note: ShortText | None = None
    custom_attributes: Attributes | None = None

    @property
    def translations(self) -> dict[str, Translation]:
        """Return the `i18n_<ln>` objects by field name."""
        extra = self.__pydantic_extra__ or {}
        return {name: given for name, given in extra.items() if given is not None}


PRODUCT_TIMES: Final = ("created_at", "published_at", "updated_at", "corrected_at")
"Fields that are rewritten into UTC."
PRODUCT_MODELS: Final = (Product, Child, Translation, Location)
"Everything a product may consist of."
