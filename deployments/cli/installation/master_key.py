"""`kiosk master-key`: change the key that everything secret is sealed with, while the installation serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from cluster.admin.audit_setup import protect_audit_log
from cluster.admin.master_keys import (
    derive_manifest_keys,
    find_external_master_keys,
    manifest_keys,
    master_key_fingerprints,
    open_vault,
)
from cluster.admin.reseal import MasterKeyReseal, ResealResult
from cluster.backup_pace import Progress
from cluster.crypto import MOST_MASTER_KEYS, key_text, new_master_key, read_master_keys
from cluster.errors import Conflict, InvalidSetting
from cluster.paths import write_private
from cluster.process.artifact_access import open_artifact_store
from cluster.process.installation_identity import forget_previous_keys, switch_master_key
from cluster.records.administration import AuditRow
from cluster.store.administration.audit_chain import RESEAL
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore, StoredIdentity
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.operations.framework.principal import COMMAND_LINE

T = TypeVar("T")
app = typer.Typer(help="The master key: see it, replace it, seal everything anew.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Example[/]

  umask 077; (kiosk master-key create; cat master.key) > both.key

The file then has the new key first and the one in use after it.
"""
ADD_EPILOG = """
[bold]On one machine[/]

  kiosk down && kiosk master-key add && kiosk up
  kiosk master-key reseal       while it serves; may be repeated
  kiosk master-key status       what ends with the old key
  kiosk master-key drop

The new key seals, the old one still opens, until you drop it. On several
machines you own the file of the keys: docs/guides/master-key.md.
"""
RESEAL_EPILOG = """
[bold]Before[/]

Every process must have both keys, the new one first: two lines in the file of
KIOSK_MASTER_KEY_FILE. It ends with 1 when something is still sealed with the
old one; then restart the processes that have the keys in another order.
"""
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("create", epilog=CREATE_EPILOG)
def create() -> None:
    """Print a new master key, for a file or the secret store of a cluster. It is a secret, and not in use yet."""
    screen.print_lines(new_master_key())


