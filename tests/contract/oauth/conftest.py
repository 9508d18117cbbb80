"""One archive, a person with a browser, and a client application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from starlette.applications import Starlette

from cluster.store.stores import Stores
from deployments.archive.oauth.services import OAuthServices
from tests.fakes.archive_oauth import (
    Person,
    Program,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
)
from tests.suites.manual_clock import ManualClock


@dataclass
class Scene:
    """Everything a test of OAuth needs."""

    clock: ManualClock
    services: OAuthServices
    app: Starlette
    http: httpx.AsyncClient
    "A program's connection: no cookies."
    person: Person
    program: Program

    async def consent(self, **asks: str | None) -> httpx.Response:
        """Lead the person to the consent page."""
        page = await self.person.open("/oauth/authorize/archive", **self.program.asks(**asks))
        if 'name="password"' in page.text:
            page = await self.person.sign_in()
        assert page.status_code == 200, page.text
        return page

    async def code(self, **asks: str | None) -> str:
        """Get a code the way people do."""
        await self.consent(**asks)
        return answer_of(await self.person.press("allow"))["code"]

    async def tokens(self) -> dict[str, str]:
        """Get tokens the way programs do."""
        answer = await self.program.redeem(await self.code())
        assert answer.status_code == 200, answer.text
        tokens: dict[str, str] = answer.json()
        return tokens

    async def heard(self) -> None:
        """Let the replica hear of revocations, as it does by itself four times a second."""
        await self.services.access_tokens.refresh()


@pytest.fixture
async def scene(memory_stores: Stores) -> AsyncIterator[Scene]:
    """A fresh archive with one reader and one registered client."""
    clock = ManualClock()
    services = oauth_services(memory_stores, clock)
    await memory_stores.accounts.add(an_account())
    app = app_over(services)
    async with http_over(app) as http, http_over(app) as browser:
        program = Program(http)
        await program.register()
        yield Scene(clock, services, app, http, Person(browser), program)
