"""`kiosk doctor`: what people get wrong, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cluster.admin.accounts import AccountAdmin
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.clock import SystemClock
from cluster.errors import Conflict, Invalid, KioskError, Unavailable
from cluster.records.archive.named_archive import NamedArchive, why_left_out
from cluster.store.connect import OpenStores
from deployments.cli.doctor import cluster_checks, machine_checks, running_checks, security_checks
from deployments.cli.doctor.archive_check import ArchiveCheck
from deployments.cli.doctor.mcp_check import McpCheck
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.operations.access.archives import list_owned_apps
from deployments.operations.insight.installation_checks import (
    Finding,
    check_app_memory,
    check_app_storage,
    check_disk,
)

EPILOG = """
[bold]Examples[/]

  kiosk doctor
  kiosk doctor --json
  kiosk doctor --url http://10.0.0.1:8000               with KIOSK_REDIS_URL: a cluster, from any machine
  kiosk doctor mcp                                      the way an agent goes: sign-in, search, article
  kiosk doctor mcp --url https://news.example.com       through the proxy in front
  kiosk doctor archive --url https://news.example.com   the same in both eras, and every document
  kiosk doctor archive --app sports                     a named archive

Without a part it works on a running installation and on a stopped one. Ends with 1 when something is bad.
"""
VISITOR = "kiosk-doctor"
"The account `kiosk doctor mcp` signs in with; locked but for the minute it is needed."
WALKS: dict[str, type[McpCheck]] = {"mcp": McpCheck, "archive": ArchiveCheck}
STYLES = {"ok": "green", "warning": "yellow", "bad": "bold red"}


def doctor(
    part: Annotated[
        str,
        typer.Argument(
            help="mcp: walk the archive as a client; archive: in both eras; default: the installation."
        ),
    ] = "",
    url: Annotated[
        str,
        typer.Option(
            help="Base URL of the API to ask; mcp, archive: where clients come in, else KIOSK_PUBLIC_URL."
        ),
    ] = "",
    username: Annotated[
        str, typer.Option(help="mcp, archive: sign in as; its password comes on standard input.")
    ] = "",
    question: Annotated[str, typer.Option(help="mcp, archive: what to ask.")] = "What happened lately?",
    app_id: Annotated[
        str, typer.Option("--app", help="mcp, archive: app of a named archive; default: the default archive.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check versions, files, disk, Redis, Ray, HAProxy, limits and the clock; or walk the archive as a client."""
    installation = Installation()
    screen.print_ignored_settings(installation.in_vain)
    if part in WALKS:
        title, findings = _check_mcp(WALKS[part], installation, url, username, question, app_id)
    elif part:
        raise Invalid(f"there is nothing called {part!r} to check; leave it out, or say mcp or archive")
    else:
        title = f"Installation in {installation.places.data_dir}"
        findings = run_checks(installation, [url] if url else [])
    well = not any(finding.level == "bad" for finding in findings)
    if as_json:
        screen.print_json({"ok": well, "findings": [finding.to_dict() for finding in findings]})
    else:
        table = screen.build_table("check", "", "", title=title)
        for finding in findings:
            words = finding.words if not finding.advice else f"{finding.words}\n→ {finding.advice}"
            table.add_row(finding.check, screen.style_text(finding.level, STYLES[finding.level]), words)
        screen.out().print(table)
    if not well:
        raise typer.Exit(1)


def _check_mcp(
    kind: type[McpCheck], installation: Installation, url: str, username: str, question: str, app_id: str
) -> tuple[str, list[Finding]]:
    state = installation.state
    address = (url or installation.settings.public_url or (state.api_url if state else "")).rstrip("/")
    address = address.removesuffix("/mcp")
    if not address:
        raise Unavailable("the installation does not run; `kiosk up` starts it")
    if username:
        # From standard input, because other users of the machine can read the arguments of a process.
        walk = kind(address, username, sys.stdin.readline().rstrip("\n"), question, app_id)
        return f"Archive at {walk.endpoint_url}", list(walk.run())
    with _temporary_account(installation, app_id) as password:
        walk = kind(address, VISITOR, password, question, app_id)
        findings = list(walk.run())
    if kind is ArchiveCheck:
        findings += check_inclusions(*installation.administer(_read_archives), app_id)
    return f"Archive at {walk.endpoint_url}", findings


async def _read_archives(
    keeping: AppKeyAdmin, stores: OpenStores
) -> tuple[dict[str, NamedArchive], list[frozenset[str]]]:
    apps = (await stores.access.read_all()).apps
    archives = {app_id: app.archive for app_id, app in apps.items() if app.archive is not None}
    return archives, list(list_owned_apps(await stores.accounts.all()).values())


