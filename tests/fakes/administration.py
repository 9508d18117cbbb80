"""The administration over stores in memory, with people in every role."""

from __future__ import annotations

from typing import Any, cast

from starlette.applications import Starlette

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.crypto import Vault, key_sha256, mint_token
from cluster.records.account import Account
from cluster.records.administration import TOKEN_PREFIX, AdminToken, AppRole
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from deployments.admin.authentication import Authenticator, SessionPrincipal
from deployments.admin.endpoint import AdminEndpointServices, build_admin_routes
from deployments.edge.http.request_log import RequestLog
from deployments.operations.open_admin import Admin, open_admin
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock

VAULT = Vault(b"v" * 32)
APPS = ("shop", "news")


def serve(admin: Admin, session: SessionPrincipal | None = None) -> Any:
    """Return the HTTP application of an administration."""
    stores, clock = admin.services.stores, admin.services.clock
    services = AdminEndpointServices(admin, Authenticator(stores, clock, session), clock, RequestLog())
    return Starlette(routes=build_admin_routes(services))


async def give_token(
    stores: Stores,
    username: str,
    *,
    role: AppRole = "owner",
    apps: tuple[str, ...] = (),
    life_ms: int = 60_000,
) -> str:
    """Create a token of an account and return its text."""
    account = await stores.accounts.get(username)
    assert account is not None
    text = mint_token(TOKEN_PREFIX)
    token = AdminToken(
        token_id=f"tok-{text[4:12]}", sha256=key_sha256(text), hint="kat_...", name="t", user_id=account.user_id,
        username=username, epoch=account.epoch, role=role, apps=apps, created_at=NOW, expires_at=NOW + life_ms,
    )  # fmt: skip
    await stores.admin_tokens.add(token, now_ms=NOW)
    return text


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


def no_artifacts() -> ArtifactStore:
    """Refuse: these tests need none."""
    raise AssertionError("no artifact store here")


def open_memory_admin(stores: Stores | None = None, clock: Clock | None = None, **more: Any) -> Admin:
    """Return the administration over stores in memory."""
    clock = clock or ManualClock()
    opened = cast("OpenStores", stores or memory_stores(clock))
    return open_admin(opened, VAULT, clock, no_artifacts, **more)


async def add_apps(stores: Stores, *names: str) -> None:
    """Create apps with their keys."""
    for name in names or APPS:
        await AppKeyAdmin(stores.access, VAULT).create_app(name, "development", NOW)


async def add_person(
    stores: Stores, username: str, *, administrator: bool = False, **roles: AppRole
) -> Account:
    """Create an account without a password that fits."""
    account = Account(
        username=username, user_id=f"usr-{username}", password="scrypt$x", created_at=NOW, roles=roles,
        role="administrator" if administrator else "reader",
    )  # fmt: skip
    assert await stores.accounts.add(account)
    return account
