"""Define experiments (variants, users, times) and the exposures of users to variants.

    draft ──▶ scheduled ──▶ active ──▶ completed ──▶ archived
      │           │           ▲  │                      ▲
      │           └─▶ draft   │  └── pause: scheduled    │
      └───────────────────────┴──────── archived ────────┘

An administrator sets the status. Whether an experiment runs follows from the status and the clock, so no
process must act when it begins or ends.

An exposure is the fact that a user met a variant of an experiment:

    packed      variant id, at, mark, through, device, person; between them the unit separator
    person      the first reader id somebody was known as here: whoever else they turn out to be carries it on, so
                one person counts once, independent of the number of ids

Source: the form is ours; the store's scripts read the first and the last part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from cluster.ids import DEFAULT_ENGINE
from cluster.records.field_types.units import Moment, Share

Method = Literal["split", "interleave", "question"]
Status = Literal["Draft", "Scheduled", "Active", "Completed", "Archived"]

STEPS: Final[dict[Status, frozenset[Status]]] = {
    "Draft": frozenset({"Scheduled", "Active", "Archived"}),
    "Scheduled": frozenset({"Draft", "Active", "Archived"}),
    "Active": frozenset({"Scheduled", "Completed"}),
    "Completed": frozenset({"Archived"}),
    "Archived": frozenset(),
}
"Which status may follow which."

LATENCY_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
"Upper bounds of the classes in which the latency of treated requests is counted."

WHOLE_LAYER: Final = (0.0, 1.0)

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
_SLUG = r"^[a-z0-9][a-z0-9_-]{0,62}$"

CONVERSION: Final = "conversion"
"Name of the goal that `Experiment.goal` describes: the share of the users with an interaction of its types."
LISTS: Final = "lists"
"Denominator of a ratio: the lists of products that were served to the user."
_FIELD: Final = (
    r"^(custom_action_name|result_type|value|category|search\.keywords|search\.filters\.[A-Za-z0-9_]{1,64}"
    r"|context(\.[A-Za-z0-9_]{1,64}){1,3})$"
)
_VALUE = r"^(|count|revenue|quantities|duration|rating|custom_context\.[A-Za-z0-9_]{1,64})$"


class ExperimentGoal(BaseModel):
    """A figure of each user that an experiment compares."""

    model_config = _STRICT

    name: str = Field(pattern=_SLUG)
    types: tuple[str, ...] = Field(min_length=1, max_length=50)
    "Types of interactions that it counts or sums."
    value: str = Field(default="", pattern=_VALUE)
    """Empty: whether the user has such an interaction. `count`: how many. Else the sum of a field of the interactions,
    as `revenue`, `duration` in seconds, or `custom_context.margin` of their context."""
    per: tuple[str, ...] = Field(default=(), max_length=50)
    "Makes it a ratio: divided by the interactions of these types, or by `lists`."
    where: Annotated[
        dict[Annotated[str, Field(pattern=_FIELD)], Annotated[str, Field(min_length=1, max_length=500)]],
        Field(max_length=5),
    ] = Field(default_factory=dict)
    """Field -> text that it must have, as `custom_action_name` or `context.campaign.source`. Interactions of `types`
    with another value do not count; one equal item of a list is enough."""
    cap: float | None = Field(default=None, gt=0)
    "Larger sums of a user count as this: a few extreme users widen every interval."
    better: Literal["more", "less"] = "more"

    @model_validator(mode="after")
    def _is_one_figure(self) -> ExperimentGoal:
        if self.name == CONVERSION:
            raise ValueError(
                "'conversion' is the name of the goal that `goal` describes; choose another name"
            )
        if self.per and not self.value:
            raise ValueError(
                "a ratio needs a value: count, revenue, quantities, duration, rating, custom_context.NAME"
            )
        if LISTS in self.per and len(self.per) > 1:
            raise ValueError("per is `lists`, or types of interactions")
        return self


GOALS: Final = (
    ExperimentGoal(name="revenue", types=("checkout",), value="revenue"),
    ExperimentGoal(name="order-value", types=("checkout",), value="revenue", per=("checkout",)),
    ExperimentGoal(name="orders", types=("checkout",), value="count"),
    ExperimentGoal(name="quantities", types=("checkout",), value="quantities"),
    ExperimentGoal(
        name="clicks-per-list", types=("click", "product_detail_page_view"), value="count", per=(LISTS,)
    ),
    ExperimentGoal(name="reading-time", types=("read",), value="duration"),
)
"Goals that a draft may name instead of describing them."
_BY_NAME: Final = {goal.name: goal for goal in GOALS}

GUARDRAILS: Final[dict[str, float]] = {"latency": 50.0, "errors": 0.005, "empty": 0.01}
"Guardrail -> default tolerance: milliseconds of the mean latency, share of failed requests, share of empty answers."


def _describe_goals(given: Any) -> Any:
    if not isinstance(given, list | tuple):
        return given
    return [_BY_NAME.get(goal, goal) if isinstance(goal, str) else goal for goal in given]


def _add_tolerances(given: Any) -> Any:
    """Return guardrails with tolerances from a list of names; other goals get 0."""
    if not isinstance(given, list | tuple):
        return given
    return {name: GUARDRAILS.get(name, 0.0) if isinstance(name, str) else 0.0 for name in given}


Goals = Annotated[tuple[ExperimentGoal, ...], BeforeValidator(_describe_goals), Field(max_length=20)]
Guardrails = Annotated[
    dict[str, Annotated[float, Field(ge=0)]], BeforeValidator(_add_tolerances), Field(max_length=20)
]
Segments = Annotated[
    tuple[Annotated[str, Field(pattern=r"^(history|device|through|user\.[A-Za-z0-9_]{1,64})$")], ...],
    Field(max_length=10),
]


class Variant(BaseModel):
    """One of the compared alternatives; the first one is the control."""

    model_config = _STRICT

    variant_id: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    name: str = Field(min_length=1, max_length=200)
    slug: str = Field(pattern=_SLUG)
    weight: float = Field(default=1.0, ge=0)
    "Share of the users, relative to the weights of the other variants."
    status: Literal["Active", "Paused"] = "Active"
    "A paused variant gets no new users."
    configuration: dict[str, Any] | list[Any] | str = Field(default_factory=dict)
    "Any values that the shop's code needs."
    engine_id: str = ""
    "Users with this variant get recommendations and search results from this engine."
    snapshot: str = ""
    "... or from this version of the requested engine."
    boost_rule: str = ""
    "... with this stored boost rule."


class QuestionVariant(BaseModel):
    """What a variant of the method `question` changes: its `configuration`."""

    model_config = _STRICT

    snippet_words: int = Field(default=0, ge=0, le=1_000)
    "Length of snippets in words; 0: a passage."
    citation: str | None = Field(default=None, max_length=500)
    "The publisher's sentence in instructions to cite; None: that of the archive."

    def with_configuration(self, configuration: Any) -> QuestionVariant:
        """Return the variant with the values of one more configuration."""
        return self.model_copy(update=configuration) if isinstance(configuration, dict) else self


class Experiment(BaseModel):
    """One experiment of an app."""

    model_config = _STRICT

    app_id: str
    experiment_id: str = Field(min_length=1, max_length=64)
    slug: str = Field(pattern=_SLUG)
    name: str = Field(min_length=1, max_length=200)
    status: Status = "Draft"
    variants: tuple[Variant, ...] = Field(min_length=1, max_length=50)
    traffic: float = Field(default=1.0, ge=0, le=1)
    "Share of the users in its slice of the layer that take part."
    layer: str = Field(default="", max_length=63)
    "Experiments of one layer share no user as long as their slices do not overlap; none: a separate layer."
    slice: tuple[float, float] = WHOLE_LAYER
    "From and to, 0 to 1, in the layer."
    starts_at: int = 0
    "Milliseconds since 1970; a scheduled experiment runs from then on."
    ends_at: int | None = None
    entry_salt: str = Field(min_length=8, max_length=64)
    variant_salt: str = Field(min_length=8, max_length=64)
    engines: tuple[str, ...] = (DEFAULT_ENGINE,)
    "The variant's engine, snapshot or boost rule applies to requests for these engines."
    reports_exposure: bool = False
    "The shop's own code reports who met a variant, so variants may be the same for Kiosk."
    method: Method = "split"
    """`split` gives each user one variant; `interleave` drafts each list from the products of both variants; `question`
    gives each question of an agent of the archive one, which changes snippets or citations (`QuestionVariant`)."""
    promote_when_better: bool = False
    "Whether an interleaving of two snapshots promotes the second one once people certainly prefer it."
    goal: tuple[str, ...] = ("checkout",)
    "Types of interactions that count as a conversion."
    goals: Goals = ()
    "Further figures: values and ratios."
    primary: str = CONVERSION
    "The goal that decides; the others are shown with a correction for their number."
    segments: Segments = ()
    "Parts of the users for which the report repeats the primary goal."
    guardrails: Guardrails = Field(default_factory=dict)
    """What pauses the experiment by itself -> tolerance: `latency` (ms), `errors` and `empty` (shares), or a goal
    (share of the control's mean)."""
    paused_by: str = ""
    "Guardrail that paused it; empty again after the next start."
    created_at: int = 0
    weights_at: int = 0
    "When the weights last changed while it ran; reports count the exposures since then."
    revision: int = 0
    "Grows with every change."

    @model_validator(mode="after")
    def _makes_sense(self) -> Experiment:
        slugs = [variant.slug for variant in self.variants]
        names = [variant.name for variant in self.variants]
        ids = [variant.variant_id for variant in self.variants]
        if len(set(slugs)) < len(slugs) or len(set(names)) < len(names) or len(set(ids)) < len(ids):
            raise ValueError("variants need ids, names and slugs of their own")
        if not any(variant.weight > 0 for variant in self.variants):
            raise ValueError("at least one variant needs a weight above 0")
        if not 0 <= self.slice[0] < self.slice[1] <= 1:
            raise ValueError("slice goes from a smaller to a larger number between 0 and 1")
        if not self.layer and self.slice != WHOLE_LAYER:
            raise ValueError("a slice is a part of a layer; name the layer")
        if self.ends_at is not None and self.ends_at <= self.starts_at:
            raise ValueError("ends_at has to be after starts_at")
        goals = [CONVERSION, *(goal.name for goal in self.goals)]
        if len(set(goals)) < len(goals):
            raise ValueError("goals need names of their own")
        if self.primary not in goals:
            raise ValueError(f"primary is not among the goals: {', '.join(goals)}")
        for name in self.guardrails:
            if name not in GUARDRAILS and name not in goals:
                raise ValueError(
                    f"there is no guardrail {name!r}; choose of {', '.join([*GUARDRAILS, *goals])}"
                )
        if self.method == "interleave" and (len(self.variants) != 2 or self.reports_exposure):
            raise ValueError("an interleaving has two variants, and Kiosk itself serves them")
        if self.promote_when_better and not self._compares_snapshots:
            raise ValueError("only an interleaving of two snapshots of one engine can promote")
        if self.method == "question":
            for variant in self.variants:
                if variant.engine_id or variant.snapshot or variant.boost_rule:
                    raise ValueError("a variant of questions changes snippet_words and citation alone")
                try:
                    QuestionVariant.model_validate(variant.configuration)
                except ValidationError:
                    raise ValueError(
                        f"the configuration of {variant.slug} has snippet_words (0 to 1000) and citation "
                        "(at most 500 characters) alone"
                    ) from None
        return self

    @property
    def _compares_snapshots(self) -> bool:
        """Return whether it interleaves two snapshots of one engine, and nothing else."""
        is_other = any(variant.engine_id or variant.boost_rule for variant in self.variants)
        versions = [variant.snapshot for variant in self.variants]
        is_single = self.method == "interleave" and len(self.engines) == 1
        return is_single and not is_other and bool(versions[-1]) and versions[0] != versions[-1]

    def admits(self, position: float) -> bool:
        """Return whether the user at a position from 0 to 1 is in the share of users that take part."""
        return position < self.traffic

    @property
    def percent_of_users(self) -> str:
        """The share of the users that take part, as text: `50%`."""
        return f"{self.traffic:.0%}"

    def find_exclusion(self, changes: Mapping[str, Any]) -> str:
        """Return why changes would exclude users who have met the experiment; an empty text if they exclude none."""
        if changes.get("traffic", self.traffic) >= self.traffic:
            return ""
        return f"traffic can only go up from {self.traffic:g}, or users who met it would lose it"

    def is_running_at(self, now_ms: int) -> bool:
        """Return whether it runs at a time."""
        if self.ends_at is not None and now_ms >= self.ends_at:
            return False
        return self.status == "Active" or (
            self.status == "Scheduled" and bool(self.starts_at) and now_ms >= self.starts_at
        )

    def status_at(self, now_ms: int) -> Status:
        """Return its status at a time, from the stored status and the clock."""
        if self.is_running_at(now_ms):
            return "Active"
        begun = self.status == "Active" or (self.status == "Scheduled" and bool(self.starts_at))
        if begun and self.ends_at is not None and now_ms >= self.ends_at:
            return "Completed"
        return self.status

    @property
    def serves(self) -> bool:
        """Return whether any variant changes what Kiosk serves."""
        return any(variant.engine_id or variant.snapshot or variant.boost_rule for variant in self.variants)

    @property
    def can_be_measured(self) -> bool:
        """Return whether anybody can meet a difference: Kiosk serves one, the shop reads one, or reports it itself."""
        # A configuration may be a dictionary, which no set takes, so its `repr` is compared.
        served = {
            (variant.engine_id, variant.snapshot, variant.boost_rule, repr(variant.configuration))
            for variant in self.variants
        }
        is_single = len(self.variants) == 1 and self.serves
        return self.reports_exposure or len(served) > 1 or is_single

    def variant(self, name: str) -> Variant | None:
        """Return a variant by name, slug or id; None when absent."""
        for variant in self.variants:
            if name in (variant.name, variant.slug, variant.variant_id):
                return variant
        return None


class ExperimentUpdate(BaseModel):
    """Changes of an experiment; what is absent stays as it is. The experiment itself checks the values."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str | None = Field(None, title="Name", description="Another name.")
    traffic: Share | None = Field(
        None, title="Share of the users", description="Share of the users who take part, 0 to 1."
    )
    weights: Annotated[dict[str, float], Field(max_length=50)] = Field(
        default_factory=dict,
        title="Weight",
        description="Variant (id, slug or name) -> its weight; a variant with weight 0 gets no new users.",
    )
    ends_at: Moment | None = Field(None, title="Ends at (UTC)", description="Moment at which it ends.")
    goal: Annotated[tuple[str, ...], Field(max_length=50)] | None = Field(
        None, title="Goal", description="Types of interactions that count as a conversion."
    )
    segments: Annotated[tuple[str, ...], Field(max_length=10)] | None = Field(
        None,
        title="Segments",
        description="Parts of the users that the report compares: history, device, through, user.FIELD.",
    )
    guardrails: Annotated[dict[str, float], Field(max_length=20)] = Field(
        default_factory=dict,
        title="Guardrail",
        description=(
            "What pauses the experiment by itself -> tolerance: latency (ms), errors, empty (shares), or a goal "
            "(share of the control's mean). Others stay as they are."
        ),
    )
    layer: str | None = Field(
        None,
        title="Layer",
        description="Experiments of one layer share no users while their slices do not overlap.",
    )
    slice: tuple[float, float] | None = Field(
        None, title="Part of the layer", description="From and to, 0 to 1, in the layer."
    )
    reports_exposure: bool | None = Field(
        None,
        title="Our shop reports exposure itself",
        description="Whether your own code reports who met a variant, so variants may serve the same.",
    )

    def list_changes(self) -> dict[str, Any]:
        """Return the fields that are to change."""
        fields = {name: getattr(self, name) for name in ExperimentUpdate.model_fields}
        return {name: value for name, value in fields.items() if value is not None and value != {}}


def can_overlap(experiment: Experiment, other: Experiment) -> bool:
    """Return whether two experiments of one layer could take the same user."""
    if (
        not experiment.layer
        or experiment.layer != other.layer
        or experiment.experiment_id == other.experiment_id
    ):
        return False
    return experiment.slice[0] < other.slice[1] and other.slice[0] < experiment.slice[1]


_BETWEEN = "\x1f"
_MARKS = {"": "", "f": "forced"}


@dataclass(frozen=True, slots=True)
class Exposure:
    """The first exposure of a person to a variant."""

    variant_id: str
    at_ms: int
    forced: bool = False
    "A request forced this variant by name, so the exposure is no evidence."
    through: str = "event"
    "Source of the exposure: `event`, or the kind of a recommendation."
    device: str = ""
    person: str = ""

    def pack(self) -> str:
        """Return the packed form.

        Cost:
            0.5 us
        """
        mark = "f" if self.forced else ""
        parts = (self.variant_id, str(self.at_ms), mark, self.through, self.device, self.person)
        return _BETWEEN.join(parts)

    @classmethod
    def unpack(cls, packed: str) -> Exposure | None:
        """Return the exposure of a packed text; None for other texts."""
        parts = packed.split(_BETWEEN, 5)
        if len(parts) < 6 or not parts[0] or parts[2] not in _MARKS or not parts[1].isdecimal():
            return None
        variant_id, at, mark, through, device, person = parts
        return cls(variant_id, int(at), bool(mark), through, device, person)
