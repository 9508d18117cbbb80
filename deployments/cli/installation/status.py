"""`kiosk status`: how every part is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.text import Text

from cluster.errors import KioskError
from cluster.local.haproxy_handover import find_predecessor
from cluster.local.redis_binary import RedisBinary
from cluster.local.redis_vulnerabilities import list_reachable_vulnerabilities
from cluster.process import probe
from cluster.process.disk_guard import used_share
from cluster.process.installation_processes import is_alive, list_processes, pss_bytes, title_of
from cluster.process.installation_state import InstallationState, load_state
from deployments.cli.doctor.running_checks import parse_redis_server
from deployments.cli.framework import screen
from deployments.cli.framework.installation import KILLED, Installation
from deployments.cli.installation.summary import build_summary
from deployments.operations.insight.installation_checks import Finding, check_app_memory, check_app_storage

EPILOG = """
[bold]Examples[/]

  kiosk status
  kiosk status --json | jq .ready

Ends with 0 when everything is well, with 1 when a part is not or the supervisor was killed, with 3 when the
installation does not run.
"""


def status(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Show the health of every part in a table."""
    installation = Installation()
    state = installation.state
    if state is None:
        raise typer.Exit(_report_not_running(installation, as_json=as_json))
    screen.print_ignored_settings(installation.in_vain)
    parts = inspect_parts(installation, state)
    well = state.phase == "ready" and all(part.ok for part in parts)
    if as_json:
        summary = (
            build_summary(installation, state, reveal=False).to_dict(secrets=False) if parts[1].ok else {}
        )
        screen.print_json(
            {**summary, "ready": well, "phase": state.phase, "parts": [part.to_dict() for part in parts]}
        )
    else:
        _show(parts, state.api_url)
    if not well:
        raise typer.Exit(1)


def _show(parts: list[InstallationPart], url: str) -> None:
    table = screen.build_table("part", "", "", title=f"Kiosk at {url}")
    for part in parts:
        table.add_row(part.part, _status_sign(part.ok), part.detail)
    screen.out().print(table)
    if not all(part.ok for part in parts):
        screen.err().print("`kiosk doctor` says what can be done.")


def _status_sign(well: bool) -> Text:
    return screen.style_text("ok", "green") if well else screen.style_text("not ok", "bold red")


def _report_not_running(installation: Installation, *, as_json: bool) -> int:
    """Say in what way it does not run; return the exit code."""
    left = len(installation.leftovers)
    last = load_state(installation.places)
    if as_json:
        phase, more = ("killed", {"processes": left}) if left else ("stopped", {})
        screen.print_json(
            {"ready": False, "phase": phase, "data_dir": str(installation.places.data_dir), **more}
        )
    if left:
        screen.err().print(KILLED.format(left))
        return 1
    words = (
        f"The last start failed: {last.message.rstrip('.')}."
        if last and last.phase == "failed"
        else "Kiosk does not run."
    )
    if installation.settings.redis_is_external:
        screen.err().print(
            "No installation runs on this machine; KIOSK_REDIS_URL is set: `kiosk cluster status` shows the "
            "cluster's. `kiosk up` would start one here."
        )
        return 3
    screen.err().print(f"{words} Start it with `kiosk up`.")
    return 3


@dataclass(frozen=True, slots=True)
class InstallationPart:
    """One line of the table."""

    part: str
    ok: bool
    detail: str

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def inspect_parts(installation: Installation, state: InstallationState) -> list[InstallationPart]:
    """Look at everything once."""
    processes = list_processes(installation.places)
    titles = [title_of(process) for process in processes]
    restarts = ", ".join(f"{part} {count}x" for part, count in state.restarts.items())
    return [
        InstallationPart(
            "supervisor", is_alive(state.pid), f"process {state.pid}, {state.phase}: {state.message}"
        ),
        _redis(installation, state),
        _ray(state, len(processes)),
        _proxy(installation, state),
        _api_replicas(installation, titles),
        _agreement(installation),
        _judge("app memory", lambda: check_app_memory(installation.read_app_memory())),
        _judge("app storage", lambda: check_app_storage(installation.read_app_storage())),
        _intake(installation, titles),
        _trainer(installation, titles),
        _actor("assigner", "AssignerHost", titles, "assigns variants to users"),
        _actor("tracker", "TrackerHost", titles, "watches history threads"),
        _disk(installation),
        InstallationPart(
            "memory", True, f"{pss_bytes(processes) / 2**20:,.0f} MiB in {len(processes)} processes"
        ),
        InstallationPart("restarts", True, restarts or "none since the start"),
    ]


