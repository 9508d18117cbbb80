"""`kiosk backup` and `kiosk restore`: the whole installation on another store, and the way back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, KioskError
from deployments.cli.framework import screen
from deployments.cli.framework.installation import REDIS_S, Installation, read_clock_ms
from jobs.command_line import DefaultGroup, build_app

if TYPE_CHECKING:
    from cluster.artifacts.storage.artifact_store import ArtifactStore
    from cluster.backup.catalogue import Backup
    from cluster.backup.restoring import RestoreResult
    from cluster.backup.verification import SampleVerification
    from cluster.backup_pace import Progress
    from cluster.settings import Settings
    from cluster.store.connect import OpenStores

EPILOG = """
[bold]Examples[/]

  kiosk backup s3://backups/shop           one backup, while the installation serves
  kiosk backup /mnt/backups --pause 3      rest three times as long as it works
  kiosk backup /mnt/backups --no-verify    do not restore a sample beside after writing
  kiosk backup list s3://backups/shop
  kiosk backup verify s3://backups/shop    read everything, restore it beside, compare
  kiosk backup remove s3://backups/shop --keep 14 --yes

A later backup copies only what the target lacks. The master key is in no backup: keep it elsewhere.
"""
REMOVE_EPILOG = """
[bold]Examples[/]

  kiosk backup remove s3://backups/shop --keep 14          show what would go
  kiosk backup remove s3://backups/shop --keep 14 --yes    remove it

Each kept backup stays complete. --at then reaches back to the oldest kept backup. Verify the newest one before.
"""
RESTORE_EPILOG = """
[bold]Examples[/]

  kiosk restore s3://backups/shop                            the newest backup
  kiosk restore s3://backups/shop --backup 20260301T020000000Z-a1b2c3
  kiosk restore s3://backups/shop --at 2026-03-01T14:30Z     a time between two backups

The installation must be stopped and empty, and must have the master key of the backup. Then `kiosk up`. If a restore
ends half way, `kiosk up` refuses the installation; the next `kiosk restore` starts over.
"""

app = build_app("Back up the installation; list, verify and remove backups.", group=DefaultGroup)

Target = Annotated[str, typer.Argument(metavar="URI", help="A folder, file:///folder, s3:// or gs://.")]
Named = Annotated[str, typer.Option("--backup", metavar="ID", help="The backup; else the newest.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("URI", epilog=EPILOG)
def backup(
    uri: Target,
    pause: Annotated[
        float,
        typer.Option(
            min=0, max=100, help="Rest so many times as long as it works, for those who are served."
        ),
    ] = 1.0,
    answers: Annotated[
        int, typer.Option(min=0, max=100_000, help="Records to write down for `verify`.")
    ] = 1000,
    no_verify: Annotated[
        bool,
        typer.Option("--no-verify", help="Do not restore a sample of the backup beside after writing it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Back up Redis and the artifact store while the installation serves, and verify a sample for up to 20 seconds."""
    # Imported here: every other command starts faster without it.
    from cluster.backup.catalogue import load_backup
    from cluster.backup.creation import BackupJob, BackupResult
    from cluster.backup_pace import Pace
    from cluster.process.artifact_access import open_artifact_store
    from deployments.cli.installation.backup_verification import print_backup

    with contextlib.suppress(OSError):
        # Those who are served come first.
        os.nice(10)
    installation = Installation()
    installation.refuse_absent()
    target = _open_target(uri, installation.settings)

    async def run(progress: Progress) -> BackupResult:
        async with _open_stores(installation) as stores:
            source = open_artifact_store(installation.settings)
            pace = Pace(rest=pause, progress=progress)
            marks = _fingerprints(installation.settings)
            return await BackupJob(stores, source, target, marks, pace=pace, answers=answers).run()

    with screen.show_progress("backing up") as progress:
        result = asyncio.run(run(progress))
    written = load_backup(target, result.facts.backup_id, _fingerprints(installation.settings))
    with screen.show_progress("verifying a sample"):
        sample = None if no_verify else asyncio.run(_verify_sample(target, written, installation.settings))
    print_backup(result, sample, as_json=as_json)
    if sample is not None and not sample.is_good:
        raise typer.Exit(screen.PARTLY)


async def _verify_sample(target: ArtifactStore, backup: Backup, settings: Settings) -> SampleVerification:
    from cluster.backup.verification import SampleVerification, verify_sample
    from cluster.clock import SystemClock

    try:
        async with _scratch_installation(settings) as (stores, _):
            return await verify_sample(target, backup, stores, SystemClock())
    except KioskError as error:
        return SampleVerification(len(backup.chunks), error=error.message)


