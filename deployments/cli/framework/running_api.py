"""The REST API of the running installation, for commands whose operation writes through it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Fault, NotFound, Unavailable
from cluster.process.installation_state import InstallationState
from cluster.process.probe import send_request

WITHIN_S = 30.0


class RunningApi:
    """Calls the API over HTTP as an app, with its secret key, so that the bounds and checks of the API hold."""

    def __init__(self, state: InstallationState, keys: AppKeyAdmin) -> None:
        """Call the installation of `state`; `keys` reads the secret key of an app when a call needs it."""
        self._state = state
        self._keys = keys

    async def call(
        self, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the parsed body.

        Errors:
            NotFound: there is no such app, or it has no secret key
            Unavailable: the API does not answer
            Fault: the answer is not JSON
        """
        entries = await self._keys.keys(app_id=app_id, reveal=True)
        secret = next((entry.text for entry in entries if entry.key.kind == "secret"), "")
        if not secret:
            raise NotFound(f"the app {app_id} has no secret key; `kiosk keys rotate` makes one")
        try:
            status, answer = await asyncio.to_thread(
                send_request,
                self._state.host,
                self._state.port,
                method,
                path,
                key=secret,
                body=body,
                within_s=WITHIN_S,
            )
        except OSError as error:
            raise Unavailable(f"the API on port {self._state.port} does not answer: {error}") from error
        try:
            return status, json.loads(answer)
        except ValueError as error:
            raise Fault(f"the API answered with status {status} and no JSON") from error
