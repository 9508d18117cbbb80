"""Evaluation reports as JSON and as Markdown.

A report has the metrics of one engine on one split, by segment, with 95 % intervals. It may contain the metrics of
other scorers on the same users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from actors.vectors.types import Floats, Rows
from cluster.clock import iso_ms
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.data.unordered_baskets import ENDS_IN_BASKETS, shared_last_timestamp_share
from jobs.refresh.evaluation.calibration import describe_calibration
from jobs.refresh.evaluation.evaluate import (
    LIGHT_USER_BELOW,
    POPULAR_SHARE,
    EvaluationResult,
    bootstrap_interval,
    segment_figures,
)
from jobs.refresh.evaluation.gate import check_gate
from jobs.refresh.evaluation.off_policy_report import logged_markdown
from jobs.refresh.evaluation.report_models import (
    CurvePoint,
    EvaluationReport,
    FailedEvaluation,
    LearningCurve,
    LoggedReport,
    MeanInterval,
    ProtocolReport,
    ScorerComparison,
    SegmentFigures,
    UserMetric,
)

_SEED = 95
"Seed of the intervals of other scorers; it leaves the intervals of the engine unchanged."


def report_evaluation(examined: EvaluationResult, rng: np.random.Generator) -> EvaluationReport:
    """Return a report with the means of an evaluation and their intervals, by segment."""
    return EvaluationReport(
        trial=examined.trial,
        k=examined.k,
        coverage=round(examined.coverage, 6),
        gini=round(examined.gini, 6),
        segments=[
            SegmentFigures(
                name=name,
                users=len(next(iter(figures.values()))),
                figures={
                    figure: _mean_interval(values, rng, examined.segment_people(name))
                    for figure, values in figures.items()
                },
            )
            for name, figures in segment_figures(examined).items()
        ],
    )


def _mean_interval(values: Floats, rng: np.random.Generator, people: Rows | None) -> MeanInterval:
    low, high = bootstrap_interval(values, rng, people)
    return MeanInterval(mean=_rounded(values.mean()), low=_rounded(low), high=_rounded(high))


def report_comparison(
    before: EvaluationResult, after: EvaluationResult, figure: str, rng: np.random.Generator, **about: str
) -> ScorerComparison:
    """Return the paired difference of a metric between two evaluations of the same users.

    `about` may have the `version` of the first. Pairs show smaller differences than two means would.

    Errors:
        Invalid: the evaluations have different users, or lack the metric
    """
    if figure not in before.figures or figure not in after.figures:
        raise Invalid(f"no figure {figure!r}; there are {', '.join(sorted(after.figures))}")
    first = before.figures[figure]
    second = after.figures[figure]
    if len(first) != len(second) or before.trial != after.trial:
        raise Invalid("only examinations of the same trial can be compared")
    # Of the differences by user: both scorers find the same users hard, and that cancels out.
    low, high = bootstrap_interval(second - first, rng, before.people)
    return ScorerComparison(
        figure=figure,
        # People, where sessions are evaluated: those of one person are no independent evidence.
        users=len(first) if before.people is None else len(np.unique(before.people)),
        before=_rounded(first.mean()),
        after=_rounded(second.mean()),
        low=_rounded(low),
        high=_rounded(high),
        coverage_before=round(before.coverage, 6),
        segments=mean_metrics(before),
        intervals=metric_intervals(before, figure),
        **about,
    )


def metric_intervals(examined: EvaluationResult, figure: str) -> dict[str, dict[str, list[float]]]:
    """Return the 95 % intervals of all metrics over all users, and of one metric in each segment."""
    rng = np.random.default_rng(_SEED)
    return {
        segment: {
            name: [_rounded(end) for end in bootstrap_interval(values, rng, examined.segment_people(segment))]
            for name, values in figures.items()
            if segment == "all" or name == figure
        }
        for segment, figures in segment_figures(examined).items()
    }


def per_user_metric(examined: EvaluationResult, figure: str, trial: EvaluationSplit) -> UserMetric:
    """Return one metric of each user with the person, and a fingerprint of the users and their targets."""
    # Two reports compare in pairs only if users and targets are the same.
    targets = trial.targets.starts.tobytes() + trial.targets.items.tobytes()
    return UserMetric(
        figure=figure,
        targets=hashlib.sha256(targets).hexdigest()[:16],
        values=[_rounded(value) for value in examined.figures[figure]],
        people=None if trial.people is None else trial.people.tolist(),
    )


def mean_metrics(examined: EvaluationResult) -> dict[str, dict[str, float]]:
    """Return the mean metrics of each segment, without intervals."""
    return {
        name: {figure: _rounded(values.mean()) for figure, values in figures.items()}
        for name, figures in segment_figures(examined).items()
    }


def headline_metrics(report: EvaluationReport) -> dict[str, float]:
    """Return the metrics of all users in the form of run records."""
    figures = {name: figure.mean for name, figure in report.everybody.items()}
    return {**figures, f"coverage@{report.k}": report.coverage}


_PROTOCOLS = {
    "by_time": ("by time", "every product that the user takes after the split is relevant"),
    "leave_last_out": ("leave last out", "only the last product of each user is relevant"),
    "next_in_session": ("next in session", "only the next product of the session is relevant"),
}
_SEEN = {
    "out": "products of the user's history are not recommended and do not count",
    "other_kinds": "products that the user has such events of are not recommended and do not count",
    "allowed": "products of the user's history may be recommended and count again",
    "paused": "products of the user's history are recommended and count again once their pause has ended",
}


def describe_split(trial: EvaluationSplit) -> dict[str, Any]:
    """Return what a report says of its test: protocol, dates, what counts as relevant, and all in one sentence."""
    name, relevant = _PROTOCOLS.get(trial.protocol, (trial.name, ""))
    kinds = f" (events of type {', '.join(trial.kinds)})" if trial.kinds else ""
    first, last = (iso_ms(round(at_s * 1000)) for at_s in trial.period_s) if trial.period_s else ("", "")
    dates = (
        f"from {first[:10]} to {last[:10]}" if first else "without dates, because the events have no times"
    )
    reason = f", chosen because {trial.reason}" if trial.reason else ""
    sentence = f"Protocol {name}{reason}. Test {dates}"
    if relevant:
        sentence += f"; {relevant}{kinds}; {_SEEN[trial.seen]}"
    if trial.people is not None:
        count = len(np.unique(trial.people))
        sentence += f"; {len(trial):,} lists of {count:,} sessions, which intervals and tests draw whole"
    return {
        "protocol": trial.protocol,
        "reason": trial.reason,
        "from": first or None,
        "until": last or None,
        "relevant": f"{relevant}{kinds}",
        "seen": trial.seen,
        "kinds": list(trial.kinds),
        "users": len(trial),
        "training_events": len(trial.train),
        "sentence": f"{sentence}.",
    }


def markdown_from_reports(reports: Sequence[ProtocolReport], title: str) -> str:
    """Return reports as Markdown tables."""
    lines = [f"# {title}", ""]
    for report in reports:
        if isinstance(report, FailedEvaluation):
            lines += [f"## {report.protocol}", "", report.error, ""]
            continue
        if isinstance(report, LoggedReport):
            lines += logged_markdown(report)
            continue
        names = list(report.everybody)
        lines += [f"## {report.trial}: {report.recipe}", ""]
        if report.split_sentence:
            lines += [report.split_sentence, ""]
        lines += ["| users | | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 2)]
        for segment in report.segments:
            cells = [_estimate_cell(segment.figures.get(name)) for name in names]
            lines.append(f"| {segment.name} | {segment.users} | " + " | ".join(cells) + " |")
        for name, other in report.beside.items():
            cells = [_comparison_cell(other, figure) for figure in names]
            lines.append(f"| {name} | | " + " | ".join(cells) + " |")
        lines += [
            "",
            *_unseen_lines(report),
            f"Coverage {report.coverage:.3f}.{_gini_sentence(report)} {check_gate(report).sentence}.",
            "",
        ]
        notes = (report.chosen, SEGMENT_NOTE, report.note)
        lines += [f"{note[:1].upper()}{note[1:]}.\n" for note in notes if note]
        lines += [*_test_lines(report), *_calibration_lines(report), *_curve_lines(report)]
    return "\n".join(lines)


def _test_lines(report: EvaluationReport) -> list[str]:
    """Return the table of paired tests; nothing for the report of an earlier release."""
    if report.tests is None:
        return []
    lines = ["| against | figure | difference | p | corrected p |", "|" + " --- |" * 5]
    for row in report.tests.rows:
        difference = f"{row.difference:+.4f} ({row.low:+.4f} to {row.high:+.4f})"
        figures = f"{difference} | {row.p:.4f} | {row.p_corrected:.4f}"
        lines.append(f"| {row.against} | {row.figure} | {figures} |")
    return [*lines, "", f"{report.tests.method}.", ""]


def _calibration_lines(report: EvaluationReport) -> list[str]:
    """Return the reliability table; nothing if too few places were relevant."""
    calibration = report.calibration
    if calibration is None:
        return []
    lines = ["| places | predicted | observed |", "| --- | --- | --- |"]
    for row in calibration.rows:
        observed = f"{row.observed:.4f} ({row.low:.4f} to {row.high:.4f})"
        lines.append(f"| {row.places:,} | {row.predicted:.4f} | {observed} |")
    return [*lines, "", f"{describe_calibration(calibration)}.", ""]


def _curve_lines(report: EvaluationReport) -> list[str]:
    """Return the table of the learning curve, if it was measured."""
    curve = report.learning_curve
    if curve is None:
        return []
    lines = [f"| | {curve.figure} | against all |", "| --- | --- | --- |"]
    for label, point in list_curve_points(curve):
        difference = f"{point.difference:+.4f} ({point.difference_low:+.4f} to {point.difference_high:+.4f})"
        lines.append(f"| {label} | {_estimate_cell(point)} | {difference} |")
    return [*lines, ""]


def list_curve_points(curve: LearningCurve) -> Iterator[tuple[str, CurvePoint]]:
    """Yield label and figures of each point of a learning curve."""
    for point in curve.data:
        yield f"{point.share:.0%} of the users", point
    for point in curve.history:
        yield "all events" if point.newest is None else f"newest {point.newest}", point


def _gini_sentence(report: EvaluationReport) -> str:
    """Return how unequally the places are spread; nothing for the report of an earlier release."""
    return "" if report.gini is None else f" Gini {report.gini:.3f}."


def _unseen_lines(report: EvaluationReport) -> list[str]:
    """Return the sentence about lists without products of the history; nothing if they have the same weights."""
    unseen = report.unseen
    if unseen is None:
        return []
    figures = ", ".join(f"{name} {value:.4f}" for name, value in unseen.figures.items())
    weights = ", ".join(f"{name} {weight:g}" for name, weight in unseen.weights.items())
    return [
        f"Lists without products of the history, {unseen.users:,} users: {figures}. Weights: {weights}.",
        "",
    ]


def _estimate_cell(estimate: MeanInterval | CurvePoint | None) -> str:
    if estimate is None:
        return ""
    return f"{estimate.mean:.4f} ({estimate.low:.4f} to {estimate.high:.4f})"


def _comparison_cell(other: ScorerComparison, figure: str) -> str:
    mean = f"{other.segments['all'][figure]:.4f}"
    low, high = other.interval("all", figure)
    return mean if low is None or high is None else f"{mean} ({low:.4f} to {high:.4f})"


def _rounded(value: float) -> float:
    return round(float(value), 6)


SEGMENT_NOTE = (
    f"new: no event before the test; light: 1 to {LIGHT_USER_BELOW - 1} events; "
    f"heavy: {LIGHT_USER_BELOW} or more; popular targets: the products that together have {POPULAR_SHARE:.0%} of "
    "the events; new targets: products without an event"
)


def protocol_note(protocol: str, data: Interactions) -> str:
    """Return a note on `leave_last_out` for data whose baskets have one time for all products, else an empty text."""
    if protocol != "leave_last_out":
        return ""
    share = shared_last_timestamp_share(data)
    if share < ENDS_IN_BASKETS:
        return ""
    return (
        f"{share:.0%} of the users end with several products at one instant, as in one basket: which of them is the "
        "last is chance, and only that one counts as right. Expect lower figures than by_time, where everything "
        "after the instant counts"
    )
