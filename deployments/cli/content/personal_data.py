"""`kiosk forget` and `kiosk export-user`: what is known of a person, and how all of it goes."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from cluster.clock import SystemClock, iso_ms
from cluster.errors import Invalid
from cluster.ids import new_request_id
from cluster.records.erasure import Erasure
from cluster.store.connect import OpenStores
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.operations.content.erasures import UserExport
from deployments.operations.framework.principal import COMMAND_LINE

FORGET_EPILOG = """
[bold]Examples[/]

  kiosk forget bookshop --user ada             everything, with all visitors linked to her; prints the receipt
  kiosk forget bookshop --anonymous v-81       a visitor who is linked to nobody
  echo ada | kiosk forget bookshop --user -    the id stays out of the shell's history
  kiosk forget bookshop --user ada --later     the append-only file is written anew within the hour
  kiosk forget bookshop --receipts             the newest receipts; they name nobody

Ends with 0 when nothing is left, with 1 when something is left until the time that the receipt names.
"""
EXPORT_EPILOG = """
[bold]Examples[/]

  kiosk export-user bookshop --user ada --out ada.jsonl
  kiosk export-user bookshop --anonymous v-81 | jq .place

One JSON object a line: what the file is about first, then one line for each thing that is known, with its place.
"""

AppName = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
UserId = Annotated[
    str, typer.Option("--user", metavar="ID", help="A user; - reads the id from standard input.")
]
VisitorId = Annotated[
    str, typer.Option("--anonymous", metavar="ID", help="A visitor who is linked to nobody.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def forget(
    app: AppName,
    user: UserId = "",
    anonymous: VisitorId = "",
    later: Annotated[
        bool, typer.Option("--later", help="Rewrite the append-only file within the hour, not now.")
    ] = False,
    receipt: Annotated[str, typer.Option(metavar="ID", help="Show a receipt again.")] = "",
    receipts: Annotated[bool, typer.Option("--receipts", help="List the newest receipts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget a person everywhere, and say what was where and what is left until when."""
    installation = Installation()
    if receipts:
        _list(installation.perform("users.erasures", app_id=app), as_json)
        return
    if receipt:
        erasure: Erasure = installation.perform("users.erasure", app_id=app, erasure_id=receipt)
    else:
        erasure = asyncio.run(_erase_user(installation, app, _user_id(user), anonymous, later))
    if as_json:
        screen.print_json(erasure.to_dict())
    else:
        _show(erasure)
    if erasure.left or erasure.status != "finished":
        raise typer.Exit(1)


def export_user(
    app: AppName,
    user: UserId = "",
    anonymous: VisitorId = "",
    out: Annotated[Path | None, typer.Option(help="Write into this file; else to standard output.")] = None,
) -> None:
    """Write everything that is known of a person, as JSON Lines."""
    person = {"user_id": _user_id(user), "anonymous_id": anonymous}
    export: UserExport = Installation().perform("users.export", app_id=app, **person)
    text = export.to_lines()
    if out is None:
        sys.stdout.buffer.write(text)
        return
    write_private_file(out, text)
    screen.err().print(f"{len(export.rows)} things written to {out}")


def write_private_file(path: Path, text: bytes) -> None:
    """Write a file that only its owner can read, or a device or pipe.

    Errors:
        OSError: it cannot be opened or made private; its content stays
    """
    # The mode from the first byte on: nobody else may read personal data, not even while it is written.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(handle, "wb") as file:
        # A file that existed keeps its mode; a device or a pipe must keep it.
        if stat.S_ISREG(os.fstat(handle).st_mode):
            os.fchmod(handle, 0o600)
            # Last: the file of another user, whose mode cannot be set, must keep its content.
            os.ftruncate(handle, 0)
        file.write(text)


def register_commands(line: typer.Typer) -> None:
    """Add both commands to the command line."""
    line.command("forget", epilog=FORGET_EPILOG)(forget)
    line.command("export-user", epilog=EXPORT_EPILOG)(export_user)


async def _erase_user(
    installation: Installation, app_id: str, user_id: str, anonymous_id: str, later: bool
) -> Erasure:
    from actors.intake.client import Erasures

    # before the stores are opened, which takes the lock of a stopped installation
    is_running = installation.is_running
    given = {"app_id": app_id, "user_id": user_id, "anonymous_id": anonymous_id, "later": later}
    async with installation.open_administration() as administration:
        stores = administration.services.stores
        ordered: Erasure = await administration.perform(COMMAND_LINE, "users.erase", given)
        async with _intake(installation, stores, app_id, is_running=is_running):
            with screen.err().status("forgetting"):
                return await Erasures(stores, SystemClock()).wait(ordered)


@asynccontextmanager
async def _intake(
    installation: Installation, stores: OpenStores, app_id: str, *, is_running: bool
) -> AsyncIterator[None]:
    """Carry orders out in this process while the installation is stopped; else its intake does."""
    if is_running:
        yield
        return
    from actors.intake.loop import IntakeLoop
    from actors.language.hashing_embedder import HashingEmbedder
    from cluster.admin.local_person_files import LocalPersonFiles
    from cluster.artifacts.segments import SegmentStore
    from cluster.meter import SilentMeter
    from cluster.process.artifact_access import open_artifact_store

    settings = installation.settings
    if not settings.redis_is_external:
        # Stopped replicas read no further, and would keep the change log from being cut.
        await stores.erasures.delete_followers(app_id)
    loop = IntakeLoop(
        stores,
        SegmentStore(open_artifact_store(settings)),
        HashingEmbedder(),
        SystemClock(),
        SilentMeter(),
        owner=f"forget {os.getpid()} {new_request_id()}",
        files=LocalPersonFiles(settings.data_dir),
        owns_redis=not settings.redis_is_external,
    )
    work = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        loop.stop()
        await work


def _user_id(given: str) -> str:
    if given != "-":
        return given
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise Invalid("no id came on standard input")
    return line


def _list(erasures: list[Erasure], as_json: bool) -> None:
    if as_json:
        screen.print_json({"erasures": [erasure.to_dict() for erasure in erasures]})
        return
    table = screen.build_table("erasure", "ordered", "state", "left")
    for erasure in erasures:
        table.add_row(erasure.erasure_id, iso_ms(erasure.created_at)[:19], erasure.status, str(erasure.left))
    screen.out().print(table if erasures else "Nobody was forgotten yet.")


def _show(erasure: Erasure) -> None:
    """Show a receipt within 80 columns: counts in a table, reasons below it."""
    table = screen.build_table("place", "found", "left")
    for place in erasure.places:
        table.add_row(place.place, str(place.found), str(place.left))
    out = screen.out()
    out.print(f"Erasure {erasure.erasure_id} in {erasure.app_id}: {erasure.status}")
    out.print(f"ordered {iso_ms(erasure.created_at)}, request {erasure.request_id}")
    out.print(f"subject {erasure.subject} (a keyed hash)")
    out.print(table)
    for place in erasure.places:
        if place.left:
            screen.print_lines(f"{place.place}: {place.left} left until {place.until}")
        if place.reason:
            screen.print_lines(*wrap(place.reason, 78, initial_indent="  ", subsequent_indent="  "))
    if erasure.status == "finished" and not erasure.left:
        out.print("Nothing is left.")
