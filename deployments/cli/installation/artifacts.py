"""`kiosk artifacts`: the content of the artifact store and its signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cluster.admin.master_keys import manifest_key_text
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation

if TYPE_CHECKING:
    from deployments.cli.framework.cli_operations import Signatures

app = typer.Typer(help="Artifacts: signatures of manifests and key records.", no_args_is_help=True)

SIGN_EPILOG = """
[bold]Examples[/]

  kiosk artifacts sign --dry-run      show what is not signed by this installation, change nothing
  kiosk artifacts sign                sign it: only if you trust whoever wrote the artifact store and Redis

Needed after a restore from another installation, after a master key was lost, and after going back to an earlier
release.
"""
KEY_EPILOG = """
[bold]Example[/]

  kiosk artifacts key > manifest.key     for machines that train and get no master key (KIOSK_MANIFEST_KEY_FILE)

Whoever has this key can publish snapshots, and can neither read API keys nor the provider's key.
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("sign", epilog=SIGN_EPILOG)
def sign(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be signed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign manifests and key records that this installation did not sign; read first who wrote them."""
    signatures: Signatures = Installation().perform("artifacts.check" if dry_run else "artifacts.sign")
    if as_json:
        screen.print_json(signatures.to_dict())
        return
    keys = signatures.keys
    manifests = signatures.manifests
    done = "would be signed" if dry_run else "signed"
    screen.print_lines(
        *(f"{done}: {name}" for name in (*manifests.signed, *keys.signed)),
        *(f"damaged, can't be signed: {name}" for name in manifests.damaged),
        *(f"not made with this master key, can't be signed: {name}" for name in keys.refused),
        f"{len(manifests.signed)} manifests and {len(keys.signed)} key records {done}, "
        f"{manifests.valid} and {keys.valid} were signed before",
    )


@app.command("key", epilog=KEY_EPILOG)
def key() -> None:
    """Print the key that signs manifests, for machines that train without the master key. It is a secret."""
    screen.print_lines(manifest_key_text(Installation().settings))
