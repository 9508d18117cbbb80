"""The rows of experiments in the table: the event, and what an administrator does.

Source: reference 8.7, section 9
"""

from __future__ import annotations

from typing import Any

from actors.experiments.messages import LifecycleStep
from deployments.api.http.endpoint import Answer, Endpoint, EndpointTexts, Schema
from deployments.api.resources.experiment_admin import ExperimentsResource
from deployments.api.resources.experiments import NAMED, ExperimentEventsResource
from deployments.api.wire import experiments as shape
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.edge.admission import AdmissionRules

BASE = "/v1/experiments"
_ONE = f"{BASE}/{{{NAMED}}}"
_TAG = "Experiments"
_EVENT = AdmissionRules(
    publishable_by="publishable_experiments", writes=True, body="raw", browser_bytes=16 << 10
)
_READ = AdmissionRules()
_STEP = AdmissionRules(bucket="write", writes=True)
_CHANGE = AdmissionRules(bucket="write", writes=True, body="json")


def build_experiment_endpoints(
    events: ExperimentEventsResource, admin: ExperimentsResource
) -> tuple[Endpoint, ...]:
    """Make the rows."""
    return (
        Endpoint(
            "experiments.event", "POST", f"{_ONE}/events", _EVENT, "experiments", events.answer,
            schema=events.read, hot=True,
            about=EndpointTexts(
                "Assign a user to a variant", _TAG, shape.ExperimentBody, {200: shape.EventReply, 404: MessageReply}
            ),
        ),
        *_administration(admin),
    )  # fmt: skip


def _administration(desk: ExperimentsResource) -> tuple[Endpoint, ...]:
    one, many = build_envelope(shape.ShownExperiment), build_envelope(shape.ShownExperiments)

    def row(
        name: str, method: str, path: str, rules: AdmissionRules, answer: Answer, about: str, *,
        reply: Any = one, body: Any = None, schema: Schema | None = None,
    ) -> Endpoint:  # fmt: skip
        replies = {200: reply, **({404: MessageReply} if path.startswith(_ONE) else {})}
        if rules.writes:
            replies[400] = MessageReply
        return Endpoint(
            f"experiments.{name}", method, path, rules, "detail", answer,
            schema=schema, about=EndpointTexts(about, _TAG, body, replies),
        )  # fmt: skip

    def step(name: LifecycleStep, about: str) -> Endpoint:
        return row(name, "POST", f"{_ONE}/{name}", _STEP, desk.build_step(name), about)

    return (
        row("list", "GET", BASE, _READ, desk.list, "List experiments", reply=many),
        row(
            "create", "POST", BASE, _CHANGE, desk.create, "Create experiments as drafts",
            reply=many, body=shape.EXPERIMENT_DRAFTS,
        ),
        row("show", "GET", _ONE, _READ, desk.show, "Read an experiment"),
        row(
            "edit", "PUT", _ONE, _CHANGE, desk.edit, "Change an experiment",
            body=shape.ExperimentEdit, schema=desk.body_parser(shape.ExperimentEdit),
        ),
        step("start", "Start an experiment"),
        row(
            "schedule", "POST", f"{_ONE}/schedule", _CHANGE, desk.schedule, "Schedule an experiment",
            body=shape.ScheduleBody, schema=desk.body_parser(shape.ScheduleBody),
        ),
        step("pause", "Pause an experiment"),
        step("complete", "End an experiment for good"),
        step("archive", "Archive an experiment"),
        row(
            "report", "GET", f"{_ONE}/report", _READ, desk.report, "Read the report of an experiment",
            reply=build_envelope(shape.ShownReport),
        ),
    )  # fmt: skip
