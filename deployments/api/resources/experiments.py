"""Endpoints of experiments: assignment and events, and administration.

The event endpoint parses its body itself, because only this endpoint reports the place of invalid JSON.

The publishable key may send events only if the app sets `publishable_experiments`.
Published in `docs/reference/rest.md`, section Experiments.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from actors.experiments.client import ExperimentClient
from actors.experiments.lifecycle import ExperimentLifecycle, experiment_to_dict, parse_drafts
from actors.experiments.messages import ExperimentEvent, LifecycleStep
from actors.experiments.report_data import load_report, validate_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.errors import Invalid, Malformed, NotFound, messages
from cluster.records.experiment import Experiment, ExperimentUpdate
from cluster.records.validation.json_limits import load_json
from cluster.store.stores import Stores
from deployments.api.http.browser_writes import find_new_user_limits
from deployments.api.http.endpoint import Answer, Endpoint, EndpointTexts, Schema, body_parser
from deployments.api.http.query_treatment import classify_device
from deployments.api.http.user_identity import default_anonymous_id
from deployments.api.wire import experiments as shape
from deployments.api.wire.experiments import ExperimentBody, ExperimentEdit, ScheduleBody
from deployments.api.wire.records import MessageReply, build_envelope
from deployments.api.wire.validation_errors import refuse, validate_body
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.access.identity_proof import ClaimedIdentity, verify_identity
from deployments.edge.http.replies import Reply, plain_reply, success
from deployments.edge.http.request import ApiRequest

NAMED = "experiment_id_or_slug"
MAX_DRAFTS = 100
"Maximal number of experiments in one request."
_MOST_FAULTS = 1 << 20
"Larger invalid bodies are refused without the place of the fault."


class ExperimentEventsResource:
    """The endpoint of experiment events."""

    def __init__(self, client: ExperimentClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def parse_request(self, request: ApiRequest) -> ExperimentEvent:
        """Validate the body; without an id the visitor's id is derived from key, address, agent and day."""
        given = parse_event(request.body)
        body = validate_body(ExperimentBody, given)
        credential = request.credential
        if not credential.is_secret and credential.app.settings.prove_writers:
            verify_identity(request, ClaimedIdentity.from_body(given))
        user_id = body.user_id or ""
        anonymous_id = body.anonymous_id or ""
        if not user_id and not anonymous_id:
            anonymous_id = default_anonymous_id(request, self._clock.now_ms())
        return ExperimentEvent(
            request.app_id,
            request.ids[NAMED],
            user_id,
            anonymous_id,
            body.variant_name or None,
            body.timestamp,
            classify_device(request.user_agent),
            # Without `prove_writers`, nobody has verified the user id.
            find_new_user_limits(request, user_id if credential.app.settings.prove_writers else ""),
        )

    async def answer(self, request: ApiRequest) -> Reply:
        """Record the event and return the user's variant."""
        assigned = await self._client.record(request.parsed)
        variant = assigned.variant
        shown = {
            "id": variant.variant_id,
            "name": variant.name,
            "slug": variant.slug,
            "status": variant.status,
            "configuration": variant.configuration,
        }
        return plain_reply(
            {"took": request.took_ms(), "in_experiment": assigned.in_experiment, "variant": shown}
        )


def parse_event(body: bytes) -> Any:
    """Parse a body.

    Errors:
        Malformed: invalid JSON, with place and message of a well-known parser; or a body beyond the limits
    """
    try:
        return load_json(body, refuse_duplicates=False)
    except Malformed as error:
        place = _invalid_json_position(body)
        raise error if place is None else Malformed(error.message, detail=[place]) from None


def _invalid_json_position(body: bytes) -> dict[str, Any] | None:
    """Return the place at which a body stops being valid JSON; None if it is valid."""
    if len(body) > _MOST_FAULTS:
        return None
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return {"loc": ["body", error.pos], "msg": str(error), "type": "value_error.jsondecode"}
    except (ValueError, RecursionError):
        return None
    return None