def check_inclusions(
    archives: Mapping[str, NamedArchive], owned: Sequence[frozenset[str]], app_id: str
) -> list[Finding]:
    """Return a warning for each archive that an archive includes and leaves out, or that has other owners.

    `owned` has the apps of each account. Earlier releases let an inclusion outlive its common owner. Where
    neither app has an owner, administrators alone include archives.
    """
    including = archives.get(app_id)
    findings = []
    for other_id in including.includes if including is not None else ():
        reason = why_left_out(archives.get(other_id), including)
        pair = {app_id, other_id}
        words = f"{other_id} is left out: {reason}" if reason else ""
        if not reason and any(pair & apps for apps in owned) and not any(pair <= apps for apps in owned):
            words = f"{other_id} is included, and no account owns both; an administrator may have included it"
        if words:
            advice = f"`kiosk archive open {app_id} --includes` names the archives to include"
            findings.append(Finding("included archives", "warning", words, advice))
    return findings


@contextmanager
def _temporary_account(installation: Installation, app_id: str) -> Iterator[str]:
    """Open an account for as long as it takes, with a role in the app of a named archive; gives its password."""

    async def open_up(keeping: AppKeyAdmin, stores: OpenStores) -> str:
        people = AccountAdmin(stores.accounts, stores.grants)
        try:
            password = (await people.create(VISITOR, "reader", "", read_clock_ms()))[1]
        except Conflict:
            # An earlier check locked the account at its end, and nobody kept its password.
            await people.unlock(VISITOR)
            password = await people.set_password(VISITOR, "", read_clock_ms())
        if app_id:
            await people.set_role(VISITOR, app_id, "viewer")
        return password

    async def lock(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        people = AccountAdmin(stores.accounts, stores.grants)
        await people.lock(VISITOR, read_clock_ms())
        if app_id:
            await people.set_role(VISITOR, app_id, None)

    password = installation.administer(open_up)
    try:
        yield password
    finally:
        installation.administer(lock)


def run_checks(installation: Installation, urls: Sequence[str] = ()) -> list[Finding]:
    """Run all checks that make sense now; `urls` are asked over HTTP."""
    state = installation.state
    findings = [
        machine_checks.check_versions(),
        machine_checks.check_data_directory(installation.places.data_dir),
        machine_checks.check_master_key(installation),
        machine_checks.check_private_file(
            "ray token", installation.places.ray_token, "delete it and start again: `kiosk up` makes one"
        ),
        check_disk(installation.places.data_dir, installation.settings.disk_limit),
        machine_checks.check_shared_memory(Path("/dev/shm")),
        machine_checks.check_open_files(),
        machine_checks.check_haproxy(state),
        security_checks.check_learners(installation),
        security_checks.check_artifacts(installation),
        *security_checks.check_secrets(installation),
    ]
    if state is None and installation.settings.redis_is_external:
        return [*findings, *_check_cluster(installation, urls)]
    findings += [finding for url in urls for finding in cluster_checks.check_url(url)]
    if state is None:
        return [*findings, machine_checks.check_redis_binary(), *machine_checks.check_leftovers(installation)]
    findings.append(running_checks.check_public_address(state))
    findings.append(running_checks.check_sign_in(state, installation.settings))
    findings.append(running_checks.check_client_addresses(state, installation.settings))
    findings += [*running_checks.check_ports(installation, state), *running_checks.check_ray_token(state)]
    findings += running_checks.check_actors(installation)
    try:
        findings += running_checks.check_redis_settings(installation)
        now_ms = SystemClock().now_ms()
        findings += running_checks.check_clock(installation.information("server"), now_ms)
        findings.append(running_checks.check_exposed_keys(installation, now_ms))
        findings.append(check_app_memory(installation.read_app_memory()))
        findings.append(check_app_storage(installation.read_app_storage()))
        findings += security_checks.check_switches(installation.list_apps())
        findings += security_checks.check_erasures(installation)
        findings.append(security_checks.check_audit(installation))
        findings += security_checks.check_previous_keys(installation)
    except KioskError as error:
        findings.append(Finding("redis", "bad", error.message, f"see {state.logs_dir}/redis.log"))
    return findings


def _check_cluster(installation: Installation, urls: Sequence[str]) -> Iterator[Finding]:
    """Check an installation that runs on other machines, through its Redis."""
    inspection = cluster_checks.inspect_cluster(installation.settings, urls, SystemClock().now_ms())
    yield from inspection.findings
    if inspection.report is None:
        return
    try:
        yield from running_checks.check_redis_settings(installation)
        yield check_app_storage(installation.read_app_storage())
        yield from security_checks.check_switches(installation.list_apps())
        yield from security_checks.check_previous_keys(installation)
    except KioskError as error:
        yield Finding("redis", "bad", error.message)
