"""The report of an evaluation as types: metrics of one engine on one split, comparisons, tests and calibration.

Reports are stored as JSON, and every release reads those of older ones. A field that a report lacks has its default and
is not written again; a field of another release is kept.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from jobs.refresh.evaluation.gate import GateDecision

LOGGED = "logged"
"Protocol of an evaluation by the log of answers."


class ReportModel(BaseModel):
    """A part of a report. Aliases are the names of fields in stored reports."""

    model_config = ConfigDict(extra="allow", frozen=True, validate_by_name=True, serialize_by_alias=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were set as JSON, in their order here."""
        return self.model_dump(exclude_unset=True)


class MeanInterval(ReportModel):
    """The mean of a metric with its 95 % interval."""

    mean: float
    low: float
    high: float


class SegmentFigures(ReportModel):
    """The metrics of one segment of users."""

    name: str
    users: int = Field(alias="readers")
    figures: dict[str, MeanInterval]


class ScorerComparison(ReportModel):
    """Another scorer on the same users: `before` is its mean metric, `after` that of the evaluated engine."""

    figure: str
    users: int = Field(alias="readers")
    before: float
    after: float
    low: float
    high: float
    "Interval of the paired difference, `after` minus `before`."
    coverage_before: float = 0.0
    segments: dict[str, dict[str, float]] = Field(default_factory=dict)
    "Mean metrics of the other scorer by segment."
    intervals: dict[str, dict[str, list[float]]] = Field(default_factory=dict)
    "Its intervals, low and high, by segment and metric; not all metrics have one."
    version: str = ""
    "The version that served; empty for popularity."

    def mean(self, segment: str, figure: str) -> float | None:
        """Return the mean of a metric of the other scorer, None if it was not measured."""
        return self.segments.get(segment, {}).get(figure)

    def interval(self, segment: str, figure: str) -> tuple[float, float] | tuple[None, None]:
        """Return low and high of a metric of the other scorer; None twice if they are not known."""
        ends = self.intervals.get(segment, {}).get(figure)
        return (None, None) if ends is None else (ends[0], ends[1])


class PairedTest(ReportModel):
    """The paired test of one metric against another scorer."""

    against: str
    figure: str
    users: int
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float


class PairedTests(ReportModel):
    """The paired tests of a report; `method` says how p was computed and corrected."""

    method: str
    rows: list[PairedTest]


class CalibrationRow(ReportModel):
    """Places of a similar predicted rate, and the rate at which they were relevant."""

    places: int
    predicted: float
    observed: float
    low: float
    high: float


class Calibration(ReportModel):
    """The calibration of the first `depth` places of all users."""

    users: int
    depth: int
    error: float
    error_low: float
    error_high: float
    brier: float
    brier_of_mean: float
    rows: list[CalibrationRow]


class CurvePoint(ReportModel):
    """One point of a learning curve, with its paired difference to the last one."""

    share: float = 1.0
    "Share of the users that trained."
    events: int = 0
    newest: int | None = None
    "Number of newest events of each history; None: all."
    mean: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float


class LearningCurve(ReportModel):
    """The quality with fewer training users (`data`), and with shorter histories (`history`)."""

    figure: str
    users: int
    data: list[CurvePoint]
    history: list[CurvePoint]


class UnseenLists(ReportModel):
    """Lists without products of the history, if they have weights of their own."""

    users: int = Field(alias="readers")
    weights: dict[str, float]
    figures: dict[str, float]


class UserMetric(ReportModel):
    """One metric of each user, so that reports of the same users can be compared in pairs."""

    figure: str
    targets: str
    "Fingerprint of the users and their targets."
    values: list[float]
    people: list[int] | None = None
    "The person of each user; None if every user is another person."


class PartReport(ReportModel):
    """The result of the tuning for one part; `jobs.refresh.tuning.part_outcomes.PartOutcome` describes the fields."""

    part: str = ""
    learner: str = ""
    outcome: str = ""
    weight: float | None = None
    weight_new: float | None = None
    weight_unseen: float | None = None
    alone: float | None = None
    gain: float | None = None
    reason: str = ""


