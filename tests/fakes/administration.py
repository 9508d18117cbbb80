"""The administration over stores in memory, with people in every role."""

from __future__ import annotations

from typing import Any, cast

from cluster.admin.key_admin import KeyAdmin
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.records.account import Account
from cluster.records.administration import AppRole
from cluster.secrecy import Vault
from cluster.store.connect import OpenStores
from cluster.store.ports.stores import Stores
from deployments.operations.open_admin import Admin, open_admin
from tests.fakes.stores.memory import memory_stores
from tests.suites.doing import NOW
from tests.suites.manual_clock import ManualClock

VAULT = Vault(b"v" * 32)
APPS = ("shop", "news")


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
        await KeyAdmin(stores.access, VAULT).create_app(name, "development", NOW)


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
