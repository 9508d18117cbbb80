"""Experiment events: who gets which variant.

The body is parsed here and not by admission, because this endpoint alone says where bad JSON went wrong.

Source: reference 8.7; decision I3
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from actors.experiments.client import ExperimentClient
from actors.experiments.messages import ExperimentEvent
from cluster.clock import Clock
from cluster.errors import Malformed
from cluster.records.validation.json_limits import load_json
from deployments.api.http.browser_writes import limit_new_users
from deployments.api.http.identity import default_anonymous_id
from deployments.api.http.query_treatment import classify_device
from deployments.api.wire.experiments import ExperimentBody
from deployments.api.wire.faults import unprocessable_from
from deployments.edge.envelope import Reply, plain_reply
from deployments.edge.proof import ClaimedIdentity, verify_identity
from deployments.edge.request import ApiRequest

NAMED = "experiment_id_or_slug"
_MOST_FAULTS = 1 << 20
"Bodies beyond this size are refused without saying where they went wrong."


class ExperimentEventsResource:
    """Endpoint 26."""

    def __init__(self, client: ExperimentClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def read(self, request: ApiRequest) -> ExperimentEvent:
        """Read the body; who names nobody is a visitor made from key, address, agent and day."""
        given = parse_event(request.body)
        try:
            body = ExperimentBody.model_validate(given)
        except ValidationError as error:
            raise unprocessable_from(error) from error
        credential = request.credential
        if not credential.is_secret and credential.app.settings.prove_writers:
            verify_identity(request, ClaimedIdentity.from_body(given))
        user_id, anonymous_id = body.user_id or "", body.anonymous_id or ""
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
            limit_new_users(request, user_id if credential.app.settings.prove_writers else ""),
        )

    async def answer(self, request: ApiRequest) -> Reply:
        """Record the event and say which variant it is."""
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
        Malformed: no JSON, with the place and the words of a well-known parser; or beyond the limits of any body
    """
    try:
        return load_json(body, refuse_duplicates=False)
    except Malformed as error:
        place = _invalid_json_position(body)
        raise error if place is None else Malformed(error.message, detail=[place]) from None


def _invalid_json_position(body: bytes) -> dict[str, Any] | None:
    """Say where a body stops being JSON; None when that is not its fault."""
    if len(body) > _MOST_FAULTS:
        return None
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return {"loc": ["body", error.pos], "msg": str(error), "type": "value_error.jsondecode"}
    except (ValueError, RecursionError):
        return None
    return None
