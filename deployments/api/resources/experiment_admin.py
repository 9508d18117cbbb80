"""Experiments over HTTP, for an administrator's programs: what `kiosk experiments` does, by the same desk.

A body that makes no sense is 422, a step that can't be taken from where the experiment stands 400, a name or a part of
a layer that somebody else has 409.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from actors.experiments.client import LocalExperimentAdmin
from actors.experiments.messages import ExperimentUpdate, LifecycleStep
from cluster.errors import Invalid
from deployments.api.resources.experiments import NAMED
from deployments.api.wire.experiments import ExperimentEdit, ScheduleBody
from deployments.api.wire.faults import refuse, unprocessable_from
from deployments.edge.envelope import Reply, success
from deployments.edge.request import ApiRequest


class ExperimentsResource:
    """Makes, shows and changes experiments."""

    def __init__(self, client: LocalExperimentAdmin) -> None:
        self._client = client

    def body_parser(self, model: type[BaseModel]) -> Callable[[ApiRequest], Any]:
        """Make the step that reads a body."""

        def read(request: ApiRequest) -> Any:
            try:
                return model.model_validate(request.payload)
            except ValidationError as error:
                raise unprocessable_from(error) from error

        return read

    async def create(self, request: ApiRequest) -> Reply:
        """Make drafts, all or none."""
        try:
            return success({"experiments": await self._client.create(request.app_id, request.payload)})
        except Invalid as error:
            refuse(error.message)

    async def list(self, request: ApiRequest) -> Reply:
        """List the experiments of the app, oldest first."""
        return success({"experiments": await self._client.list(request.app_id)})

    async def show(self, request: ApiRequest) -> Reply:
        """Show one experiment."""
        return success(await self._client.show(request.app_id, request.ids[NAMED]))

    async def edit(self, request: ApiRequest) -> Reply:
        """Change one where it stands."""
        body: ExperimentEdit = request.parsed
        wanted = ExperimentUpdate(
            name=body.name, traffic=body.traffic, weights=body.weights, ends_at=body.ends_at,
            goal=None if body.goal is None else tuple(body.goal), layer=body.layer, slice=body.slice,
        )  # fmt: skip
        return success(await self._client.edit(request.app_id, request.ids[NAMED], wanted))

    def build_step(self, step: LifecycleStep) -> Callable[[ApiRequest], Awaitable[Reply]]:
        """Make the answer of a step that needs nothing but the experiment's name."""

        async def answer(request: ApiRequest) -> Reply:
            return success(await self._client.step(request.app_id, request.ids[NAMED], step))

        return answer

    async def schedule(self, request: ApiRequest) -> Reply:
        """Let it run from a moment on, perhaps until another."""
        body: ScheduleBody = request.parsed
        named = request.ids[NAMED]
        return success(await self._client.schedule(request.app_id, named, body.starts_at, body.ends_at))

    async def report(self, request: ApiRequest) -> Reply:
        """Say what came of it."""
        return success(await self._client.report(request.app_id, request.ids[NAMED]))
