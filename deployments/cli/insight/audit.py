"""`kiosk audit`: who changed what, from where, and proof that nobody touched the log."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from cluster.errors import Fault
from cluster.store.administration.audit_chain import AuditVerdict
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.access import audit_log as operations
from deployments.operations.framework.operation import Download
from deployments.operations.framework.principal import COMMAND_LINE

app = typer.Typer(help="The audit log: every change by an administrator.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk audit list                              the newest changes
  kiosk audit list --app bookshop --operation keys
  kiosk audit list --user ada --limit 1000 --json
"""
VERIFY_EPILOG = """
[bold]Examples[/]

  kiosk audit verify                      exit code 1 if a row was changed, removed or inserted
  kiosk audit verify --since-chain HASH   also if no row has a hash that was noted elsewhere
"""
EXPORT_EPILOG = """
[bold]Example[/]

  kiosk audit export > audit.jsonl
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("verify", epilog=VERIFY_EPILOG)
def verify(
    since_chain: Annotated[
        str, typer.Option(metavar="HASH", help="A chain that was noted elsewhere; the log must have it.")
    ] = "",
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept what is wrong so far; a row of the log says so.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that no row was changed, removed or inserted, also against the sealed row of this machine."""
    if accept:
        Installation().perform("audit.accept")
    verdict: AuditVerdict = Installation().perform("audit.verify", since_chain=since_chain)
    if as_json:
        screen.print_json(verdict.to_dict())
    elif verdict.is_whole:
        screen.out().print(f"The audit log is whole: {verdict.rows} rows.")
        screen.print_lines(
            f"  last row     {verdict.last_id}",
            f"  last chain   {verdict.chain}",
            f"  proven from  {verdict.proven_from or 'no row has a proof yet; start this release once'}",
            *([f"  since then   {verdict.since_rows} rows"] if since_chain else []),
        )
    if not verdict.is_whole:
        error = Fault(
            f"the audit log was tampered with or damaged at row {verdict.broken_at}: {verdict.reason}; "
            f"the {verdict.rows} rows before it are whole. If you know why: --accept"
        )
        if as_json:
            raise typer.Exit(screen.exit_code_of(error))
        raise error


@app.command("export", epilog=EXPORT_EPILOG)
def export() -> None:
    """Write all rows to standard output as JSON Lines, the oldest first."""

    async def write() -> None:
        async with Installation().open_administration() as administration:
            exported: Download = await administration.perform(COMMAND_LINE, "audit.export", {})
            async for line in exported.chunks:
                sys.stdout.write(line.decode())

    asyncio.run(write())


LISTED = {"username": "--user", "since": "", "until": ""}
add_commands(
    app, (OperationCommand("list", "audit.list", LIST_EPILOG, LISTED, defaults={"limit": 50}),), operations
)
