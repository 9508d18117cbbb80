"""The ways into the interface that the scenarios are played over."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

import httpx

from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import Corner

URL = os.environ.get("KIOSK_CONTRACT_URL", "")
"Base URL of a live server; its apps' keys are in KIOSK_CONTRACT_KEYS as {app: {secret, publishable}}."


class Way(Protocol):
    """A way into the interface."""

    live: bool

    def key(self, app: str, kind: str) -> str: ...

    def now_s(self) -> int: ...

    async def send(
        self, method: str, target: str, headers: Mapping[str, str | bytes], body: bytes | None
    ) -> Answer: ...

    async def settle(self, app: str, task_id: str) -> None: ...


class InProcess:
    """The application in this process, on memory stores."""

    live = False

    def __init__(self, corner: Corner, app: Any) -> None:
        self._corner = corner
        self._app = app

    def key(self, app: str, kind: str) -> str:
        """Find a key."""
        return self._corner.keys[app, kind]

    def now_s(self) -> int:
        """The clock tokens are checked by."""
        return int(self._corner.clock.now_ms() // 1000)

    async def send(
        self, method: str, target: str, headers: Mapping[str, str | bytes], body: bytes | None
    ) -> Answer:
        """Send a request."""
        return await call(self._app, method, target, headers=headers, body=body)

    async def settle(self, app: str, task_id: str) -> None:
        """Apply what was accepted."""
        await self._corner.apply(app)


class Live:
    """A running server."""

    live = True

    def __init__(self, client: httpx.AsyncClient, keys: dict[str, dict[str, str]]) -> None:
        self._client = client
        self._keys = keys

    def key(self, app: str, kind: str) -> str:
        """Find a key."""
        return self._keys[app][kind]

    def now_s(self) -> int:
        """The clock tokens are checked by."""
        return int(time.time())

    async def send(
        self, method: str, target: str, headers: Mapping[str, str | bytes], body: bytes | None
    ) -> Answer:
        """Send a request with the raw target as it is."""
        url = self._client.base_url.copy_with(raw_path=target.encode())
        reply = await self._client.request(method, url, headers=dict(headers), content=body)  # type: ignore[arg-type]
        names = tuple(name for name, _ in reply.headers.multi_items())
        return Answer(reply.status_code, dict(reply.headers), reply.content, names)

    async def settle(self, app: str, task_id: str) -> None:
        """Wait until a task is done."""
        headers = {"X-API-KEY": self.key(app, "secret")}
        for _ in range(200):
            for noun in ("users", "products"):
                reply = await self._client.get(f"/v1/{noun}/_status/{task_id}", headers=headers)
                if reply.status_code == 200 and reply.json()["code"] != 202:
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"task {task_id} did not end within 10 s")