class ExperimentsResource:
    """The endpoints that create, show and change experiments."""

    def __init__(self, stores: Stores, artifacts: ArtifactStore | None, clock: Clock) -> None:
        self._stores = stores
        self._artifacts = artifacts
        self._clock = clock
        self._lifecycle = ExperimentLifecycle(stores, clock)

    async def create(self, request: ApiRequest) -> Reply:
        """Create drafts, all or none."""
        drafts = parse_drafts(request.payload)
        if drafts is None:
            refuse('one experiment, an array of them, or {"experiments": [...]} is expected')
        if len(drafts) > MAX_DRAFTS:
            refuse(f"at most {MAX_DRAFTS} experiments are made at once")
        try:
            return self._show_all(await self._lifecycle.create(request.app_id, drafts))
        except Invalid as error:
            refuse(error.message)

    async def list(self, request: ApiRequest) -> Reply:
        """Return the experiments of the app, the oldest first."""
        return self._show_all(await self._lifecycle.list_experiments(request.app_id))

    async def show(self, request: ApiRequest) -> Reply:
        """Return one experiment."""
        return self._show(await self._find(request))

    async def edit(self, request: ApiRequest) -> Reply:
        """Change one experiment."""
        body: ExperimentEdit = request.parsed
        update = validate_body(ExperimentUpdate, body.model_dump(exclude_unset=True))
        experiment = await self._find(request)
        return self._show(await self._lifecycle.edit(request.app_id, experiment.experiment_id, update))

    def build_step(self, step: LifecycleStep) -> Callable[[ApiRequest], Awaitable[Reply]]:
        """Return the answer of a state transition that needs only the experiment's name."""

        async def answer(request: ApiRequest) -> Reply:
            experiment = await self._find(request)
            if step == "start":
                await self._validate_snapshots(experiment)
            take = {
                "start": self._lifecycle.start,
                "pause": self._lifecycle.pause,
                "complete": self._lifecycle.complete,
                "archive": self._lifecycle.archive,
            }[step]
            return self._show(await take(request.app_id, experiment.experiment_id))

        return answer

    async def schedule(self, request: ApiRequest) -> Reply:
        """Schedule the start and, optionally, the end of an experiment."""
        body: ScheduleBody = request.parsed
        experiment = await self._find(request)
        await self._validate_snapshots(experiment)
        return self._show(
            await self._lifecycle.schedule(
                request.app_id, experiment.experiment_id, body.starts_at, body.ends_at
            )
        )

    async def report(self, request: ApiRequest) -> Reply:
        """Return the report of an experiment."""
        report = await load_report(self._stores, self._artifacts, await self._find(request))
        return success(report.to_dict())

    async def _validate_snapshots(self, experiment: Experiment) -> None:
        # In a thread, because it lists a directory or a bucket.
        await asyncio.to_thread(validate_snapshots, experiment, self._artifacts)

    async def _find(self, request: ApiRequest) -> Experiment:
        experiment = (await self._stores.experiments.read_all(request.app_id)).find(request.ids[NAMED])
        if experiment is None:
            raise NotFound(messages.EXPERIMENT_NOT_FOUND)
        return experiment

    def _show(self, experiment: Experiment) -> Reply:
        return success(experiment_to_dict(experiment, self._clock.now_ms()))

    def _show_all(self, experiments: Sequence[Experiment]) -> Reply:
        now_ms = self._clock.now_ms()
        return success({"experiments": [experiment_to_dict(each, now_ms) for each in experiments]})


ROOT = "/v1/experiments"
_EXPERIMENT = f"{ROOT}/{{{NAMED}}}"
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
    """Return the endpoints."""
    return (
        Endpoint(
            "experiments.event",
            "POST",
            f"{_EXPERIMENT}/events",
            _EVENT,
            "experiments",
            events.answer,
            schema=events.parse_request,
            hot=True,
            about=EndpointTexts(
                "Assign a user to a variant",
                _TAG,
                shape.ExperimentBody,
                {200: shape.EventReply, 404: MessageReply},
            ),
        ),
        *_administration(admin),
    )


def _administration(resource: ExperimentsResource) -> tuple[Endpoint, ...]:
    experiment = build_envelope(shape.ShownExperiment)
    experiments = build_envelope(shape.ShownExperiments)

    def row(
        name: str,
        method: str,
        path: str,
        rules: AdmissionRules,
        answer: Answer,
        about: str,
        *,
        reply: Any = experiment,
        body: Any = None,
        schema: Schema | None = None,
    ) -> Endpoint:
        replies = {200: reply, **({404: MessageReply} if path.startswith(_EXPERIMENT) else {})}
        if rules.writes:
            replies[400] = MessageReply
        return Endpoint(
            f"experiments.{name}",
            method,
            path,
            rules,
            "detail",
            answer,
            schema=schema,
            about=EndpointTexts(about, _TAG, body, replies),
        )

    def step(name: LifecycleStep, about: str) -> Endpoint:
        return row(name, "POST", f"{_EXPERIMENT}/{name}", _STEP, resource.build_step(name), about)

    return (
        row("list", "GET", ROOT, _READ, resource.list, "List experiments", reply=experiments),
        row(
            "create", "POST", ROOT, _CHANGE, resource.create, "Create experiments as drafts",
            reply=experiments, body=shape.EXPERIMENT_DRAFTS,
        ),
        row("show", "GET", _EXPERIMENT, _READ, resource.show, "Read an experiment"),
        row(
            "edit", "PUT", _EXPERIMENT, _CHANGE, resource.edit, "Change an experiment",
            body=shape.ExperimentEdit, schema=body_parser(shape.ExperimentEdit),
        ),
        step("start", "Start an experiment"),
        row(
            "schedule", "POST", f"{_EXPERIMENT}/schedule", _CHANGE, resource.schedule, "Schedule an experiment",
            body=shape.ScheduleBody, schema=body_parser(shape.ScheduleBody),
        ),
        step("pause", "Pause an experiment"),
        step("complete", "End an experiment for good"),
        step("archive", "Archive an experiment"),
        row(
            "report", "GET", f"{_EXPERIMENT}/report", _READ, resource.report, "Read the report of an experiment",
            reply=build_envelope(shape.ShownReport),
        ),
    )  # fmt: skip
