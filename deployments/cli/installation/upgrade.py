"""`kiosk upgrade`: check whether this release can run on the stored data, and bring the data up to it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.build_info import build_digest, installed_version
from cluster.errors import KioskError
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms

if TYPE_CHECKING:
    from cluster.admin.upgrade_check import UpgradeReport

EPILOG = """
[bold]Examples[/]

  kiosk upgrade --check           read only: can this release run here, beside what runs?
  kiosk upgrade --check --json
  kiosk upgrade                   check, then apply the missing migrations

Run it with the new release before the first of its processes starts; it needs Redis only. `kiosk up` applies the
same migrations. Exit code 1: something stands in the way, and nothing was changed.
"""


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Only look; change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check whether this release can run on the stored data, and apply missing migrations."""
    # Imported here: every other command starts faster without it.
    from cluster.admin.schema import ensure_schema
    from cluster.admin.upgrade_check import check_upgrade, count_formats
    from cluster.process.artifact_access import open_artifact_store

    installation = Installation()

    async def run() -> tuple[UpgradeReport, tuple[str, ...]]:
        async with installation.open_stores(any_schema=True) as stores:
            report = await check_upgrade(stores, read_clock_ms())
            with contextlib.suppress(KioskError):  # an operator's machine may reach Redis only
                artifacts = open_artifact_store(installation.settings, verified=False)
                report = replace(report, formats=await asyncio.to_thread(count_formats, artifacts))
            if check or report.problems:
                return report, ()
            return report, await ensure_schema(stores, read_clock_ms())

    report, applied = asyncio.run(run())
    if as_json:
        screen.print_json({**report.to_dict(), "applied": list(applied)})
    else:
        screen.print_lines(*_lines(report, applied))
    if report.problems:
        raise typer.Exit(1)


def _lines(report: UpgradeReport, applied: tuple[str, ...]) -> list[str]:
    stored = report.stored
    records = report.records
    problems = report.problems
    running = ", ".join(release.label for release in report.running) or "none"
    manifests = "not readable from here" if report.formats is None else ""
    if report.formats is not None:
        manifests = ", ".join(f"{count} of format {form}" for form, count in report.formats.items()) or "none"
    return [
        f"this release: {installed_version()} build {build_digest()} (schema {report.newest})",
        f"stored data: schema {stored.number}" + (f", by {stored.release}" if stored.release else ""),
        f"releases that run: {running}",
        f"records read: {records.read.total()}",
        *(
            f"with fields of a newer release, kept: {n} of {noun}"
            for noun, n in sorted((+records.extended).items())
        ),
        *(f"broken, go to the quarantine: {n} of {noun}" for noun, n in sorted(records.broken.items())),
        f"manifests: {manifests}",
        *(
            f"migration {step.number}: {step.name}" + (" (applied)" if step.name in applied else "")
            for step in report.pending
        ),
        *(f"problem: {problem}" for problem in problems),
        "This release can't run here yet." if problems else "This release can run here, beside what runs.",
    ]
