"""Sends requests to an application in this process and records what it answers."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import BROWSER, StillClock
from tests.golden.answers import Recording
from tests.golden.randomness import FixedRandomness

STEP_MS = 10
"The clock moves so far with each request."


@dataclass
class Caller:
    """A client of one application; `keys` names the API keys by app and kind."""

    recording: Recording
    randomness: FixedRandomness
    family: str
    app: Any
    clock: StillClock
    keys: Mapping[tuple[str, str], str] = field(default_factory=dict)
    jar: dict[str, str] | None = None
    "Cookies of a browser; none: a program."

    async def send(
        self,
        method: str,
        target: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        key: tuple[str, str] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        what: str = "",
    ) -> Answer:
        """Send one request and record the answer."""
        label = self.recording.label(self.family, what or f"{method} {target.partition('?')[0]}")
        self.randomness.begin(f"{self.family} {label}")
        self.clock.pass_ms(STEP_MS)
        sent: dict[str, str | bytes] = {"user-agent": BROWSER, **(headers or {})}
        if key is not None:
            sent["x-api-key"] = self.keys[key]
        payload = body if json is None else jsonlib.dumps(json).encode()
        if self.jar:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        answer = await call(self._keep_cookies, method, target, headers=sent, body=payload)
        self.recording.add(self.family, label, answer.status, answer.headers, answer.body)
        return answer

    async def _keep_cookies(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, and put the cookies of the answer into the jar."""

        async def observe(message: Any) -> None:
            for name, value in message.get("headers", ()):
                if name == b"set-cookie" and self.jar is not None:
                    cookie, _, content = value.decode().partition(";")[0].partition("=")
                    self.jar[cookie] = content
            await send(message)

        await self.app(scope, receive, observe)

    async def post(self, target: str, json: Any, *, app: str = "shop", what: str = "") -> Answer:
        """Send a body with the secret key of an app."""
        return await self.send("POST", target, json=json, key=(app, "secret"), what=what)

    async def get(self, target: str, *, app: str = "shop", what: str = "") -> Answer:
        """Read with the secret key of an app."""
        return await self.send("GET", target, key=(app, "secret"), what=what)

    def silent(self) -> Caller:
        """Return a client whose answers are not kept and whose requests take no time."""
        return _Silent(Recording(), FixedRandomness(), self.family, self.app, self.clock, self.keys)


class _Silent(Caller):
    """Waits for what another client records."""

    async def send(self, method: str, target: str, **request: Any) -> Answer:
        headers = {"user-agent": BROWSER}
        if request.get("key") is not None:
            headers["x-api-key"] = self.keys[request["key"]]
        return await call(self.app, method, target, headers=headers)
