"""Define the 29 types of interactions, each with exactly its fields; `type` distinguishes them.

    shape             types                                              besides the shared fields
    ProductAction     remove_from_cart refund subscribe unsubscribe      ids
                      add_to_collection remove_from_collection like
                      dislike share bookmark complete impression
                      viewable_impression click submit product_image_view
    ProductVisit      product_detail_page_view promo_page_view           ids, duration
                      read watch listen
    CartAddition      add_to_cart                                        ids, quantities
    Checkout          checkout                                           ids, quantities, revenue
    Rating            rate                                               ids, rating
    CustomAction      custom                                             ids, custom_action_name
    Search            search                                             search
    Feedback          feedback                                           question_id, result_type, value
    HomeVisit         home_page_view                                     duration
    CategoryVisit     category_page_view                                 category, duration

`ids` are `product_ids` and `product_group_ids`.

A user's recent interaction in packed form, as recent lists in Redis hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import orjson
from pydantic import ConfigDict, Field, model_validator
from typing_extensions import Self

from cluster.records.field_types.fields import (
    STRICT,
    Address,
    EventId,
    Filters,
    Ipv4,
    Moment,
    NamedId,
    NamedIds,
    Number,
    Quantities,
    ShortText,
    Strict,
    Texts,
    Uuid,
    VisitorId,
    error_from_text,
)
from cluster.word_lists import words_from_text

_OPEN = ConfigDict({**STRICT, "extra": "allow"})


class Campaign(Strict):
    """Where a visitor came from."""

    model_config = _OPEN

    name: ShortText | None = None
    source: ShortText | None = None
    medium: ShortText | None = None
    term: ShortText | None = None
    content: ShortText | None = None


class Page(Strict):
    """The page on which something happened."""

    model_config = _OPEN

    url: Address
    referrer: Address | None = None
    title: ShortText | None = None


class Context(Strict):
    """Circumstances, for conditions and values of the goals of experiments; unknown keys are kept."""

    model_config = _OPEN

    campaign: Campaign | None = None
    truncated_ip: Ipv4 | None = None
    locale: ShortText | None = None
    region: ShortText | None = None
    page: Page | None = None
    user_agent: ShortText | None = None
    custom_context: dict[str, Any] | None = None


class SearchTerms(Strict):
    """What was searched for."""

    keywords: ShortText | None = None
    filters: Filters | None = None


class Shared(Strict):
    """Fields of every type.

    Published in `docs/reference/rest.md`, section Interactions.
    """

    user_id: NamedId | None = None
    anonymous_id: VisitorId | None = None
    timestamp: Moment | None = None
    service_id: Uuid | None = None
    event_id: EventId | None = None
    context: Context | None = None


class _WithProducts(Shared):
    product_ids: NamedIds | None = None
    product_group_ids: NamedIds | None = None


class ProductAction(_WithProducts):
    """An action on products without a measure."""

    type: Literal[
        "remove_from_cart",
        "refund",
        "subscribe",
        "unsubscribe",
        "add_to_collection",
        "remove_from_collection",
        "like",
        "dislike",
        "share",
        "bookmark",
        "complete",
        "impression",
        "viewable_impression",
        "click",
        "submit",
        "product_image_view",
    ]


class ProductVisit(_WithProducts):
    """Time spent with products."""

    type: Literal["product_detail_page_view", "promo_page_view", "read", "watch", "listen"]
    duration: Number | None = None
    "Seconds."


class _WithQuantities(_WithProducts):
    quantities: Quantities | None = None
    "One positive number for all products, or one for each product; 1 when absent."

    @model_validator(mode="after")
    def _as_many_quantities_as_products(self) -> Self:
        if isinstance(self.quantities, list) and len(self.quantities) != len(self.product_ids or ()):
            raise error_from_text("The attribute should have as many items as 'product_ids'.", "quantities")
        return self


class CartAddition(_WithQuantities):
    """Products put into the cart."""

    type: Literal["add_to_cart"]


class Checkout(_WithQuantities):
    """Products bought."""

    type: Literal["checkout"]
    revenue: Number | None = None


class Rating(_WithProducts):
    """Products judged on a scale of 0 to 5."""

    type: Literal["rate"]
    rating: Annotated[Number, Field(ge=0, le=5)] | None = None


class CustomAction(_WithProducts):
    """An action that the caller defines."""

    type: Literal["custom"]
    custom_action_name: ShortText
    "Your name of the action; goals of experiments can count one alone."


class Search(Shared):
    """A search."""

    type: Literal["search"]
    search: SearchTerms | None = None


class Feedback(Shared):
    """Feedback on an answer."""

    type: Literal["feedback"]
    question_id: Annotated[str, Field(max_length=512)] | None = Field(
        None, description="The answer that is judged; `kiosk report search` counts judgements by question."
    )
    result_type: ShortText | None = Field(
        None, description="What is judged, as `answer`; goals of experiments can count one kind alone."
    )
    value: ShortText | None = Field(
        None,
        description="`helpful`, `not helpful`, or `unselected`, which takes a judgement back; others count as other.",
    )


class HomeVisit(Shared):
    """A visit to the home page."""

    type: Literal["home_page_view"]
    duration: Number | None = None


class CategoryVisit(Shared):
    """A visit to a category page."""

    type: Literal["category_page_view"]
    category: Texts | None = None
    "Path, broad to narrow; goals of experiments can count one category alone."
    duration: Number | None = None


Interaction: TypeAlias = Annotated[
    ProductAction
    | ProductVisit
    | CartAddition
    | Checkout
    | Rating
    | CustomAction
    | Search
    | Feedback
    | HomeVisit
    | CategoryVisit,
    Field(discriminator="type"),
]

INTERACTION_MODELS: Final = (
    ProductAction,
    ProductVisit,
    CartAddition,
    Checkout,
    Rating,
    CustomAction,
    Search,
    Feedback,
    HomeVisit,
    CategoryVisit,
    Context,
    Campaign,
    Page,
    SearchTerms,
)
"Everything an interaction may consist of."

INTERACTION_TYPES: Final = words_from_text(
    "product_detail_page_view search add_to_cart remove_from_cart checkout refund subscribe unsubscribe "
    "add_to_collection remove_from_collection read watch listen like dislike share rate bookmark "
    "complete feedback impression viewable_impression click submit home_page_view category_page_view "
    "promo_page_view product_image_view custom"
)
"The 29 types that the REST interface defines."


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """One interaction of a user, as the recommender reads it."""

    type: str
    product_ids: tuple[str, ...]
    at_ms: int
    value: float = 0.0
    "Duration in seconds, rating, or 0; the meaning depends on `type`."

    def pack(self) -> bytes:
        """Return the packed form for a recent list."""
        # formatting copies the bytes into a block of their size; the writer's block has 1 kB
        return b"%b" % orjson.dumps((self.type, self.product_ids, self.at_ms, self.value))

    @classmethod
    def unpack(cls, packed: bytes) -> RecentEvent:
        """Return the event of a packed form."""
        # a newer release may add values at the end
        kind, product_ids, at_ms, value = orjson.loads(packed)[:4]
        return cls(kind, tuple(product_ids), at_ms, value)
