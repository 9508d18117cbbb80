"""`kiosk quarantine`: what was set aside, why and when; put through the intake again, or dropped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from actors.intake.quarantine_replay import ReplayResult
from cluster.errors import Invalid, NotFound, ReadOnly
from cluster.records.intake import QuarantineEntry
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.content import quarantine as operations
from deployments.operations.content.quarantine import (
    EntryList,
    read_entries,
    select_entries,
)
from deployments.operations.framework.principal import COMMAND_LINE

app = typer.Typer(help="What was set aside: list, show, replay, drop.", no_args_is_help=True)

NOT_RUNNING = 3
EPILOG = """
Set aside are: records whose checksum does not match, uploads that could not be applied, damaged entries of the
change log, and rows that `kiosk ingest` refused (those below the data directory). @installation in place of APP
means damaged apps, keys, accounts and registrations.

[bold]Examples[/]

  kiosk quarantine list bookshop                      newest first
  kiosk quarantine list bookshop --kind row --json
  kiosk quarantine show bookshop 1795355062000-0      the whole record and why it is here
  kiosk quarantine replay bookshop 1795355062000-0    validate it and give it to the intake again
  kiosk quarantine replay bookshop --all              all that can be replayed
  kiosk quarantine drop bookshop --all --kind change --yes

Ends with 0 when everything was done, 1 when a part was not, 2 for wrong use, 3 when a replay finds no running
installation.
"""
REPLAY_EPILOG = """
A replay validates as an upload does, and waits until the intake has applied it; then the entry goes. What stands in
the store stays, unless --overwrite is given. What has a wrong checksum is replayed with --damaged only: look at it
first with `kiosk quarantine show`.

[bold]Examples[/]

  kiosk quarantine replay bookshop 1795355062000-0 1795355062000-1
  kiosk quarantine replay bookshop --all --kind row
  kiosk quarantine replay bookshop 1795355062000-0 --damaged --overwrite
"""

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app, or @installation.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Entries, as `list` names them.")]
Every = Annotated[bool, typer.Option("--all", help="All entries (of --kind).")]
Kind = Annotated[str, typer.Option(help="Only record, batch, change, erasure or row.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
_ALL = 1_000_000
"Entries that a command reads at most."


@app.command("replay", epilog=REPLAY_EPILOG)
def replay(
    name: AppName,
    entry_ids: Ids = None,
    every: Every = False,
    kind: Kind = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands in the store.")] = False,
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Also what has a wrong checksum; look at it first.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Validate entries and give them to the intake again; what was applied leaves the quarantine."""
    installation = Installation()
    with _exit_codes(as_json):
        if not installation.is_running and not installation.settings.redis_is_external:
            screen.err().print("Kiosk does not run, so nothing would be applied; start it with `kiosk up`.")
            raise typer.Exit(NOT_RUNNING)
        how = {"overwrite": overwrite, "damaged": damaged}
        results = asyncio.run(_replay(installation, name, entry_ids or [], every, kind, **how))
    counts = Counter(result.status for _, result in results)
    if as_json:
        rows = [
            {"id": entry.entry_id, "status": result.status, "reason": result.reason}
            for entry, result in results
        ]
        screen.print_json(
            {"app": name, "replayed": counts["replayed"], "entries": len(results), "results": rows}
        )
    else:
        for entry, result in results:
            if result.status != "replayed":
                screen.out().print(screen.quote_text(f"{entry.entry_id}: {result.status}: {result.reason}"))
        screen.out().print(f"{counts['replayed']:,} of {len(results):,} replayed.")
    if counts["replayed"] < len(results):
        raise typer.Exit(1)


@app.command("drop")
def drop(
    name: AppName,
    entry_ids: Ids = None,
    every: Every = False,
    kind: Kind = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove entries for good, after a confirmation."""
    installation = Installation()
    with _exit_codes(as_json):
        chosen = select_entries(_read(installation, name, kind), entry_ids or [], every=every)
        if chosen and not yes and not _is_confirmed(chosen):
            raise Invalid("nothing was dropped; confirm, or say --yes")
        if chosen:
            ids = [entry.entry_id for entry in chosen]
            installation.perform("quarantine.drop", app_id=name, entry_ids=ids)
    if as_json:
        screen.print_json({"app": name, "dropped": len(chosen)})
    else:
        screen.out().print(f"{len(chosen):,} dropped.")


async def _replay(
    installation: Installation, name: str, entry_ids: Sequence[str], every: bool, kind: str, **how: bool
) -> list[tuple[QuarantineEntry, ReplayResult]]:
    """Replay the entries one after the other; each leaves the quarantine as soon as it is applied."""
    async with installation.open_administration() as administration:

        async def perform(operation: str, **arguments: Any) -> Any:
            return await administration.perform(COMMAND_LINE, operation, {"app_id": name, **arguments})

        entries = await read_entries(administration.services, name, kind)
        chosen = select_entries(entries, entry_ids, every=every)
        done: list[tuple[QuarantineEntry, ReplayResult]] = []
        if not chosen:
            await perform("quarantine.replay", every=True, kind=kind)
        for entry in chosen:
            with screen.err().status(f"replaying {entry.entry_id}"):
                report = await perform("quarantine.replay", entry_ids=[entry.entry_id], **how)
            done += report.results
        return done


def _read(installation: Installation, name: str, kind: str = "") -> list[QuarantineEntry]:
    entries: EntryList = installation.perform("quarantine.list", app_id=name, kind=kind, limit=_ALL)
    return list(entries.newest)


def _is_confirmed(entries: Sequence[QuarantineEntry]) -> bool:
    counts = Counter(entry.kind for entry in entries)
    summary = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))
    try:
        return typer.confirm(f"Drop for good: {summary}?", err=True)
    except typer.Abort:
        return False


@contextmanager
def _exit_codes(as_json: bool) -> Iterator[None]:
    """Turn wrong use into exit code 2, and a rule that refuses into 1; the command line tells other errors."""
    try:
        yield
    except (Invalid, NotFound) as error:
        screen.print_error(error, as_json=as_json)
        raise typer.Exit(1 if isinstance(error, ReadOnly) else 2) from error


COMMANDS = (
    OperationCommand("list", "quarantine.list", EPILOG),
    OperationCommand("show", "quarantine.get", options={"entry_id": "ID"}),
)
add_commands(app, COMMANDS, operations, names_app=False)