class EvaluationReport(ReportModel):
    """The report of one engine on one split."""

    trial: str = ""
    "Name of the split."
    k: int = 10
    "Length of the lists."
    coverage: float = 0.0
    gini: float | None = None
    segments: list[SegmentFigures] = Field(default_factory=list)
    "The first is all users; none without interactions."
    not_compared: str = ""
    "Why the serving version could not be compared with."
    beside: dict[str, ScorerComparison] = Field(default_factory=dict)
    tests: PairedTests | None = None
    calibration: Calibration | None = None
    "None if too few places were relevant."
    unseen: UnseenLists | None = None
    per_user: UserMetric | None = None
    split: dict[str, Any] = Field(default_factory=dict)
    "What `describe_split` says."
    recipe: str = ""
    chosen: str = ""
    parts: list[PartReport] = Field(default_factory=list)
    dropped: dict[str, str] = Field(default_factory=dict)
    "Parts that the evaluation dropped, with the reason."
    dropped_unseen: dict[str, str] = Field(default_factory=dict)
    users: int = Field(default=0, alias="readers_asked")
    figures: dict[str, float] = Field(default_factory=dict)
    "Means of all users."
    verdict: GateDecision | None = None
    "The decision of the gate when the report was written."
    reranker: dict[str, Any] = Field(default_factory=dict)
    search_reranker: dict[str, Any] = Field(default_factory=dict)
    "What was measured of a re-ranker; `kept` says whether it serves."
    run_id: str = ""
    learning_curve: LearningCurve | None = None
    protocol: str = ""
    "The protocol that was ordered; empty in the report of a training."
    note: str = ""

    @property
    def everybody(self) -> dict[str, MeanInterval]:
        """Return the metrics of all users with their intervals; empty without interactions."""
        return self.segments[0].figures if self.segments else {}

    @property
    def split_sentence(self) -> str:
        """Return protocol and dates of the test in one sentence; empty in reports of early releases."""
        return str(self.split.get("sentence", ""))


class FailedEvaluation(ReportModel):
    """A protocol that does not fit the data, and why."""

    protocol: str
    error: str


class ClickEstimate(ReportModel):
    """Clicks for each list, or a difference of them, with the 95 % interval."""

    value: float
    low: float
    high: float


class ComparedEstimate(ClickEstimate):
    """The estimate of a policy, and its paired difference to what it is compared with."""

    difference: ClickEstimate


class PlaceAgreement(ReportModel):
    """The share of logged places at which the serving version, computed again, has the product that was shown."""

    places: int
    share: float | None
    "None without such places."


class LogSupport(ReportModel):
    """How much of a policy the log can show: the share of its places, and how many places the estimate rests on."""

    share: float
    effective: float


class LoggedReport(ReportModel):
    """The report of an evaluation by the log of answers: estimates, or `refusal`."""

    protocol: str = LOGGED
    lists: int
    people: int
    places: int
    left_out: dict[str, int]
    "Number of lists that are not judged, by the reason."
    interval: str
    agreement: PlaceAgreement
    shown: ClickEstimate | None = None
    "The lists as they were shown."
    refusal: str = ""
    against: str = ""
    "What the differences are to."
    serving: dict[str, ClickEstimate] = Field(default_factory=dict)
    serving_refusal: str = ""
    support: LogSupport | None = None
    estimates: dict[str, ComparedEstimate] = Field(default_factory=dict)
    "By the name of the estimator; none with a refusal."
    target: str = ""
    engine_id: str = ""
    serving_version: str = ""
    since_ms: int = 0
    until_ms: int = 0
    sample: dict[str, int] = Field(default_factory=dict)
    "`of` lists these are a sample, drawn with `seed`; empty if all of them count."
    notes: list[str] = Field(default_factory=list)


def _kind_of_report(report: Any) -> str:
    """Return the tag of a report: of its JSON, or of the model."""
    if isinstance(report, ReportModel):
        return type(report).__name__
    if "error" in report:
        return FailedEvaluation.__name__
    return LoggedReport.__name__ if report.get("protocol") == LOGGED else EvaluationReport.__name__


ProtocolReport = EvaluationReport | LoggedReport | FailedEvaluation
"What an evaluation has for one protocol."


class MeasurementRecord(ReportModel):
    """What an evaluation (`reports`) or a sweep (`sweep`, `rows`, `summary`, `split`) leaves in the artifact store."""

    reports: list[
        Annotated[
            Annotated[EvaluationReport, Tag("EvaluationReport")]
            | Annotated[LoggedReport, Tag("LoggedReport")]
            | Annotated[FailedEvaluation, Tag("FailedEvaluation")],
            Discriminator(_kind_of_report),
        ]
    ] = Field(default_factory=list)
    sweep: str = ""
    rows: list[dict[str, Any]] = Field(default_factory=list)
    summary: dict[str, Any] = Field(default_factory=dict)
    split: dict[str, Any] = Field(default_factory=dict)
    kind: str = ""
    recipe: str = ""