@app.command("list")
def list_backups(uri: Target, as_json: AsJson = False) -> None:
    """List the complete backups of a target, oldest first."""
    from cluster.backup.catalogue import list_backup_ids, load_backup

    settings = Installation().settings
    target = _open_target(uri, settings)
    marks = _fingerprints(settings)
    backups = [load_backup(target, backup_id, marks) for backup_id in list_backup_ids(target)]
    if as_json:
        screen.print_json({"backups": [backup.to_dict() for backup in backups]})
        return
    table = screen.build_table(
        "backup", "as of", "release", "keys", "files", "size", droppable=("release", "files")
    )
    for backup in backups:
        facts = backup.facts
        files = f"{len(facts.artifacts):,}"
        table.add_row(
            facts.backup_id, iso_ms(facts.cut_ms), facts.release, f"{facts.keys:,}", files, _mb(backup.size)
        )
    screen.out().print(table)


@app.command("remove", epilog=REMOVE_EPILOG)
def remove(
    uri: Target,
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="The newest backups that stay.")],
    yes: Annotated[bool, typer.Option("--yes", help="Remove; without it, only show what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old backups of a target, with the chunks that no kept backup needs."""
    from cluster.backup.removal import mark_target_in_use, plan_removal, remove_backups
    from cluster.ids import new_request_id

    settings = Installation().settings
    target = _open_target(uri, settings)
    marks = _fingerprints(settings)
    if yes:
        with mark_target_in_use(target, "removal", new_request_id()[-6:].lower(), read_clock_ms()):
            # Planned under the mark: a backup that began before it could need chunks that are removed.
            plan = plan_removal(target, marks, keep)
            remove_backups(target, plan)
    else:
        plan = plan_removal(target, marks, keep)
    if as_json:
        screen.print_json(
            {
                "kept": list(plan.kept),
                "removed": list(plan.removed),
                "chunks": len(plan.chunks),
                "bytes": plan.size,
                "done": yes,
            }
        )
        return
    screen.print_lines(
        *(f"keep    {backup_id}" for backup_id in plan.kept),
        *(f"remove  {backup_id}" for backup_id in plan.removed),
        f"{len(plan.chunks):,} chunks that no kept backup names, {_mb(plan.size)}",
        "Removed." if yes else "Nothing was removed yet; say --yes to remove them.",
    )


@app.command("verify")
def verify(
    uri: Target,
    backup_id: Named = "",
    answers: Annotated[
        int, typer.Option(min=0, max=100_000, help="Records and answers to compare; 0 compares none.")
    ] = 1000,
    require_answers: Annotated[
        bool, typer.Option("--require-answers", help="Fail unless answers of every app were compared.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read a backup wholly, restore it beside, and compare records with the cut and answers with the installation."""
    from cluster.backup.restoring import plan_restore
    from cluster.backup.verification import find_damage
    from deployments.cli.installation.backup_verification import (
        Verification,
        print_verification,
        restore_and_compare,
    )

    installation = Installation()
    settings = installation.settings
    target = _open_target(uri, settings)
    plan = plan_restore(target, _fingerprints(settings), backup_id=backup_id)
    with screen.show_progress("verifying") as progress:
        damaged = find_damage(target, plan.backup, progress)
        verification = Verification(plan.backup, damaged, require_answers=require_answers)
        if not verification.damaged:
            asyncio.run(
                restore_and_compare(
                    verification,
                    plan,
                    target,
                    lambda: _open_source(installation),
                    _scratch_installation(settings),
                    answers,
                    progress,
                )
            )
    print_verification(verification, as_json=as_json)
    if not verification.is_good:
        raise typer.Exit(screen.PARTLY)


def restore(
    uri: Target,
    backup_id: Named = "",
    at: Annotated[
        str, typer.Option(metavar="TIME", help="State of a time between two backups, as 2026-03-01T14:30Z.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Remove what the installation has.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --replace removes it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into this installation, which is stopped and empty, or into which a restore ended half way."""
    from cluster.admin.audit_setup import protect_audit_log
    from cluster.admin.schema import ensure_schema
    from cluster.backup.audit_position import record_restore
    from cluster.backup.restoring import RestoreJob, empty_for_restore, plan_restore
    from cluster.process.artifact_access import open_artifact_store

    installation = Installation()
    if installation.is_running:
        raise Conflict("the installation runs; end it with `kiosk down` first")
    if at and backup_id:
        raise Invalid("--at chooses the backup itself; leave out --backup")
    at_ms = _parse_time(at) if at else 0
    if replace and not yes and sys.stdin.isatty():
        typer.confirm(f"Remove everything that {installation.settings.data_dir} has?", abort=True, err=True)
    installation.end_left_redis()
    settings = installation.settings
    target = _open_target(uri, settings)
    # before the stores are opened, because that makes a new installation with a new master key
    _refuse_without_key(installation)
    plan = plan_restore(target, _fingerprints(settings), backup_id=backup_id, at_ms=at_ms)

    async def run(progress: Progress) -> RestoreResult:
        async with _open_stores(installation) as stores:
            into = open_artifact_store(settings)
            await empty_for_restore(stores, into, plan.backup.facts.backup_id, replace=replace)
            result = await RestoreJob(plan, target, stores, into, read_clock_ms(), progress).run()
            # A backup of an earlier release is migrated before anything else reads it.
            await ensure_schema(stores, read_clock_ms())
            protect_audit_log(stores.audit, settings)
            await record_restore(stores.audit, plan.backup.facts, read_clock_ms())
            return result

    with screen.show_progress("restoring") as progress:
        result = asyncio.run(run(progress))
    if as_json:
        screen.print_json(
            {
                "backup": result.backup_id,
                "as_of": iso_ms(result.as_of_ms),
                "keys": result.keys,
                "changes": result.changes,
                "artifacts": result.artifacts,
            }
        )
        return
    screen.print_lines(
        f"restored {result.backup_id}, as of {iso_ms(result.as_of_ms)}: {result.keys:,} keys, "
        f"{result.artifacts:,} artifact files, {result.changes:,} changes applied again",
        "Start it with `kiosk up`. Erase again whom you erased since: `kiosk forget`.",
    )


def _open_target(uri: str, settings: Settings) -> ArtifactStore:
    from cluster.process.artifact_access import open_artifact_store_at

    return open_artifact_store_at(uri, settings)


@asynccontextmanager
async def _open_stores(installation: Installation) -> AsyncIterator[OpenStores]:
    """Open the stores over the client that keeps the order of commands and costs the least.

    A backup copies data of any schema, and a restore may replace that of a newer release.
    """
    from cluster.process.store_connections import ADMIN_S, connect

    async with installation.open_stores(any_schema=True), connect(slow_s=ADMIN_S, is_serving=True) as stores:
        yield stores


def _refuse_without_key(installation: Installation) -> None:
    from cluster.admin.master_keys import find_external_master_keys

    path = installation.places.master_key
    if not find_external_master_keys(installation.settings) and not path.exists():
        raise Invalid(
            f"there is no master key; copy that of the backup to {path}, or give it by KIOSK_MASTER_KEY_FILE, then "
            "also to every later command"
        )


def _fingerprints(settings: Settings) -> tuple[str, ...]:
    from cluster.admin.master_keys import open_vault
    from cluster.backup.catalogue import fingerprint_of

    return tuple(map(fingerprint_of, open_vault(settings).derive_all("backup fingerprint")))


@asynccontextmanager
async def _open_source(installation: Installation) -> AsyncIterator[tuple[OpenStores, ArtifactStore]]:
    """Open the installation that was backed up."""
    from cluster.process.artifact_access import open_artifact_store

    installation.refuse_absent()
    async with _open_stores(installation) as stores:
        yield stores, open_artifact_store(installation.settings)


@asynccontextmanager
async def _scratch_installation(settings: Settings) -> AsyncIterator[tuple[OpenStores, ArtifactStore]]:
    """Start a Redis of its own with an artifact folder, both below a temporary folder."""
    from cluster.local.redis_server import RedisServer
    from cluster.paths import InstallationPaths
    from cluster.process.artifact_access import open_scratch_artifact_store
    from cluster.process.store_connections import ADMIN_S
    from cluster.store.connect import open_stores

    with tempfile.TemporaryDirectory(prefix="kiosk-verify-") as folder:
        paths = InstallationPaths.from_data_dir(Path(folder))
        paths.make()
        redis = RedisServer(paths, memory_mb=settings.redis_memory_mb)
        try:
            await asyncio.to_thread(redis.start_and_repair, REDIS_S)
            async with open_stores(redis.url, slow_s=ADMIN_S, is_serving=True) as stores:
                yield stores, open_scratch_artifact_store(Path(folder) / "artifacts")
        finally:
            await asyncio.to_thread(redis.stop)
            shutil.rmtree(paths.run_dir, ignore_errors=True)


def _parse_time(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise Invalid(f"not a time: {text!r}; write 2026-03-01T14:30Z") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