def _redis(installation: Installation, state: InstallationState) -> InstallationPart:
    try:
        server = parse_redis_server(installation.information("server"))
        memory = installation.information("memory")
        persistence = installation.information("persistence")
    except KioskError as error:
        return InstallationPart("redis", False, f"{state.redis}: {error.message}")
    saved = persistence.get("aof_last_write_status", "ok") == "ok"
    words = f"{describe_server(state, server)}, {memory.get('used_memory_human', '?')} used"
    return InstallationPart("redis", saved, words if saved else f"{words}, can't write its file")


def describe_server(state: InstallationState, server: RedisBinary | None) -> str:
    """Name the server that answers, and say whether it has published faults."""
    if server is None:
        return state.redis
    name = state.redis if server.name in state.redis else f"{state.redis} {server.name}"
    if list_reachable_vulnerabilities(server.product, server.version):
        return f"{name} with published faults (`kiosk doctor` lists them)"
    return name


def _ray(state: InstallationState, count: int) -> InstallationPart:
    dead = [name for name in ("gcs_server", "raylet") if not is_alive(state.pids.get(name, 0))]
    return InstallationPart(
        "ray", not dead, f"not alive: {', '.join(dead)}" if dead else f"at {state.ray_address}"
    )


def _proxy(installation: Installation, state: InstallationState) -> InstallationPart:
    if state.proxy != "haproxy":
        return InstallationPart("proxy", False, state.proxy)
    pid = find_predecessor(installation.places.haproxy_dir / "pid")
    return InstallationPart(
        "proxy", bool(pid), f"HAProxy, process {pid}" if pid else "HAProxy is not running"
    )


def _api_replicas(installation: Installation, titles: list[str]) -> InstallationPart:
    state = installation.state
    host, port = (state.host, state.port) if state else ("127.0.0.1", 0)
    seen = probe.is_healthy(host, port)
    count = sum("ServeReplica:api" in title for title in titles)
    return InstallationPart("api", seen.is_good, f"{count} replica{'s' * (count != 1)}, {seen.message}")


def _agreement(installation: Installation) -> InstallationPart:
    """Return whether the API replicas hold the same state at the same offset of the change log."""
    try:
        differing = installation.list_differing_replicas()
    except KioskError as error:
        return InstallationPart("agreement", False, error.message)
    words = "; ".join(f"{app_id}: {', '.join(names)}" for app_id, names in differing.items())
    return InstallationPart(
        "agreement", not words, f"replicas differ: {words}" if words else "replicas hold the same state"
    )


def _judge(name: str, check: Callable[[], Finding]) -> InstallationPart:
    """Return a check of `kiosk doctor` as a line, with what to do if it is not well."""
    try:
        finding = check()
    except KioskError as error:
        return InstallationPart(name, False, error.message)
    words = f"{finding.words}: {finding.advice}" if finding.advice else finding.words
    return InstallationPart(finding.check, finding.level == "ok", words)


def _intake(installation: Installation, titles: list[str]) -> InstallationPart:
    alive = any("IntakeHost" in title for title in titles)
    try:
        waiting = installation.count_waiting_batches()
    except KioskError as error:
        return InstallationPart("intake", False, error.message)
    return InstallationPart(
        "intake", alive, f"{'at work' if alive else 'not running'}, {waiting} batches waiting"
    )


def _trainer(installation: Installation, titles: list[str]) -> InstallationPart:
    alive = any("ray::Trainer" in title for title in titles)
    workers = sum("ray::_work" in title for title in titles)
    words = f"at work, {workers} training{'s' * (workers != 1)} under way" if alive else "not running"
    return InstallationPart("trainer", alive, words)


def _actor(part: str, kind: str, titles: list[str], duty: str) -> InstallationPart:
    alive = any(kind in title for title in titles)
    return InstallationPart(part, alive, f"at work, {duty}" if alive else "not running")


def _disk(installation: Installation) -> InstallationPart:
    share = used_share(installation.places.data_dir)
    limit = installation.settings.disk_limit
    words = f"{share:.0%} used of the disk below {installation.places.data_dir}"
    return InstallationPart("disk", share < limit, words if share < limit else f"{words}: writes are refused")
