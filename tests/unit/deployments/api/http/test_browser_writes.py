"""Digests of client addresses in an app that has a publishable key alone."""

from __future__ import annotations

import hmac
from types import SimpleNamespace
from typing import Any

from deployments.api.http.browser_writes import address_pseudonym
from deployments.edge.http.request import ApiRequest
from tests.fakes.request_handler import StillClock, open_corner


async def digest_in(app: str) -> str:
    corner = await open_corner()
    for key in (await corner.stores.access.read_all()).keys.values():
        if (key.app_id, key.kind) == (app, "secret"):
            await corner.stores.access.revoke_key(key.sha256)
    await corner.keyring.refresh()
    credential = corner.keyring.find(corner.publishable(app))
    assert credential is not None
    assert not credential.secrets

    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    scope = {"method": "POST", "headers": [], "client": ("198.51.100.7", 1)}
    request = ApiRequest(scope, receive, corner.clock)
    request.credential = credential
    request.gate = SimpleNamespace(keyring=corner.keyring)
    return address_pseudonym(request)


async def test_the_key_is_derived_from_the_master_key_and_the_app() -> None:
    digests = [await digest_in(app) for app in ("shop", "shop", "other")]
    assert digests[0] == digests[1], "equal on all replicas"
    assert digests[0] != digests[2]
    period = StillClock().now_ms() // (30 * 86_400_000)
    guess = hmac.digest(b"kiosk", f"{period}\0198.51.100.7".encode(), "sha256").hex()[:16]
    assert guess not in digests
