"""`kiosk up`: start everything, or say that it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Annotated, Any

import typer

from cluster.build_info import installed_version, package_root
from cluster.errors import Fault, Invalid
from cluster.local.supervisor import Supervisor, SupervisorConfig
from cluster.log import set_up_logging
from cluster.process.free_ports import is_free, is_local_address
from cluster.process.installation_state import InstallationState
from cluster.process.start_progress import StallTimer, count_work_steps
from cluster.runtime.handover import hand_over
from cluster.runtime.ray_environment import shared_environment
from cluster.settings import Settings
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.installation.summary import InstallationSummary, build_summary

STALLED_S = 600.0
"Seconds without progress after which this command waits no longer; the supervisor gives up before."
LOG_LIMIT = 10 << 20

EPILOG = """
[bold]Examples[/]

  kiosk up                          start on http://127.0.0.1:8000
  kiosk up --port 9000              somewhere else
  kiosk up --memory 2048            more memory for apps in each API replica
  KIOSK_DATA_DIR=~/second kiosk up --port 9001    a second installation
  kiosk up --foreground             stay in this terminal; Ctrl-C stops everything
  kiosk up --json                   one JSON object, with keys, on standard output when ready
  kiosk up --reveal                 print keys again, and commands to try

Each stage is a line on standard error. There is no time limit: on a busy machine the command waits as long as the
start makes progress.
"""


def up(
    host: Annotated[
        str | None, typer.Option(help="Address that the API listens on; default: KIOSK_HOST or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port that the API listens on; default: KIOSK_PORT or 8000.", min=1, max=65535),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="MB", help="MiB for the apps of one API replica; default: KIOSK_MEMORY_MB or 512.", min=64
        ),
    ] = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay here until Ctrl-C.")] = False,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Print keys and commands to try, as the first start does.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object when ready.")] = False,
) -> None:
    """Start Redis, Ray and the API replicas, load the playground, and print URLs; the first start prints keys and
    commands to try as well.

    Starting a running installation says so and changes nothing. What a killed supervisor left behind is ended first.
    Data lies in KIOSK_DATA_DIR (~/.kiosk).
    """
    options = {"host": host, "port": port, "memory_mb": memory}
    given: dict[str, Any] = {name: value for name, value in options.items() if value}
    installation = Installation(Settings(**given))
    if installation.is_running:
        _show_running(installation, reveal=reveal, as_json=as_json)
        return
    ended = installation.end_leftovers()
    if ended:
        screen.err().print(f"The supervisor was killed; {ended} processes that it left behind were ended.")
    settings = installation.settings
    if not is_local_address(settings.host):
        raise Invalid(
            f"{settings.host!r} is no address of this machine; "
            "choose one with --host or KIOSK_HOST, as 127.0.0.1 or 0.0.0.0"
        )
    if not is_free(settings.host, settings.port):
        raise Invalid(
            f"port {settings.port} on {settings.host} is taken by another program; choose one with --port"
        )
    installation.places.make()
    handed_over = hand_over(os.environ, installation.places.secrets_dir)
    # Read anew, because secrets now come from files and no longer from variables.
    installation = Installation(Settings(**given))
    _rotate_log(installation)
    if foreground and handed_over:
        # what a process was started with stays readable for as long as it lives
        os.execv(sys.executable, sys.orig_argv)
    if foreground:
        raise typer.Exit(_run_supervisor(installation, reveal=reveal, as_json=as_json))
    state = _start_in_background(installation)
    reveal = reveal or as_json or state.first_start
    _show(build_summary(installation, state, reveal=reveal, first=True), as_json=as_json)


def _show_running(installation: Installation, *, reveal: bool, as_json: bool) -> None:
    state = installation.state
    if state is None or state.phase not in ("ready", "failed"):
        state = _await_ready(installation)
    _refuse_failed(state)
    screen.err().print(f"Kiosk is already running (process {state.pid}, data in {state.data_dir}).")
    shell_settings = installation.settings
    _, in_vain = shell_settings.replaced_by(state.settings)
    places = [each for each in in_vain if each.startswith(("KIOSK_PORT=", "KIOSK_HOST="))]
    if places:
        screen.err().print(
            f"It stays on {state.api_url}. To move it: `kiosk down`, then "
            f"`kiosk up --host {shell_settings.host} --port {shell_settings.port}`."
        )
    screen.print_ignored_settings([each for each in in_vain if each not in places])
    _show(build_summary(installation, state, reveal=reveal or as_json), as_json=as_json)


def _await_ready(installation: Installation) -> InstallationState:
    """Wait for the end of a start; each stage becomes a line with its seconds."""
    with screen.err().status("starting") as status:

        def report(after_s: float, message: str) -> None:
            status.update(screen.quote_text(message))
            screen.err().print(f"{after_s:7.1f} s  {message}", style="dim")

        return installation.wait_until_ready(STALLED_S, report)


def _start_in_background(installation: Installation) -> InstallationState:
    """Start a supervisor that outlives this command, and wait for it."""
    settings = installation.settings
    places = installation.places
    environment = shared_environment(places, os.environ, package_root()) | _variables(settings)
    # The state of an earlier run would pass for that of this one.
    places.state.unlink(missing_ok=True)
    with places.supervisor_log.open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "cluster.local.supervisor"],
            cwd=places.data_dir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # The supervisor outlives the terminal, whose end signals its own session only.
            start_new_session=True,
        )
    # Somebody must take its exit code if it ends while we wait.
    threading.Thread(target=started.wait, daemon=True).start()
    _await_lock(installation, started)
    state = _await_ready(installation)
    _refuse_failed(state)
    return state


def _variables(settings: Settings) -> dict[str, str]:
    """Return the variables by which the processes of Ray get the options of this command."""
    names = ("host", "port", "memory_mb")
    return {f"KIOSK_{name.upper()}": str(getattr(settings, name)) for name in names}


def _await_lock(installation: Installation, started: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    patience = StallTimer()
    while not patience.is_over:
        if installation.is_running or installation.places.state.exists():
            return
        # Code 2: the supervisor of another start took the lock first, and this command waits for that one.
        if started.returncode not in (None, 2):
            break
        patience.record(count_work_steps(started.pid))
        pause.wait(0.05)
    raise Fault(f"the supervisor did not start; see {installation.places.supervisor_log}")


def _run_supervisor(installation: Installation, *, reveal: bool, as_json: bool) -> int:
    """Be the supervisor until told to stop."""
    shown = False

    def report_state(state: InstallationState) -> None:
        nonlocal shown
        if state.phase == "ready" and not shown:
            shown = True
            shows = reveal or as_json or state.first_start
            _show(build_summary(installation, state, reveal=shows, first=True), as_json=as_json)
            screen.err().print("Ctrl-C stops everything.")
        elif not shown or state.phase != "ready":
            screen.err().print(state.message, style="dim")

    places = installation.places
    os.environ.setdefault("KIOSK_DATA_DIR", str(places.data_dir))
    os.environ.update(_variables(installation.settings))
    with places.supervisor_log.open("a", encoding="utf-8") as log:
        set_up_logging(stream=log)
        code = Supervisor(
            SupervisorConfig(installation.settings, installed_version(), package_root()), report_state
        ).run()
    if code == 1:
        raise Fault(f"the start failed; see {places.supervisor_log}")
    return code


def _refuse_failed(state: InstallationState) -> None:
    if state.phase == "failed":
        raise Fault(f"{state.message}; more in {state.logs_dir}/supervisor.log, advice by `kiosk doctor`")


def _show(summary: InstallationSummary, *, as_json: bool) -> None:
    state = summary.state
    if state.is_degraded:
        words = (
            f" requests go through the {state.proxy}. They are up to ten times slower. Kiosk changes over to HAProxy "
            "as soon as that starts; meanwhile it answers requests with 503."
        )
        screen.err().print(screen.style_text("warning:", "bold red", words))
    if as_json:
        screen.print_json(summary.to_dict(secrets=True))
        return
    screen.out().print(
        screen.style_text("Kiosk is ready", "bold green", f" (after {state.ready_after_s or 0:.1f} s).")
    )
    screen.print_lines(*summary.lines())


def _rotate_log(installation: Installation) -> None:
    """Begin a new log when the old one is large; one old one is kept."""
    for log in (installation.places.supervisor_log, installation.places.logs_dir / "redis.log"):
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.replace(log.with_name(log.name + ".1"))
