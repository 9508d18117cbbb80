"""`kiosk archive`: what a publisher hands to others about the archive."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated

import typer

from cluster.addresses.origin import is_loopback, parse_origin
from cluster.build_info import installed_version
from cluster.errors import Invalid
from deployments.archive.discovery_pages import build_server_json
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.access import archive_terms, archives

_APP = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
app = typer.Typer(help="The archive for agents, to others.", no_args_is_help=True)

OPEN_EPILOG = """
[bold]Examples[/]

  kiosk archive open sports --title "Sports Archive" --languages en,de --licence "CC BY 4.0"
  kiosk archive open sports --no-members-only          every account may connect agents

Agents connect to https://your.host/mcp/sports. The default archive at /mcp stays.
"""
TERMS_EPILOG = """
[bold]Examples[/]

  kiosk archive set-terms news --permits search,ai-input --payment attribution --holder "The Gazette"
  kiosk archive set-terms news --licence "Agency" --prohibits ai-all --paths /agency/
  kiosk archive terms news                             the addresses, and lines for robots.txt

An option that is left out keeps its value.
"""
EPILOG = """
[bold]Examples[/]

  kiosk archive server-json > server.json
  kiosk archive server-json --name com.example/archive
  kiosk archive server-json --app sports --title "Sports Archive"

The file is for the MCP Registry (mcp-publisher); the registry asks for a proof that the domain of the name is yours.
"""

COMMANDS = (
    OperationCommand("open", "archive.open", OPEN_EPILOG),
    OperationCommand("show", "archive.show"),
    OperationCommand("close", "archive.close"),
    OperationCommand("rotate-key", "archive.rotate_key"),
    OperationCommand("remove-key", "archive.remove_key"),
    OperationCommand("terms", "archive.terms"),
    OperationCommand("set-terms", "archive.set_terms", TERMS_EPILOG),
    OperationCommand("remove-terms", "archive.remove_terms"),
)
add_commands(app, COMMANDS, archives, archive_terms)


@app.command("server-json", epilog=EPILOG)
def server_json(
    url: Annotated[str, typer.Option(help="Public origin; default: KIOSK_PUBLIC_URL.")] = "",
    name: Annotated[
        str,
        typer.Option(
            help="Name in the registry: a reversed domain, a slash, a word; default: from the origin."
        ),
    ] = "",
    app_id: Annotated[
        str, typer.Option("--app", help="App of a named archive; default: the default archive.")
    ] = "",
    title: Annotated[str, typer.Option(help="Title; default: KIOSK_ARCHIVE_TITLE, or the app.")] = "",
) -> None:
    """Print the file `server.json` by which the MCP Registry lists this archive."""
    if app_id and not _APP.fullmatch(app_id):
        raise Invalid(f"{app_id[:64]!r} is no name of an app")
    settings = Installation().settings
    origin = parse_origin(url, "--url") if url else settings.public_url
    if not origin or is_loopback(origin.partition("://")[2]):
        raise Invalid("the registry lists public servers only; set KIOSK_PUBLIC_URL or say --url https://...")
    shown = title or app_id or settings.archive_title
    document = build_server_json(origin, shown, installed_version(), name, archive_id=app_id)
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
