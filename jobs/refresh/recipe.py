"""Recipes: files that list the learners, their parameters and the validation of a training.

    name = "shop"
    [parts.rules]                    one component of the blend: name, learner, parameters
    learner = "rules"
    half_life_days = 14
    tune = { window = [10, 30] }     values that the tuning compares on validation
    [blend]
    weights = "auto"                 or { rules = 1.0, trend = 0.3 }

`load_recipe_file("shop")` reads a preset; `load_recipe_file("./mine.toml")` reads a file (`.toml` or `.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from typing_extensions import Self

from actors.language.language_data import parse_toml
from cluster.errors import Invalid, NotFound
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.cohorts import CohortRecipe
from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.learners.neighbours.baskets import BasketsRecipe
from jobs.refresh.learners.neighbours.content_knn import ContentKnnRecipe
from jobs.refresh.learners.neighbours.ease import EaseRecipe
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe
from jobs.refresh.learners.popularity import PopularityRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe, PartRecipe, RecipeModel, expand_value
from jobs.refresh.learners.repeat import RepeatsRecipe
from jobs.refresh.learners.reranker import RerankerRecipe
from jobs.refresh.learners.session_knn import SessionKnnRecipe
from jobs.refresh.learners.transformer import TransformerRecipe

PRESETS = ("default", "fast", "deep", "sequence", "shop", "session")

Weights = Literal["auto"] | dict[str, Annotated[float, Field(ge=0, le=100)]]


def _is_none(value: object) -> bool:
    return value is None


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
_Transformer = Annotated[TransformerRecipe, Tag("transformer")]
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
    | _Transformer
    | _Custom,
    Discriminator(_part_tag),
]


class CompletionsRecipe(RecipeModel):
    """Parameters of the autocomplete index."""

    fields: tuple[str, ...] = Field(default=("title",), min_length=1, max_length=16)
    "Fields that the training indexes; a recommender indexes any other field when a request first names it."
    half_life_days: float = Field(default=30.0, gt=0)
    "Half-life in days of an event's contribution to the popularity of a title."


class SearchRecipe(RecipeModel):
    """Parameters of the search index."""

    learn_from: int = Field(default=5_000, ge=0, le=50_000)
    "Number of products for the training of text vectors; with 0, the search uses the recommendation vectors."


class EventsRecipe(RecipeModel):
    """Selection and weights of the training events."""

    weights: dict[str, Annotated[float, Field(ge=-1, le=1)]] = Field(default_factory=dict)
    "Type of event -> weight, -1 to 1; overrides the default weight."
    newest: int | None = Field(default=None, ge=1)
    "Maximum number of training events; the newest are kept."


class BlendRecipe(RecipeModel):
    """Weights with which the component scores are summed."""

    weights: Weights = "auto"
    "Component -> weight for users with a history; `auto` chooses the weights on validation."
    # Left out if none, so that a snapshot has the version that earlier releases gave it; likewise below.
    weights_unseen: dict[str, Annotated[float, Field(ge=0, le=100)]] | None = Field(
        default=None, exclude_if=_is_none
    )
    """Component -> weight for lists without products of the user's history; none: as `weights`. The training sets it
    if users repeat products and `weights` is `auto`."""
    start: dict[str, float] = Field(default_factory=dict)
    "Initial weights for `auto`; with little validation data the result stays near them."
    weights_new: Weights = "auto"
    "Component -> weight for users without a history; only popularity components can score for them."
    most_parts: int = Field(default=8, ge=1)
    "Maximum number of components with a weight that `auto` chooses."
    k: int = Field(default=10, ge=1)
    "Length of the lists whose NDCG decides the choice."


class ValidationRecipe(RecipeModel):
    """Validation of weights and parameters on the newest events; the final model is trained on all events."""

    protocol: Literal["auto", "by_time", "leave_last_out", "next_in_session"] = "auto"
    """`auto`: by time if the split has enough users with targets and does not cut their only session; otherwise
    leave last out."""
    share: float = Field(default=0.1, gt=0, lt=0.5)
    "Share of the events that the split by time holds out."
    seen: Literal["auto", "out", "other_kinds", "allowed", "paused"] = "auto"
    """Which items of the history may be recommended. `auto`: all, in sessions or if a fifth of the interactions repeat.
    `other_kinds`: only items without an event of `kinds`, for example an item in the cart that was not bought.
    `paused`: only items whose pause has ended; a training sets it where it would set `out` and there are pauses."""
    repeat_after_days: dict[str, Annotated[float, Field(ge=0, le=36_500)]] = Field(
        default_factory=dict, max_length=32, exclude_if=lambda days: not days
    )
    """Days by type of interaction after which an item of the history counts as recommendable; `*` is any other type. A
    training takes those of its engine unless the recipe names some. Data without times ignores them."""
    kinds: tuple[str, ...] = ()
    """Event types of the targets. When empty: all types with a positive weight. With leave last out: purchases, if
    enough users buy after other events."""
    readers: int = Field(default=4_000, ge=10)
    "Maximum number of users on which weights are chosen."
    folds: int = Field(default=2, ge=1, le=5)
    "Maximum number of consecutive splits; older ones are added while a split has too few users."
    tune_readers: int = Field(default=1_000, ge=10)
    "Maximum number of users on which parameters are tuned."
    tune_events: int = Field(default=300_000, ge=100)
    "Maximum number of events for tuning; users are sampled with all their events."
    tune_items: int = Field(default=5_000, ge=10)
    "Largest catalog in which EASE is tuned; in a larger one, the first value of each parameter is used."


class LimitsRecipe(RecipeModel):
    """Resource limits of a training."""

    memory_mb: int = Field(default=4_096, ge=64, le=1 << 20)
    "A training with a larger memory estimate is refused before it starts."


class Recipe(RecipeModel):
    """Complete configuration of a training; with the data and the seed it determines the snapshot."""

    name: str = Field(default="own", pattern=r"^[\w.-]{1,64}$")
    "Name in displays and reports."
    seed: int = Field(default=1, ge=0)
    "Equal recipe, data and seed give a byte-equal snapshot."
    events: EventsRecipe = EventsRecipe()
    parts: dict[str, AnyPart]
    "Name -> component of the blend."
    blend: BlendRecipe = BlendRecipe()
    validation: ValidationRecipe = ValidationRecipe()
    limits: LimitsRecipe = LimitsRecipe()
    baskets: BasketsRecipe | None = None
    "Learner for `buy_together`; without it, the engine uses its live co-occurrence counts."
    cohorts: CohortRecipe | None = None
    "Learner of popularity by cohort, for users without a history."
    content: ContentRecipe | None = None
    "Learner of content weights, for items without events."
    reranker: RerankerRecipe | None = Field(default=None, exclude_if=_is_none)
    "Learner of the re-ranker, from the log of answers; without it, or without a certain gain, the blend alone ranks."
    search_reranker: RerankerRecipe | None = Field(default=None, exclude_if=_is_none)
    "Learner of the re-ranker of searches, likewise; without it, words and the blend alone rank."
    completions: CompletionsRecipe | None = CompletionsRecipe()
    "Autocomplete index of the titles; without it, each recommender builds the index."
    search: SearchRecipe | None = SearchRecipe()
    "Search index of the product texts; without it, each recommender builds the index."

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if not self.parts:
            raise ValueError("parts: there must be at least one")
        for field, weights in (
            ("weights", self.blend.weights),
            ("start", self.blend.start),
            ("weights_new", self.blend.weights_new),
            ("weights_unseen", self.blend.weights_unseen or {}),
        ):
            unknown = [] if weights == "auto" else sorted(set(weights) - set(self.parts))
            if unknown:
                raise ValueError(
                    f"blend.{field}: there is no part {', '.join(unknown)}; parts are {', '.join(self.parts)}"
                )
        for name, part in self.parts.items():
            _check_tuning(name, part)
        return self

    def list_rerankers(self) -> list[tuple[str, RerankerRecipe]]:
        """Return the re-rankers with the names of their sections."""
        sections = (("reranker", self.reranker), ("search_reranker", self.search_reranker))
        return [(name, part) for name, part in sections if part is not None]

    def with_changes(self, changes: Mapping[str, Any]) -> Recipe:
        """Return this recipe with changed fields, named by dotted paths such as `parts.rules.window`.

        Errors:
            Invalid: a field does not exist or a value is not allowed; the message names the field
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
    """Validate fields and return the recipe.

    Errors:
        Invalid: fields are not allowed; the message names each one by its path
    """
    try:
        return Recipe.model_validate(fields)
    except ValidationError as error:
        raise Invalid("recipe can't be used: " + "; ".join(_validation_messages(error, fields))) from None


