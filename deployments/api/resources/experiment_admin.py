"""Experiments over HTTP, for an administrator's programs: what `kiosk experiments` does, by the same desk.

A body that makes no sense is 422, a step that can't be taken from where the experiment stands 400, a name or a part of
a layer that somebody else has 409.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel, ValidationError

from actors.experiments.client import LocalExperimentAdmin
from actors.experiments.messages import Edit, Step
from cluster.errors import Invalid
from deployments.api.resources.experiments import NAMED
from deployments.api.wire.experiments import ExperimentEdit, Schedule
from deployments.api.wire.faults import refuse, unprocessable
from deployments.edge.envelope import Reply, success
from deployments.edge.request import Arrival


class ExperimentAdmin:
    """Makes, shows and changes experiments."""

    def __init__(self, client: LocalExperimentAdmin) -> None:
        self._client = client

    def reader(self, model: type[BaseModel]) -> Callable[[Arrival], Any]:
        """Make the step that reads a body."""

        def read(request: Arrival) -> Any:
            try:
                return model.model_validate(request.payload)
            except ValidationError as error:
                raise unprocessable(error) from error

        return read

    async def create(self, request: Arrival) -> Reply:
        """Make drafts, all or none."""
        try:
            return success({"experiments": await self._client.create(request.app_id, request.payload)})
        except Invalid as error:
            refuse(error.message)

    async def list(self, request: Arrival) -> Reply:
        """List the experiments of the app, oldest first."""
        return success({"experiments": await self._client.list(request.app_id)})

    async def show(self, request: Arrival) -> Reply:
        """Show one experiment."""
        return success(await self._client.show(request.app_id, request.ids[NAMED]))

    async def edit(self, request: Arrival) -> Reply:
        """Change one where it stands."""
        body: ExperimentEdit = request.parsed
        wanted = Edit(
            name=body.name, traffic=body.traffic, weights=body.weights, ends_at=body.ends_at,
            goal=None if body.goal is None else tuple(body.goal), layer=body.layer, slice=body.slice,
        )  # fmt: skip
        return success(await self._client.edit(request.app_id, request.ids[NAMED], wanted))

    def stepper(self, step: Step) -> Callable[[Arrival], Awaitable[Reply]]:
        """Make the answer of a step that needs nothing but the experiment's name."""

        async def answer(request: Arrival) -> Reply:
            return success(await self._client.step(request.app_id, request.ids[NAMED], step))

        return answer

    async def schedule(self, request: Arrival) -> Reply:
        """Let it run from a moment on, perhaps until another."""
        body: Schedule = request.parsed
        named = request.ids[NAMED]
        return success(await self._client.schedule(request.app_id, named, body.starts_at, body.ends_at))

    async def report(self, request: Arrival) -> Reply:
        """Say what came of it."""
        return success(await self._client.report(request.app_id, request.ids[NAMED]))
