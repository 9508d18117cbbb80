"""Define stored boost rules: which products an administrator boosts, buries or excludes, and for which
queries.

A rule applies if all its given conditions hold: `api_names`, `anchor_products`, `module_names`, `context`,
`filter_query` and (in searches) `query`/`queries`. It always applies to a request that names one of its
`boosting_tags`. `boost` and `boost_fq` select the products; `position` and `pin_position` set their places.

`name`, `engine_id`, `enabled`, `priority`, `boost_fq`, `context`, `starts_at` and `ends_at` extend the format of the
public SDKs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cluster.ids import DEFAULT_ENGINE
from cluster.records.field_types.fields import NAMED_ID, NOT_A_TIME, STRICT, error_from_text
from cluster.records.field_types.times import LATEST_MS, moment_ms

Option = Literal["contains", "not_contain", "is", "is_not", "regex", "ends_with", "starts_with"]
Action = Literal["pin", "bury", "remove"]
ApiName = Literal[
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
    "search",
    "autocomplete",
    "question_answering",
]

_Text = Annotated[str, Field(min_length=1, max_length=4096)]
_Name = Annotated[str, Field(min_length=1, max_length=512, pattern=NAMED_ID)]
_Names = Annotated[list[_Name], Field(max_length=1000, fail_fast=True)]
_Position = Annotated[int, Field(ge=1, le=1_000_000)]
_Value = str | bool | int | float


def _moment_from(value: Any) -> Any:
    """Read a moment in text; numbers are milliseconds already."""
    if not isinstance(value, str):
        return value
    try:
        return moment_ms(value)
    except ValueError:
        raise error_from_text(NOT_A_TIME) from None


_Time = Annotated[int, BeforeValidator(_moment_from), Field(ge=0, le=LATEST_MS)]

MOST_RULES = 500
"Stored rules of one engine: each of them is looked at by every request."


class Overlap(BaseModel):
    """A condition: the request's own filter shares a clause with this one."""

    model_config = STRICT

    option: Literal["overlap_with"] = "overlap_with"
    query: _Text


class ProductBoost(BaseModel):
    """Products selected by one field, and the effect on them."""

    model_config = STRICT

    field: _Name
    option: Option = "is"
    query: _Text
    action: Action = "pin"
    pin_position: _Position | None = None
    "1-based place in the whole list."

    @model_validator(mode="after")
    def _only_pins_have_a_place(self) -> ProductBoost:
        if self.pin_position is not None and self.action != "pin":
            raise error_from_text(
                f"A pin_position goes with action 'pin', not with '{self.action}'.", "pin_position"
            )
        return self


class BoostRule(BaseModel):
    """One stored rule of one engine. Names are unique in an engine."""

    model_config = STRICT

    name: _Name
    engine_id: Annotated[str, Field(min_length=1, max_length=512, pattern=NAMED_ID)] = DEFAULT_ENGINE
    enabled: bool = True
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    "If two rules compete for a place, the rule with the higher priority gets it."
    query: _Text | None = None
    queries: Annotated[list[_Text], Field(max_length=1000, fail_fast=True)] = Field(default_factory=list)
    query_option: Option = "contains"
    filter_query: Annotated[list[Overlap], Field(max_length=20)] = Field(default_factory=list)
    api_names: Annotated[list[ApiName], Field(max_length=20)] = Field(default_factory=list)
    anchor_products: _Names = Field(default_factory=list)
    module_names: _Names = Field(default_factory=list)
    "Values of the session variable `module_name`."
    context: Annotated[dict[str, list[_Value]], Field(max_length=50)] = Field(default_factory=dict)
    "Session variable -> values; the request must send one of them in `custom_context`."
    boosting_tags: _Names = Field(default_factory=list)
    boost_match_type: Literal["any", "all"] = "any"
    boost: Annotated[list[ProductBoost], Field(max_length=100)] = Field(default_factory=list)
    boost_fq: _Text | None = None
    position: Annotated[list[_Position], Field(max_length=1000)] = Field(default_factory=list)
    "1-based places for pinned products without a specific place; none: before the rest."
    json_asset: Any = None
    "Handed to search pages as it is."
    starts_at: _Time | None = None
    "The rule applies from then on, milliseconds since 1970; uploads may name a date and time instead."
    ends_at: _Time | None = None
    "The rule applies until then."

    @model_validator(mode="after")
    def _does_something(self) -> BoostRule:
        if not self.boost and self.boost_fq is None and self.json_asset is None:
            raise error_from_text("The rule does nothing: give it boost, boost_fq or json_asset.")
        if self.boost and self.boost_fq is not None:
            raise error_from_text("The rule has boost and boost_fq: keep one of them.", "boost_fq")
        if (
            self.boost_match_type == "all"
            and len({(entry.action, entry.pin_position) for entry in self.boost}) > 1
        ):
            raise error_from_text(
                "With boost_match_type 'all' every entry needs the same action and pin_position.", "boost"
            )
        if self.position and not self.boost_fq and not any(entry.action == "pin" for entry in self.boost):
            raise error_from_text(
                "There are positions but nothing is pinned: add a pin or take them out.", "position"
            )
        if self.starts_at is not None and self.ends_at is not None and self.ends_at <= self.starts_at:
            raise error_from_text("The rule ends before it starts.", "ends_at")
        return self

    @property
    def has_window(self) -> bool:
        """Return whether the rule starts or ends by itself."""
        return self.starts_at is not None or self.ends_at is not None

    def is_in_force(self, now_ms: int) -> bool:
        """Return whether the rule is enabled and a time lies in its window."""
        begun = self.starts_at is None or now_ms >= self.starts_at
        return self.enabled and begun and (self.ends_at is None or now_ms < self.ends_at)

    @property
    def search_texts(self) -> tuple[str, ...]:
        """Return the search texts to which the rule applies."""
        return (*([self.query] if self.query else ()), *self.queries)


RuleChange = Literal["put", "delete", "order", "undo", "restore"]


class RuleVersion(BaseModel):
    """One change of one rule."""

    model_config = ConfigDict(frozen=True)

    version_id: str = ""
    "Set by the store; versions are ordered by it."
    at: int
    "Milliseconds since 1970."
    username: str
    change: RuleChange
    engine_id: str
    name: str
    before: BoostRule | None = None
    "None: the rule is new."
    after: BoostRule | None = None
    "None: the rule was deleted."