def load_recipe_file(name: str | Path) -> Recipe:
    """Read and validate a recipe: a preset by its name, or a file.

    Errors:
        NotFound: the name is neither a preset nor a file
        Invalid: the file is not TOML or JSON, or a field is not allowed
    """
    if str(name) in PRESETS:
        text = (resources.files("jobs.refresh") / "recipes" / f"{name}.toml").read_text("utf-8")
        return _parse_toml_recipe(text, str(name))
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
    return _parse_toml_recipe(text, path.name)


def _parse_toml_recipe(text: str, name: str) -> Recipe:
    try:
        fields = parse_toml(text)
    except ValueError as error:  # the error of both parsers of TOML is a ValueError
        raise Invalid(f"{name} is not TOML: {error}") from None
    return parse_recipe(fields)


def _check_tuning(name: str, part: PartRecipe) -> None:
    """Check that each value of `tune` is valid for the component."""
    for field, values in part.tune.items():
        if not values:
            raise ValueError(f"parts.{name}.tune.{field}: there must be at least one value")
        for value in values:
            changes = expand_value(field, value)
            for parameter in changes:
                if parameter not in type(part).model_fields or parameter in ("learner", "tune"):
                    raise ValueError(f"parts.{name}.tune: {part!r:.20} has no parameter {parameter!r}")
            # Validated here, or a wrong value would fail after hours of tuning.
            type(part).model_validate({**part.model_dump(), **changes, "tune": {}})


def _validation_messages(error: ValidationError, fields: Mapping[str, Any]) -> list[str]:
    """Return one message for each invalid field, without the discriminator tags in its path."""
    messages = []
    for fault in error.errors():
        place = [str(step) for step in fault["loc"]]
        if len(place) > 2 and place[0] == "parts":
            # The tag of the learner, which pydantic puts into the path.
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
    """Return the names of the allowed fields next to an unknown one."""
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
    name: model
    for name, field in Recipe.model_fields.items()
    for model in (field.annotation, *get_args(field.annotation))
    if isinstance(model, type) and issubclass(model, BaseModel)
}
_LEARNERS: Mapping[str, type[PartRecipe]] = {
    tag.tag: model for model, tag in map(get_args, get_args(get_args(AnyPart)[0])) if tag.tag != "own"
}
