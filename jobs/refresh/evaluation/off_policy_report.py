"""The report of an evaluation by the log of answers: estimates with paired differences and support, or a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.served_list import RANKED, RULE
from jobs.refresh.evaluation.logged_lists import LATER_PAGES, LoggedLists
from jobs.refresh.evaluation.off_policy import (
    PolicyEstimate,
    PolicyPlaces,
    check_support,
    compare_estimates,
    estimate_policy,
    measure_shown,
)
from jobs.refresh.evaluation.report_models import (
    LOGGED,
    ClickEstimate,
    ComparedEstimate,
    LoggedReport,
    LogSupport,
    PlaceAgreement,
)

SHOWN = "the lists shown"
SERVING = "the serving version"
ESTIMATORS = ("ips", "snips", "dr")
HEADLINE = "dr"
"The estimate of the figures and of sentences."
SEARCHES = "searches"
GROUPED = "lists by category or value"
_EXPERIMENT = "no draw changes them, so the log supports no other order; traffic of an experiment does"
REFUSED = {
    SEARCHES: f"searches are not judged: {_EXPERIMENT} (`kiosk experiments`)",
    GROUPED: f"{GROUPED} are not judged: {_EXPERIMENT} (`kiosk experiments`)",
    LATER_PAGES: f"{LATER_PAGES} are not judged: only clients that send one get draws on them",
}
"Why answers of a kind are not judged, and which traffic would help; by the reason that leaves them out."
INTERVAL = "95 % sandwich intervals, clustered by person; weights are not clipped"


def build_report(
    lists: LoggedLists,
    policy: PolicyPlaces,
    serving: PolicyPlaces | None,
    serving_version: str,
    engine: str,
) -> LoggedReport:
    """Return the estimates of a policy, each with its paired difference to the serving version on the same lists.

    `serving` is None if the policy is the serving version. Where the log can't judge the serving version, the lists
    shown take its place. A policy that the log can't judge has `refusal` instead of `estimates`.
    """
    log = lists.log
    report = LoggedReport(
        protocol=LOGGED,
        lists=len(log.people),
        people=int(np.count_nonzero(np.bincount(log.people))) if len(log.people) else 0,
        places=len(log.lists),
        left_out=dict(lists.left_out),
        interval=INTERVAL,
        agreement=measure_agreement(lists, policy if serving is None else serving, serving_version),
    )
    if not len(log.people):
        return report.model_copy(update={"refusal": _refusal_without_lists(lists.left_out)})
    if report.people < 2:
        # An interval of one person is infinite, which no JSON can hold.
        return report.model_copy(update={"refusal": "all lists are of one person, and an interval needs two"})
    shown = measure_shown(log)
    facts: dict[str, Any] = {"shown": _report_estimate(shown)}
    # The support first: an estimate that a few lists decide is refused, whatever its interval says.
    try:
        support = check_support(log, policy)
        estimates = estimate_policy(log, policy)
    except Invalid as error:
        refusal = error.message.replace("APP ENGINE", engine)
        return report.model_copy(update={**facts, "refusal": refusal})
    # Without a serving version, against the clicks that the lists in fact got.
    against = dict.fromkeys(ESTIMATORS, shown)
    facts["against"] = SHOWN
    if serving is not None:
        try:
            against = estimate_policy(log, serving)
            facts["against"] = SERVING
            facts["serving"] = {name: _report_estimate(estimate) for name, estimate in against.items()}
        except Invalid as error:
            facts["serving_refusal"] = error.message.replace("APP ENGINE", engine)
    facts["support"] = LogSupport(share=_rounded(support.share), effective=round(support.effective, 1))
    facts["estimates"] = {
        name: ComparedEstimate(
            **dict(_report_estimate(estimate)),
            # Paired on the same lists: what both share cancels, so the interval is far narrower.
            difference=_report_estimate(compare_estimates(estimate, against[name], log.people)),
        )
        for name, estimate in estimates.items()
    }
    return report.model_copy(update=facts)


def measure_agreement(lists: LoggedLists, serving: PolicyPlaces, version: str) -> PlaceAgreement:
    """Return at how many places without a draw the serving version, computed again, has the product that was shown.

    Only lists of that version count. The rest differs because the log does not keep the whole request, and because
    the state of an app is rebuilt in steps.
    """
    places = lists.answers.select("snapshot", "origins").explode("origins")
    # Rules put products at fixed places, whatever a model ranks.
    places = places.filter(places["origins"] != RULE)
    counted = ((places["origins"] == RANKED) & (places["snapshot"] == version)).to_numpy()
    total = int(np.count_nonzero(counted))
    equal = int(np.count_nonzero(serving.matches[counted]))
    return PlaceAgreement(places=total, share=_rounded(equal / total) if total else None)


def summarize(report: LoggedReport) -> str:
    """Return the result in one sentence."""
    if report.refusal:
        return f"no estimate: {report.refusal}"
    estimate = report.estimates[HEADLINE]
    change = estimate.difference
    # Certain only if the whole interval is on one side of 0.
    verdict = "better" if change.low > 0 else "worse" if change.high < 0 else "not certainly different"
    return (
        f"{verdict}: {estimate.value:.4f} clicks for each list, {change.value:+.4f} against {report.against} "
        f"(95 % interval {change.low:+.4f} to {change.high:+.4f}, {report.lists:,} lists of "
        f"{report.people:,} people)"
    )


def list_figures(report: LoggedReport) -> dict[str, float]:
    """Return the figures of the record of a run."""
    shown = {} if report.shown is None else {"clicks_shown": report.shown.value}
    return shown | {f"clicks_{name}": estimate.value for name, estimate in report.estimates.items()}


def logged_markdown(report: LoggedReport) -> list[str]:
    """Return a report as lines of Markdown."""
    lines = [f"## By the log of answers: {report.target}", "", describe_log(report), ""]
    if report.estimates:
        lines += [
            f"| | clicks for each list | against {report.against} |",
            "| --- | --- | --- |",
            *(f"| {name} | {value} | {change} |" for name, value, change in list_rows(report)),
            "",
        ]
    return [*lines, *(f"{note[:1].upper()}{note[1:]}.\n" for note in list_notes(report))]


def describe_log(report: LoggedReport) -> str:
    """Return which lists a report is about."""
    sample = report.sample
    part = f", a sample of {sample['of']:,} with seed {sample['seed']}" if sample.get("of") else ""
    return (
        f"{report.lists:,} lists of {report.people:,} people from {iso_ms(report.since_ms)[:10]} to "
        f"{iso_ms(report.until_ms)[:10]}{part}."
    )


def list_rows(report: LoggedReport) -> list[tuple[str, str, str]]:
    """Return the rows of the table of estimates: name, value, difference."""
    shown = [] if report.shown is None else [(SHOWN, _with_interval(report.shown), "")]
    return shown + [
        (name, _with_interval(estimate), _with_interval(estimate.difference, "+"))
        for name, estimate in report.estimates.items()
    ]


def list_notes(report: LoggedReport) -> list[str]:
    """Return what a reader of the estimates must know, as sentences without their full stops."""
    notes = [summarize(report)]
    if report.support is not None:
        notes.append(
            f"the log can show {report.support.share:.1%} of the products at their places, and has the information of "
            f"{report.support.effective:,.0f} places"
        )
    if report.agreement.share is not None:
        notes.append(
            f"the serving version, computed again, agrees with the log at {report.agreement.share:.1%} of "
            f"{report.agreement.places:,} places"
        )
    left_out = ", ".join(f"{reason} {count:,}" for reason, count in report.left_out.items() if count)
    if left_out:
        notes.append(f"left out: {left_out}")
    if report.serving_refusal:
        notes.append(f"not compared with the serving version: {report.serving_refusal}")
    if report.lists:
        notes += list_refused(report.left_out)
    return [*notes, *report.notes, report.interval]


def list_refused(left_out: Mapping[str, int]) -> list[str]:
    """Return a sentence for each kind of answers that the log can't judge."""
    return [sentence for reason, sentence in REFUSED.items() if left_out.get(reason)]


def _refusal_without_lists(left_out: Mapping[str, int]) -> str:
    counts = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items() if count)
    reasons = f"({'left out: ' + counts if counts else 'no answers'})"
    return "; ".join([f"the log has no list that can be judged {reasons}", *list_refused(left_out)])


def _report_estimate(estimate: PolicyEstimate) -> ClickEstimate:
    return ClickEstimate(
        value=_rounded(estimate.value), low=_rounded(estimate.low), high=_rounded(estimate.high)
    )


def _with_interval(estimate: ClickEstimate, sign: str = "") -> str:
    return f"{estimate.value:{sign}.4f} ({estimate.low:{sign}.4f} to {estimate.high:{sign}.4f})"


def _rounded(value: float) -> float:
    return round(float(value), 6)
