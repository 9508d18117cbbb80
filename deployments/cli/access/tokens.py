"""`kiosk tokens`: personal tokens for administration over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.clock import iso_ms
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.access.tokens import DAYS, MOST_DAYS, NewToken, RevokedToken, TokenList

app = typer.Typer(help="Personal tokens: administration over HTTP.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk tokens create "nightly report" --user ada
  kiosk tokens create deploy --user ada --role editor --app bookshop --days 30
  curl -H "Authorization: Bearer kat_..." http://127.0.0.1:8000/v1/admin/me
"""
REVOKE_EPILOG = """
[bold]Example[/]

  kiosk tokens revoke tok-1f0c5d2a9b3e     refused everywhere within a second
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    user: Annotated[str, typer.Option(help="The account that it stands for.")],
    role: Annotated[str, typer.Option(help="Maximum role: viewer, analyst, editor or owner.")] = "viewer",
    apps: Annotated[
        list[str] | None,
        typer.Option("--app", help="Only this app, can be repeated; else all of the account."),
    ] = None,
    days: Annotated[int, typer.Option(help="Days until it expires.", min=1, max=MOST_DAYS)] = DAYS,
    as_json: AsJson = False,
) -> None:
    """Make a token; it allows no more than its account, whatever its role."""
    made: NewToken = Installation().perform(
        "tokens.create", name=name, username=user, role=role, apps=tuple(apps or ()), days=days
    )
    if as_json:
        screen.print_json(made.to_dict())
        return
    record = made.record
    screen.out().print(
        f"Token {record.token_id} stands for {record.username} until {iso_ms(record.expires_at)[:10]}."
    )
    screen.print_lines(f"  token  {made.text}   (shown this once)")


@app.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List the tokens of all people. Tokens are kept as hashes and can't be shown."""
    listed: TokenList = Installation().perform("tokens.list")
    if as_json:
        screen.print_json(listed.to_dict())
        return
    table = screen.build_table("user", "name", "token id", "role", "apps", "expires", droppable=("apps",))
    for token in listed.tokens:
        table.add_row(
            token.username, screen.quote_text(token.name), token.token_id, token.role, ",".join(token.apps) or "all",
            iso_ms(token.expires_at)[:10],
        )  # fmt: skip
    screen.out().print(
        table if listed.tokens else "There are no tokens yet; `kiosk tokens create` makes one."
    )


@app.command("revoke", epilog=REVOKE_EPILOG)
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="From `kiosk tokens list`.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a token for good."""
    revoked: RevokedToken = Installation().perform("tokens.revoke", token_id=token_id)
    if as_json:
        screen.print_json(revoked.to_dict())
        return
    screen.out().print(f"Token {token_id} of {revoked.record.username} is revoked.")
