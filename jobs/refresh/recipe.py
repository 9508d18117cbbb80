"""Recipes: what to learn and how, as a file a data scientist can copy and change.

    name = "shop"
    [parts.rules]                    a part of the blend: name, learner, parameters
    learner = "rules"
    half_life_days = 14
    tune = { window = [10, 30] }     tried on validation
    [blend]
    weights = "auto"                 or { rules = 1.0, trend = 0.3 }

`load("shop")` reads one that comes along, `load("./mine.toml")` one of yours (`.toml` or `.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError, model_validator
from typing_extensions import Self

from cluster.errors import Invalid, NotFound
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.baskets import BasketsRecipe
from jobs.refresh.learners.cohorts import CohortRecipe
from jobs.refresh.learners.content_knn import ContentKnnRecipe
from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.learners.ease import EaseRecipe
from jobs.refresh.learners.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.item_knn import ItemKnnRecipe
from jobs.refresh.learners.popularity import PopularityRecipe
from jobs.refresh.learners.protocol import STRICT, CustomLearnerRecipe, PartRecipe
from jobs.refresh.learners.repeat import RepeatsRecipe
from jobs.refresh.learners.sequential_rules import RulesRecipe
from jobs.refresh.learners.session_knn import SessionKnnRecipe

PRESETS = ("default", "fast", "sequence", "shop", "session")

Weights = Literal["auto"] | dict[str, Annotated[float, Field(ge=0, le=100)]]


def _part_tag(part: Any) -> str:
    learner = part.get("learner", "") if isinstance(part, Mapping) else getattr(part, "learner", "")
    return "own" if ":" in str(learner) else str(learner)


_Ease = Annotated[EaseRecipe, Tag("ease")]
_Rules = Annotated[RulesRecipe, Tag("rules")]
_ItemKnn = Annotated[ItemKnnRecipe, Tag("item_knn")]
_GraphFilter = Annotated[GraphFilterRecipe, Tag("graph_filter")]
_ContentKnn = Annotated[ContentKnnRecipe, Tag("content_knn")]
_SessionKnn = Annotated[SessionKnnRecipe, Tag("session_knn")]
_Popularity = Annotated[PopularityRecipe, Tag("popularity")]
_Repeats = Annotated[RepeatsRecipe, Tag("repeats")]
_Baskets = Annotated[BasketsRecipe, Tag("baskets")]
_Als = Annotated[AlsRecipe, Tag("als")]
_Custom = Annotated[CustomLearnerRecipe, Tag("own")]

AnyPart = Annotated[
    _Ease
    | _Rules
    | _ItemKnn
    | _GraphFilter
    | _ContentKnn
    | _SessionKnn
    | _Popularity
    | _Repeats
    | _Baskets
    | _Als
    | _Custom,
    Discriminator(_part_tag),
]


class CompletionsRecipe(BaseModel):
    """Parameters of completions."""

    model_config = STRICT

    fields: tuple[str, ...] = Field(default=("title",), min_length=1, max_length=16)
    "Fields that are indexed; others are indexed by every recommender when they are asked for."
    half_life_days: float = Field(default=30.0, gt=0)
    "Halves what an event counts for the popularity of a title, for every so many days of age."


class SearchRecipe(BaseModel):
    """Parameters of the search index."""

    model_config = STRICT

    learn_from: int = Field(default=5_000, ge=0, le=50_000)
    "Products that meaning is learned from; 0 leaves meaning to the vectors recommendations are made with."


class EventsRecipe(BaseModel):
    """Which events are learned from."""

    model_config = STRICT

    weights: dict[str, Annotated[float, Field(ge=-1, le=1)]] = Field(default_factory=dict)
    "Type of event -> weight, -1 to 1, where it should differ from the platform's own."
    newest: int | None = Field(default=None, ge=1)
    "Learn from so many of the newest events only."


class BlendRecipe(BaseModel):
    """How parts become one score."""

    model_config = STRICT

    weights: Weights = "auto"
    "Part -> weight for users with a history; `auto` chooses on validation."
    start: dict[str, float] = Field(default_factory=dict)
    "Where `auto` starts; a small validation stays near it."
    weights_new: Weights = "auto"
    "Part -> weight for users without a history; only popularity can say something about them."
    most_parts: int = Field(default=8, ge=1)
    "So many parts at most are taken by `auto`."
    k: int = Field(default=10, ge=1)
    "Length of the lists by whose NDCG is chosen."


class ValidationRecipe(BaseModel):
    """What choices are made by. The newest events are held back, then learned from as well."""

    model_config = STRICT

    protocol: Literal["auto", "by_time", "leave_last_out", "next_in_session"] = "auto"
    "`auto`: by time when that asks enough users, and not in the middle of their only sitting; else leave last out."
    share: float = Field(default=0.1, gt=0, lt=0.5)
    "Share of the events that is held back by time."
    seen: Literal["auto", "out", "other_kinds", "allowed"] = "auto"
    """May a user's own items be recommended again? `auto`: when a fifth of what they take is taken again.
    `other_kinds`: only those that no event of `kinds` led to, as what lies in a cart and was not bought."""
    kinds: tuple[str, ...] = ()
    """Types of events that are asked for. When empty: all that speak for an item; where the last one is left out and
    enough users buy after other events, purchases."""
    readers: int = Field(default=4_000, ge=10)
    "Users that weights are chosen by."
    folds: int = Field(default=2, ge=1, le=5)
    "So many trials, one before the other, as long as a single one asks too few users."
    tune_readers: int = Field(default=1_000, ge=10)
    "Users that parameters are tuned by."
    tune_events: int = Field(default=300_000, ge=100)
    "Events that parameters are tuned with: of some users, all of theirs."
    tune_items: int = Field(default=5_000, ge=10)
    "EASE is tuned in catalogs up to so many items; beyond, its first values are taken."


class LimitsRecipe(BaseModel):
    """What a training may use."""

    model_config = STRICT

    memory_mb: int = Field(default=4_096, ge=64)
    "A training that is estimated to need more is refused before it starts."


class Recipe(BaseModel):
    """Everything that decides what is learned, beside the data."""

    model_config = STRICT

    name: str = Field(default="own", pattern=r"^[\w.-]{1,64}$")
    "For people."
    seed: int = Field(default=1, ge=0)
    "Same recipe, data and seed: same bytes."
    events: EventsRecipe = EventsRecipe()
    parts: dict[str, AnyPart]
    "Name -> part of the blend."
    blend: BlendRecipe = BlendRecipe()
    validation: ValidationRecipe = ValidationRecipe()
    limits: LimitsRecipe = LimitsRecipe()
    baskets: BasketsRecipe | None = None
    "What is bought together; none leaves `buy_together` to the live counts."
    cohorts: CohortRecipe | None = None
    "What users of a kind take, for those without a history."
    content: ContentRecipe | None = None
    "What new items are like, for items without events."
    completions: CompletionsRecipe | None = CompletionsRecipe()
    "Titles, indexed for the search bar; none leaves that to every recommender."
    search: SearchRecipe | None = SearchRecipe()
    "All texts of products, indexed for searches; none leaves that to every recommender."

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if not self.parts:
            raise ValueError("parts: there must be at least one")
        for field, weights in (
            ("weights", self.blend.weights),
            ("start", self.blend.start),
            ("weights_new", self.blend.weights_new),
        ):
            unknown = [] if weights == "auto" else sorted(set(weights) - set(self.parts))
            if unknown:
                raise ValueError(
                    f"blend.{field}: there is no part {', '.join(unknown)}; parts are {', '.join(self.parts)}"
                )
        for name, part in self.parts.items():
            _check_tuning(name, part)
        return self

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """Give this recipe with some fields changed, named by dotted path as in `parts.rules.window`.

        Errors:
            Invalid: there is no such field, or the value does not fit; says which
        """
        fields = self.model_dump(mode="json")
        for path, value in changes.items():
            *above, last = path.split(".")
            place: Any = fields
            for step in above:
                place = place.get(step) if isinstance(place, dict) else None
                if place is None:
                    break
            if not isinstance(place, dict):
                raise Invalid(f"recipe has no {path}")
            place[last] = value
        return parse_recipe(fields)


def parse_recipe(fields: Mapping[str, Any]) -> Recipe:
    """Check fields and make a recipe of them.

    Errors:
        Invalid: says every field that does not fit, by its path
    """
    try:
        return Recipe.model_validate(fields)
    except ValidationError as error:
        raise Invalid("recipe can't be used: " + "; ".join(_validation_messages(error, fields))) from None


def load_recipe_file(name: str | Path) -> Recipe:
    """Read a recipe: a preset by its name, or a file.

    Errors:
        NotFound: neither a preset nor a file
        Invalid: not TOML or JSON, or fields that do not fit
    """
    if str(name) in PRESETS:
        text = (resources.files("jobs.refresh") / "recipes" / f"{name}.toml").read_text("utf-8")
        return parse_recipe(_parse_toml(text, str(name)))
    path = Path(name)
    if not path.is_file():
        raise NotFound(f"no recipe {str(name)!r}: neither a file nor one of {', '.join(PRESETS)}")
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path.name} can't be read: {error}") from error
    if path.suffix == ".json":
        try:
            return parse_recipe(json.loads(text))
        except json.JSONDecodeError as error:
            raise Invalid(f"{path.name} is not JSON: {error}") from None
    return parse_recipe(_parse_toml(text, path.name))


def _parse_toml(text: str, name: str) -> dict[str, Any]:
    try:
        import tomllib as toml  # 3.11 and later
    except ModuleNotFoundError:  # pragma: no cover
        import tomli as toml  # type: ignore[import-not-found,no-redef,unused-ignore]
    try:
        return toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise Invalid(f"{name} is not TOML: {error}") from None


def _check_tuning(name: str, part: PartRecipe) -> None:
    """See that every value to try is one the part could have."""
    for field, values in part.tune.items():
        if field not in type(part).model_fields or field in ("learner", "tune"):
            raise ValueError(f"parts.{name}.tune: {part!r:.20} has no parameter {field!r}")
        if not values:
            raise ValueError(f"parts.{name}.tune.{field}: there must be at least one value")
        for value in values:
            type(part).model_validate({**part.model_dump(), field: value, "tune": {}})


def _validation_messages(error: ValidationError, fields: Mapping[str, Any]) -> list[str]:
    """Say what is wrong where, without the tags that tell parts apart."""
    messages = []
    for fault in error.errors():
        place = [str(step) for step in fault["loc"]]
        if len(place) > 2 and place[0] == "parts":
            del place[2]
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            place.append("learner")
            message = f"name one of {', '.join(_LEARNERS)}, or a class of yours as package.module:Class"
        if fault["type"] == "extra_forbidden":
            message = f"there is no such field{_field_suggestion(place, fields)}"
        messages.append(f"{'.'.join(place)}: {message}" if place else message)
    return messages


def _field_suggestion(place: list[str], fields: Mapping[str, Any]) -> str:
    """Say which fields there are where one was not known."""
    model: type[BaseModel] | None = None
    if len(place) == 1:
        model = Recipe
    elif place[0] == "parts" and len(place) == 3:
        part = fields.get("parts", {}).get(place[1], {})
        kind = _part_tag(part)
        model = CustomLearnerRecipe if kind == "own" else _LEARNERS.get(kind)
    elif len(place) == 2:
        model = _SECTIONS.get(place[0])
    return "" if model is None else f"; there are {', '.join(model.model_fields)}"


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "events": EventsRecipe,
    "blend": BlendRecipe,
    "validation": ValidationRecipe,
    "limits": LimitsRecipe,
    "baskets": BasketsRecipe,
    "cohorts": CohortRecipe,
    "content": ContentRecipe,
    "completions": CompletionsRecipe,
    "search": SearchRecipe,
}
_LEARNERS: Mapping[str, type[PartRecipe]] = {
    "ease": EaseRecipe,
    "rules": RulesRecipe,
    "item_knn": ItemKnnRecipe,
    "graph_filter": GraphFilterRecipe,
    "content_knn": ContentKnnRecipe,
    "session_knn": SessionKnnRecipe,
    "popularity": PopularityRecipe,
    "repeats": RepeatsRecipe,
    "baskets": BasketsRecipe,
    "als": AlsRecipe,
}
