"""The installation a command is about: its settings, whether it runs, and its stores either way."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, TypeVar

import psutil

from actors.models.loading.allowed_learners import ALLOWED
from cluster.admin.allowed_learners import allowed_learners
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.admin.audit_setup import protect_audit_log
from cluster.admin.master_keys import ensure_master_key, open_vault
from cluster.admin.schema import check_schema
from cluster.clock import SystemClock
from cluster.errors import Conflict, Fault, Unavailable
from cluster.local.redis_server import RedisServer
from cluster.paths import InstallationPaths
from cluster.process.artifact_access import open_artifact_store
from cluster.process.disk_guard import DiskGuard
from cluster.process.installation_identity_check import prepare_master_key
from cluster.process.installation_processes import end_processes, list_processes
from cluster.process.installation_state import (
    InstallationLock,
    InstallationState,
    find_lock_holder,
    load_state,
)
from cluster.process.start_progress import StallTimer
from cluster.process.store_connections import ADMIN_S, connect
from cluster.records.apps import App
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import find_differing
from cluster.store.installation.replica_memory import ReplicaMemory, ReplicaMemoryStore
from cluster.store.stores import Stores
from deployments.cli.framework import screen
from deployments.operations.framework.operation import Operation
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.principal import COMMAND_LINE

T = TypeVar("T")
REDIS_S = 120.0
_REDIS_NAMES = ("redis-server", "valkey-server")
KILLED = "the supervisor was killed; {} processes of it still run; `kiosk up` sets it right"
BUSY = "the installation is being started, stopped or worked on; try again in a moment"


class Installation:
    """One installation as commands see it."""

    def __init__(self, settings: Settings | None = None) -> None:
        """Look at an installation; without `settings` by those it runs with, else by those of this shell."""
        shell_settings = Settings() if settings is None else settings
        self.places = InstallationPaths.from_data_dir(shell_settings.data_dir)
        state = self.state
        self.settings = shell_settings
        self.in_vain = list[str]()
        if settings is None and state is not None:
            self.settings, self.in_vain = shell_settings.replaced_by(state.settings)
        ALLOWED.set_source(partial(allowed_learners, self.settings))

    @property
    def is_running(self) -> bool:
        """Does somebody keep it alive?"""
        return find_lock_holder(self.places) != 0

    @property
    def state(self) -> InstallationState | None:
        """What its supervisor said last; None while it does not run."""
        return load_state(self.places) if self.is_running else None

    @property
    def leftovers(self) -> list[psutil.Process]:
        """List what still runs of an installation whose supervisor was killed.

        Cost: looks at every process of the machine, unless the installation runs.
        """
        return [] if self.is_running else list_processes(self.places)

    @property
    def not_running_reason(self) -> str:
        """Say in what way it does not run, and what to do."""
        left = len(self.leftovers)
        if left:
            return KILLED.format(left)
        return "Kiosk does not run; start it with `kiosk up`"

    def refuse_full_disk(self) -> None:
        """Refuse to write where the installation itself would.

        Errors:
            Unavailable: the disk is over the limit
        """
        reason = DiskGuard(self.places.data_dir, self.settings.disk_limit, SystemClock()).refusal_reason()
        if reason:
            raise Unavailable(f"{reason} KIOSK_DISK_LIMIT is {self.settings.disk_limit:.0%}.")

    @property
    def is_absent(self) -> bool:
        """Was it never started?"""
        redis_dir = self.places.redis_dir
        has_data = redis_dir.is_dir() and any(redis_dir.iterdir())
        return not (self.is_running or self.settings.redis_is_external or has_data)

    def refuse_absent(self) -> None:
        """Refuse to work on an installation that was never started.

        Errors:
            Unavailable: there is none in the data directory
        """
        if self.is_absent:
            raise Unavailable(
                f"there is no installation in {self.places.data_dir} yet; start it with `kiosk up` first"
            )

    def end_leftovers(self) -> int:
        """End what a killed supervisor left behind, and nothing while another process works on the installation.

        Errors:
            Fault: a process can't be ended
        """
        if not self.leftovers:
            return 0
        lock = InstallationLock(self.places.lock)
        if not lock.acquire():
            return 0
        try:
            return self.stop_processes()
        finally:
            lock.release()

    def end_left_redis(self) -> None:
        """End the Redis of a command that was killed while it worked on the stopped installation."""
        # Any other process shows that a supervisor was killed, which `kiosk up` and `kiosk down` clear up.
        if all(process.name() in _REDIS_NAMES for process in self.leftovers):
            self.end_leftovers()

    def stop_processes(self) -> int:
        """End all its processes, remove what goes away with them, and return how many there were.

        Errors:
            Fault: a process can't be ended
        """
        places = self.places
        processes = list_processes(places)
        left = [process.pid for process in end_processes(processes, 3.0)]
        if left:
            raise Fault(f"these processes can't be ended: {left}; end them by hand")
        shutil.rmtree(places.run_dir, ignore_errors=True)
        for path in (places.state, places.redis_url, places.haproxy_wrapper, places.haproxy_options):
            path.unlink(missing_ok=True)
        return len(processes)

    def wait_until_ready(self, stalled_s: float, on_stage: Callable[[float, str], None]) -> InstallationState:
        """Wait until it is ready or has failed, as long as it makes progress; each stage is handed over once.

        Errors:
            Unavailable: nothing moved for `stalled_s`, or the supervisor ended
        """
        patience = StallTimer(stalled_s)
        shown = 0
        while not patience.is_over:
            state = load_state(self.places)
            if state is not None:
                patience.record((state.phase, state.message))
                for after_s, message in state.stages[shown:]:
                    on_stage(after_s, message)
                shown = len(state.stages)
                if state.phase in ("ready", "failed"):
                    return state
                # A supervisor that died reports no failure any more.
                if not self.is_running:
                    raise Unavailable(f"the start ended early; see {self.places.supervisor_log}")
            time.sleep(0.05)
        raise Unavailable(f"no progress for {stalled_s:.0f} s; see {self.places.supervisor_log}")

    def administer(self, work: Callable[[AppKeyAdmin, OpenStores], Awaitable[T]]) -> T:
        """Do something to apps and keys, whether the installation runs or not."""

        async def run() -> T:
            async with self.open_stores() as stores:
                return await work(AppKeyAdmin(stores.access, open_vault(self.settings)), stores)

        return asyncio.run(run())

    def perform(
        self, name: str, operations: Mapping[str, Operation[Any, Any]] | None = None, /, **arguments: Any
    ) -> Any:
        """Perform an operation of the administration as the command line, and return its result.

        Whether the installation runs or not. A change leaves a row in the audit log. An operation that is not among
        `operations` has all modules imported first.

        Errors:
            KioskError: as `Administration.perform`, or the stores can't be opened
        """

        async def run() -> Any:
            few = operations if operations is not None and name in operations else None
            async with self.open_administration(operations=few) as administration:
                return await administration.perform(COMMAND_LINE, name, arguments)

        return asyncio.run(run())

    @asynccontextmanager
    async def open_administration(
        self,
        *,
        operations: Mapping[str, Operation[Any, Any]] | None = None,
        training_owner: str = "",
        training_code: str = "",
    ) -> AsyncIterator[Administration[Any]]:
        """Open the administration over the stores of the installation, whether it runs or not.

        By default with all operations: importing them takes half a second.

        A process that trains what it orders, or ships code for it, names itself by the other arguments.

        Errors:
            KioskError: the stores can't be opened
        """
        async with self.open_stores() as stores:
            # Every use case of the installation: commands that need none of them start without.
            from deployments.cli.framework.running_api import RunningApi
            from deployments.operations.framework.services import AdminConfig
            from deployments.operations.open_admin import open_admin

            if operations is None:
                from deployments.cli.framework.cli_operations import build_server_operations

                operations = build_server_operations(self.settings)
            config = AdminConfig(
                archive_app=self.settings.archive_app,
                data_dir=self.places.data_dir,
                public_url=self.settings.public_url,
            )
            artifacts = cache(partial(open_artifact_store, self.settings))
            vault = protect_audit_log(stores.audit, self.settings)
            clock = SystemClock()
            state = self.state
            api = RunningApi(state, AppKeyAdmin(stores.access, vault)) if state is not None else None
            yield open_admin(
                stores,
                vault,
                clock,
                artifacts,
                config=config,
                api=api,
                training_owner=training_owner,
                training_code=training_code,
                operations=operations,
            )

    def information(self, section: str) -> dict[str, str]:
        """Read what Redis says of itself."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> dict[str, str]:
            return await stores.info(section)

        return self.administer(read)

    def list_apps(self) -> list[App]:
        """List the apps with their settings."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> list[App]:
            return await keeping.apps()

        return self.administer(read)

    def count_waiting_batches(self) -> int:
        """Count accepted uploads that were not applied yet, over all apps."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> int:
            depths = [await stores.intake.depth(app.app_id) for app in await keeping.apps()]
            return sum(depths)

        return self.administer(read)

    def read_app_memory(self) -> list[ReplicaMemory]:
        """Return what the loaded apps of each API replica take of its memory budget."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> list[ReplicaMemory]:
            return await ReplicaMemoryStore(stores.server).read(read_clock_ms())

        return self.administer(read)

    def read_app_storage(self) -> list[tuple[App, int]]:
        """Return the apps with their measured bytes in the artifact store."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> list[tuple[App, int]]:
            return [(app, await stores.usage.stored_bytes(app.app_id)) for app in await keeping.apps()]

        return self.administer(read)

    def list_differing_replicas(self) -> dict[str, list[str]]:
        """Return the replicas that hold other states than another one at the same offset, by app."""

        async def read(keeping: AppKeyAdmin, stores: OpenStores) -> dict[str, list[str]]:
            differing = {}
            for app in await keeping.apps():
                followers = await stores.changes.list_followers(app.app_id)
                differing[app.app_id] = find_differing(followers, read_clock_ms())
            return {app_id: names for app_id, names in differing.items() if names}

        return self.administer(read)

    @asynccontextmanager
    async def open_stores(
        self, *, matching: bool = True, any_schema: bool = False
    ) -> AsyncIterator[OpenStores]:
        """Open the stores; while the installation is stopped its Redis is started for as long as it takes.

        Without `matching` the master key may be missing or another one. With `any_schema` the caller checks the
        schema of the stored data itself.

        Errors:
            InvalidSetting: the master key is not that of the installation
            NewerRelease: a newer release changed the stored data in a way that this one can't read
            Conflict: another command is working on the stopped installation
            Unavailable: processes of a killed supervisor still run, or Redis does not answer
        """
        if self.is_running or self.settings.redis_is_external:
            # Read afresh: a start may have left another address since this object was made.
            settings = Settings()
            if settings.redis_url is None:
                raise Conflict(BUSY)
            async with connect(settings, slow_s=ADMIN_S) as stores:
                await _check(stores, settings, matching, any_schema)
                yield stores
            return
        if left := len(self.leftovers):
            # One of them is a Redis on the same files.
            raise Unavailable(KILLED.format(left))
        self.places.make()
        lock = InstallationLock(self.places.lock)
        if not lock.acquire():
            raise Conflict(BUSY)
        try:
            ensure_master_key(self.settings)
            redis = RedisServer(self.places, memory_mb=self.settings.redis_memory_mb)
            try:
                redis.start_and_repair(REDIS_S)
                async with connect(Settings(), slow_s=ADMIN_S) as stores:
                    await _check(stores, self.settings, matching, any_schema)
                    yield stores
            finally:
                redis.stop()
                self.places.redis_url.unlink(missing_ok=True)
        finally:
            # Before the lock is released, after which another command may make this folder anew.
            shutil.rmtree(self.places.run_dir, ignore_errors=True)
            lock.release()

    async def compact_new_data(self, stores: Stores, app_id: str) -> None:
        """Wait until accepted data of an app is compacted; print progress, and in the end what is missing.

        A stopped installation has no intake that could compact, so there this only prints what is missing.
        """
        from jobs.refresh.runs.uncompacted_data import COMPACTION_STALL_S, wait_for_compaction

        has_intake = self.is_running or self.settings.redis_is_external
        with screen.err().status("looking for new data") as status:
            missing = await wait_for_compaction(
                stores, app_id, status.update, stall_s=COMPACTION_STALL_S if has_intake else 0.0
            )
        if missing:
            screen.err().print(missing)


async def _check(stores: OpenStores, settings: Settings, matching: bool, any_schema: bool) -> None:
    if not any_schema:
        await check_schema(stores)
    if matching:
        await prepare_master_key(stores, settings)


def read_clock_ms() -> int:
    """Read the clock."""
    return SystemClock().now_ms()
