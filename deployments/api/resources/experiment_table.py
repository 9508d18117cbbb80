"""The rows of experiments in the table: the event, and what an administrator does.

Source: reference 8.7, section 9
"""

from __future__ import annotations

from typing import Any

from actors.experiments.messages import Step
from deployments.api.http.endpoint import About, Answer, Endpoint, Schema
from deployments.api.resources.experiment_admin import ExperimentAdmin
from deployments.api.resources.experiments import NAMED, ExperimentEvents
from deployments.api.wire import experiments as shape
from deployments.api.wire.records import Told, enveloped
from deployments.edge.admission import Rules

BASE = "/v1/experiments"
_ONE = f"{BASE}/{{{NAMED}}}"
_TAG = "Experiments"
_EVENT = Rules(publishable_by="publishable_experiments", writes=True, body="raw", browser_bytes=16 << 10)
_READ = Rules()
_STEP = Rules(bucket="write", writes=True)
_CHANGE = Rules(bucket="write", writes=True, body="json")


def experiment_endpoints(events: ExperimentEvents, admin: ExperimentAdmin) -> tuple[Endpoint, ...]:
    """Make the rows."""
    return (
        Endpoint(
            "experiments.event", "POST", f"{_ONE}/events", _EVENT, "experiments", events.answer,
            schema=events.read, hot=True,
            about=About(
                "Assign a user to a variant", _TAG, shape.ExperimentBody, {200: shape.EventReply, 404: Told}
            ),
        ),
        *_administration(admin),
    )  # fmt: skip


def _administration(desk: ExperimentAdmin) -> tuple[Endpoint, ...]:
    one, many = enveloped(shape.ShownExperiment), enveloped(shape.ShownExperiments)

    def row(
        name: str, method: str, path: str, rules: Rules, answer: Answer, about: str, *,
        reply: Any = one, body: Any = None, schema: Schema | None = None,
    ) -> Endpoint:  # fmt: skip
        replies = {200: reply, **({404: Told} if path.startswith(_ONE) else {})}
        if rules.writes:
            replies[400] = Told
        return Endpoint(
            f"experiments.{name}", method, path, rules, "detail", answer,
            schema=schema, about=About(about, _TAG, body, replies),
        )  # fmt: skip

    def step(name: Step, about: str) -> Endpoint:
        return row(name, "POST", f"{_ONE}/{name}", _STEP, desk.stepper(name), about)

    return (
        row("list", "GET", BASE, _READ, desk.list, "List experiments", reply=many),
        row(
            "create", "POST", BASE, _CHANGE, desk.create, "Create experiments as drafts",
            reply=many, body=shape.EXPERIMENT_DRAFTS,
        ),
        row("show", "GET", _ONE, _READ, desk.show, "Read an experiment"),
        row(
            "edit", "PUT", _ONE, _CHANGE, desk.edit, "Change an experiment",
            body=shape.ExperimentEdit, schema=desk.reader(shape.ExperimentEdit),
        ),
        step("start", "Start an experiment"),
        row(
            "schedule", "POST", f"{_ONE}/schedule", _CHANGE, desk.schedule, "Schedule an experiment",
            body=shape.Schedule, schema=desk.reader(shape.Schedule),
        ),
        step("pause", "Pause an experiment"),
        step("complete", "End an experiment for good"),
        step("archive", "Archive an experiment"),
        row(
            "report", "GET", f"{_ONE}/report", _READ, desk.report, "Read the report of an experiment",
            reply=enveloped(shape.ShownReport),
        ),
    )  # fmt: skip
