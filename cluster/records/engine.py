"""Define engines (named recommenders of an app) with placement, size and growth, and promotions of their
snapshots.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from cluster.ids import DEFAULT_ENGINE

Placement = Literal["door", "own"]
ENGINE_NAME = r"[a-z0-9][a-z0-9-]{0,63}"
MOST_EXPLORED = 0.2
"Largest share of lists with an explored place: users see worse lists for it."
MOST_PAUSES = 32
"Types of interaction of an engine with a pause before their products are recommended again."


class Scaling(BaseModel):
    """How a dedicated engine scales, and the resources of one of its replicas."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replicas_min: int = Field(default=1, ge=1, le=256)
    "Minimum replicas."
    replicas_max: int = Field(default=2, ge=1, le=256)
    "Maximum replicas."
    target_requests: float = Field(default=4.0, gt=0, le=1000)
    "Running requests per replica from which another replica starts."
    memory_budget_mb: int = Field(default=1024, ge=64, le=1 << 24)
    "MiB a replica may hold."
    num_cpus: float = Field(default=0.1, ge=0, le=256)
    "Share of the node's processors that Ray keeps for a replica."
    upscale_delay_s: float = Field(default=5.0, ge=0, le=3600)
    "Load must last that long before a replica is added."
    downscale_delay_s: float = Field(default=120.0, ge=0, le=86400)
    "Rest must last that long before one is taken away."
    look_back_s: float = Field(default=10.0, gt=0, le=600)
    "Load is averaged over this time."

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.replicas_min > self.replicas_max:
            raise ValueError("replicas_min is larger than replicas_max")
        return self


class Exploration(BaseModel):
    """How an engine explores: a share of its lists has a product at one place that is drawn from the next best ones."""

    model_config = ConfigDict(frozen=True)

    share: float = Field(default=0.0, ge=0, le=MOST_EXPLORED)
    "Probability that a list has an explored place; 0: the engine does not explore."
    pool: int = Field(default=100, ge=1, le=1000)
    "Number of the best products outside the list from which the product is drawn."
    secret: str = Field(default="", repr=False)
    "Key of the draws, hexadecimal, so that no client can foresee them. It stays, so that draws can be recomputed."


class SnapshotTrial(BaseModel):
    """A comparison of the serving snapshot with another one, which a random share of people gets instead.

    After a promotion the other one served before, and its share is the holdback. Else it is a candidate.
    """

    model_config = ConfigDict(frozen=True)

    trial_id: str
    "Names the trial, and draws its people."
    version: str
    "The snapshot that the share of people gets."
    is_candidate: bool = False
    "Whether `version` is the newer one of the two: it serves nobody else yet."
    share: float = Field(default=0.05, gt=0, le=0.5)
    started_at: int
    ends_at: int
    "Milliseconds since 1970; a trial without a decision ends then, and changes nothing."
    promote_when_better: bool = False
    roll_back_when_worse: bool = True
    by: str = ""


class Engine(BaseModel):
    """A named recommender and its placement (`docs/decisions/0019-engines-inside-api-replicas.md`)."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    engine_id: str
    placement: Placement = "door"
    """Where API replicas send queries. `door`: the engine is embedded in the API replica. `own`: it has a
    dedicated Serve deployment."""
    moving_to: Placement | None = None
    "Requested placement; the engine operator carries it out and clears this field."
    moved_at: int = 0
    "When `placement` changed last."
    scaling: Scaling = Scaling()
    "Of its dedicated deployment."
    max_replicas_per_node: int = Field(default=0, ge=0, le=256)
    """Of its dedicated deployment; 0: no limit. Not part of `Scaling`, because earlier releases refuse unknown fields
    there."""
    snapshot: str = ""
    "Version in the artifact store that serves; empty before the first training."
    created_at: int = 0
    exploration: Exploration = Exploration()
    repeat_after_days: dict[str, float] = Field(default_factory=dict)
    """Days after an interaction in which lists leave its products out, by type of interaction; `*` is any other type.
    A type without an entry follows the snapshot (`docs/concepts/scoring.md`)."""
    trial: SnapshotTrial | None = None
    "The comparison of snapshots that is under way. A promotion or a rollback ends it."

    @property
    def is_default(self) -> bool:
        """Return whether it is the engine that the first product created."""
        return self.engine_id == DEFAULT_ENGINE

    @property
    def application(self) -> str:
        """Return the name of its Serve application, which may not exist."""
        return application_name(self.app_id, self.engine_id)

    @property
    def target_placement(self) -> Placement:
        """Return the requested placement."""
        return self.moving_to or self.placement

    def scaling_arguments(self) -> dict[str, Any]:
        """Return how its dedicated deployment scales; the limit per node only if there is one."""
        per_node = self.max_replicas_per_node
        return {
            **self.scaling.model_dump(),
            **({"max_replicas_per_node": per_node} if per_node else {}),
        }

    def deployment_arguments(self) -> dict[str, Any]:
        """Return the arguments of its Serve application; no secrets."""
        return {"app_id": self.app_id, "engine_id": self.engine_id, **self.scaling_arguments()}


class EngineStatus(BaseModel):
    """The last observed status of a dedicated engine."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    app_id: str
    engine_id: str
    state: str
    "`starting`, `running`, `failed` or `ending`."
    replicas: int = 0
    "That answer."
    target: int = 0
    "Requested number of replicas."
    message: str = ""
    "Why the deployment is not ready."
    at: int = 0
    "When the status was observed."


def application_name(app_id: str, engine_id: str = DEFAULT_ENGINE) -> str:
    """Return the name of the Serve application of an engine; neither id contains a dot."""
    return f"recommender.{app_id}.{engine_id}"


class Promotion(BaseModel):
    """One change of the serving snapshot; never altered afterwards."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    engine_id: str
    version: str
    "Version that serves after the change; empty: no snapshot."
    before: str = ""
    "Version that served before the change."
    kind: Literal["promoted", "rolled_back"] = "promoted"
    at_ms: int = 0
    by: str = ""
    run_id: str = ""
    "The run that made the version."
    reason: str = ""
    "Why, where the gate was passed by force."
    forced: bool = False
    figures: dict[str, float] = Field(default_factory=dict)
    evidence: dict[str, Any] = Field(default_factory=dict)
    "Of a decision without an order: both snapshots with people, rates and intervals."
