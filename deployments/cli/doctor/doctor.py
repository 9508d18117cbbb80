"""`kiosk doctor`: what people get wrong, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from cluster.admin.accounts import Accounts
from cluster.admin.key_admin import Keeping
from cluster.errors import Conflict, Invalid, Unavailable
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.doctor.checks import examine
from deployments.cli.doctor.finding import Finding
from deployments.cli.doctor.mcp_check import Walk
from deployments.cli.installation import Installation, now_ms

EPILOG = """
[bold]Examples[/]

  kiosk doctor
  kiosk doctor --json
  kiosk doctor mcp                                      the way an agent goes: sign-in, search, article
  kiosk doctor mcp --url https://news.example.com       through the proxy in front

Without a part it works on a running installation and on a stopped one. Ends with 1 when something is bad.
"""
VISITOR = "kiosk-doctor"
"The account `kiosk doctor mcp` signs in with; locked but for the minute it is needed."
_STYLES = {"ok": "green", "warning": "yellow", "bad": "bold red"}


def doctor(
    part: Annotated[
        str, typer.Argument(help="mcp: walk the archive as a client; default: the installation.")
    ] = "",
    url: Annotated[str, typer.Option(help="mcp: where clients come in; default: KIOSK_PUBLIC_URL.")] = "",
    username: Annotated[
        str, typer.Option(help="mcp: sign in as; its password comes on standard input.")
    ] = "",
    question: Annotated[str, typer.Option(help="mcp: what to ask.")] = "What happened lately?",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check versions, files, disk, Redis, Ray, HAProxy, limits and the clock; or walk the archive as a client."""
    installation = Installation()
    screen.tell_in_vain(installation.in_vain)
    if part == "mcp":
        title, findings = _walk(installation, url, username, question)
    elif part:
        raise Invalid(f"there is nothing called {part!r} to check; leave it out, or say mcp")
    else:
        title, findings = f"Installation in {installation.places.data_dir}", examine(installation)
    well = not any(finding.level == "bad" for finding in findings)
    if as_json:
        screen.tell_json({"ok": well, "findings": [finding.told() for finding in findings]})
    else:
        table = screen.table("check", "", "", title=title)
        for finding in findings:
            words = finding.words if not finding.advice else f"{finding.words}\n→ {finding.advice}"
            table.add_row(finding.check, screen.marked(finding.level, _STYLES[finding.level]), words)
        screen.out().print(table)
    if not well:
        raise typer.Exit(1)


def _walk(installation: Installation, url: str, username: str, question: str) -> tuple[str, list[Finding]]:
    state = installation.state
    base = (url or installation.settings.public_url or (state.api_url if state else "")).rstrip("/")
    base = base.removesuffix("/mcp")
    if not base:
        raise Unavailable("the installation does not run; `kiosk up` starts it")
    if username:
        walk = Walk(base, username, sys.stdin.readline().rstrip("\n"), question)
        return f"Archive at {walk.mcp}", list(walk.findings())
    with _visitor(installation) as password:
        walk = Walk(base, VISITOR, password, question)
        return f"Archive at {walk.mcp}", list(walk.findings())


@contextmanager
def _visitor(installation: Installation) -> Iterator[str]:
    """Open an account for as long as it takes; gives its password."""

    async def open_up(keeping: Keeping, stores: OpenStores) -> str:
        people = Accounts(stores.accounts, stores.grants)
        try:
            return (await people.create(VISITOR, "reader", "", now_ms()))[1]
        except Conflict:
            await people.unlock(VISITOR)
            return await people.set_password(VISITOR, "", now_ms())

    async def lock(keeping: Keeping, stores: OpenStores) -> None:
        await Accounts(stores.accounts, stores.grants).lock(VISITOR, now_ms())

    password = installation.administer(open_up)
    try:
        yield password
    finally:
        installation.administer(lock)