@app.command("add", epilog=ADD_EPILOG)
def add() -> None:
    """Put a new master key before the one in this installation's data directory."""
    installation = Installation()
    _require_local_key(installation)
    # A running process has the old key only, and could not open what the new one seals.
    if installation.is_running or installation.leftovers:
        raise Conflict("the installation runs; end it first: `kiosk down`")
    path = installation.places.master_key
    keys = read_master_keys(path)
    if len(keys) == MOST_MASTER_KEYS:
        raise Conflict(
            f"there are {len(keys)} master keys; `kiosk master-key reseal`, then `drop`, before the next"
        )
    write_private(path, "\n".join((new_master_key(), *map(key_text, keys))) + "\n")
    screen.print_lines(
        f"{path} has a new master key, {master_key_fingerprints(installation.settings)[0]}, and the previous one.",
        "Keep a copy of the file elsewhere. Then: `kiosk up`, `kiosk master-key reseal`.",
    )


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show which keys this machine has, what is sealed with a previous one, and what ends with it."""
    installation = Installation()

    async def look(stores: OpenStores) -> tuple[StoredIdentity, ResealResult, int]:
        recorded = await IdentityStore(stores.server).read()
        with screen.show_progress("reading") as progress:
            result = await _open_reseal(installation, stores, progress).run(dry_run=True)
        return recorded, result, await _count_agents(installation, stores)

    recorded, result, agents = _run(installation, look)
    fingerprints = master_key_fingerprints(installation.settings)
    if as_json:
        screen.print_json(
            {
                "here": list(fingerprints),
                "installation": recorded.fingerprint,
                "needed": list(recorded.previous),
                "sealed_with_previous": result.to_dict(),
                "agents_of_previous": agents,
            }
        )
        return
    screen.print_lines(
        f"on this machine         {', '.join(fingerprints)} (the first seals)",
        f"of the installation     {recorded.fingerprint or 'not recorded yet'}",
        f"still needed before     {', '.join(recorded.previous) or 'none'}",
        f"sealed with a previous  {result.to_text()}",
        f"agents of a previous    {agents}, which register and sign in again when it is removed",
        *(f"opens under none        {name}" for name in result.skipped),
    )


@app.command("reseal", epilog=RESEAL_EPILOG)
def reseal(as_json: AsJson = False) -> None:
    """Seal everything with the first master key that another one sealed, while the installation serves."""
    installation = Installation()

    async def work(stores: OpenStores) -> tuple[ResealResult, StoredIdentity]:
        settings = installation.settings
        if manifest_keys(settings) != derive_manifest_keys(open_vault(settings)):
            raise InvalidSetting(
                "the processes of this machine have other keys than its master key file: start them anew, or write "
                "the file of KIOSK_MANIFEST_KEY_FILE anew with `kiosk artifacts key`"
            )
        recorded = await IdentityStore(stores.server).read()
        # The identity first: from now on a process without the new key is refused, and seals nothing with the
        # old one.
        recorded = await switch_master_key(stores, recorded, master_key_fingerprints(settings))
        with screen.show_progress("sealing") as progress:
            result = await _open_reseal(installation, stores, progress).run()
        # After an incomplete walk something still opens under the previous key only.
        if result.is_complete:
            recorded = await forget_previous_keys(stores)
        protect_audit_log(stores.audit, settings)
        verdict = await stores.audit.verify()
        await stores.audit.append(
            AuditRow(
                at=read_clock_ms(),
                user_id=COMMAND_LINE.user_id,
                username=COMMAND_LINE.username,
                way=COMMAND_LINE.way,
                operation=RESEAL,
                outcome="done",
                after={**result.to_dict(), "audit": verdict.to_dict()},
            )
        )
        return result, recorded

    result, recorded = _run(installation, work)
    if as_json:
        screen.print_json({"master_key": recorded.fingerprint, **result.to_dict()})
    else:
        screen.print_lines(
            *(f"opens under none of the keys: {name}" for name in result.skipped),
            f"sealed anew: {result.to_text()}",
        )
        if result.is_complete:
            screen.print_lines(
                f"Everything is sealed with {recorded.fingerprint}. A previous key can be removed; what ends with it: "
                "`kiosk master-key status`."
            )
    if not result.is_complete:
        screen.err().print(
            "Something is still sealed with a previous key: start again every process that has the keys in another "
            "order, or use the newest release that runs; then reseal again."
        )
        raise typer.Exit(1)


@app.command("drop")
def drop() -> None:
    """Remove the previous keys from this installation's data directory, if nothing is sealed with them."""
    installation = Installation()
    _require_local_key(installation)

    async def look(stores: OpenStores) -> bool:
        recorded = await IdentityStore(stores.server).read()
        result = await _open_reseal(installation, stores).run(dry_run=True)
        return result.is_complete and not recorded.previous

    if not _run(installation, look):
        raise Conflict("something is sealed with a previous master key: `kiosk master-key reseal` first")
    path = installation.places.master_key
    current, *previous = read_master_keys(path)
    write_private(path, key_text(current) + "\n")
    screen.print_lines(
        f"{len(previous)} previous keys removed from {path}; running processes have them until they end.",
        "Backups made before need the key of their time: keep it with them, or make new backups elsewhere.",
    )


def _require_local_key(installation: Installation) -> None:
    settings = installation.settings
    if find_external_master_keys(settings) or settings.redis_is_external:
        raise InvalidSetting(
            "this master key is yours to change, in the file or Secret that KIOSK_MASTER_KEY_FILE names or on all "
            "machines: `kiosk master-key create` prints a new one; docs/guides/master-key.md has the order"
        )


def _open_reseal(
    installation: Installation, stores: OpenStores, progress: Progress = lambda stage, done: None
) -> MasterKeyReseal:
    artifacts = open_artifact_store(installation.settings)
    return MasterKeyReseal(
        stores.access, stores.accounts, artifacts, open_vault(installation.settings), progress
    )


async def _count_agents(installation: Installation, stores: OpenStores) -> int:
    """Return how many connections of agents have a client id that a previous key signed."""
    # Imported here: every other command starts faster without it.
    from deployments.archive.oauth.client_identity.clients import read_client
    from deployments.archive.oauth.signing import OAuthSigner

    signing = OAuthSigner(open_vault(installation.settings).without_previous())
    count = 0
    for account in await stores.accounts.all():
        grants = await stores.grants.of_user(account.user_id)
        count += sum(read_client(signing, grant.grant.client_id) is None for grant in grants)
    return count


def _run(installation: Installation, work: Callable[[OpenStores], Awaitable[T]]) -> T:
    async def run() -> T:
        async with installation.open_stores() as stores:
            return await work(stores)

    return asyncio.run(run())
