"""Commands whose work lies in another package: they are run as programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType

import typer

from cluster.build_info import package_root
from cluster.errors import Invalid, Unavailable
from cluster.runtime.handover import hidden_secrets
from cluster.runtime.ray_environment import driver_environment, python_path
from deployments.cli import screen
from deployments.cli.installation import Installation

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"Options, `--help` among them, belong to the program."


def ingest(context: typer.Context) -> None:
    """Bring files of records, or an archive of articles (`kiosk ingest archive`), into an app of the running
    installation (see `kiosk ingest --help` and `kiosk ingest archive --help`)."""
    needs_nothing = context.args[:1] == ["fields"] or any(
        word in ("--help", "-h", "--dry-run") for word in context.args
    )
    installation = Installation()
    if not needs_nothing:
        if not installation.is_running and not installation.settings.redis_is_external:
            raise Unavailable(installation.not_running_reason)
        screen.print_ignored_settings(installation.in_vain)
        installation.refuse_full_disk()
    running = settings_as_variables(installation)
    if context.args[:1] == ["archive"]:
        _run_module("jobs.archive", context.args[1:], running)
    fans_out = any(word.partition("=")[0] == "--at-once" for word in context.args)
    _run_module(
        "jobs.ingest", context.args, {**running, **(_ray_variables(installation) if fans_out else {})}
    )


def models(context: typer.Context) -> None:
    """Bring a sentence encoder, or list those that are here (see `kiosk models --help`)."""
    _run_module("jobs.models", context.args)


def bench(context: typer.Context) -> None:
    """Measure this build beside its limits on this machine (see `kiosk bench --help`)."""
    if not (package_root() / "tests" / "benchmarks" / "__main__.py").exists():
        raise Invalid("benchmarks come with the source; run `kiosk bench` in a checkout")
    _run_module("tests.benchmarks", context.args)


def settings_as_variables(installation: Installation) -> dict[str, str]:
    """Write the settings a running installation has as the variables another program reads."""
    state = installation.state
    values = installation.settings.shareable() if state is not None and state.settings else {}
    return {f"KIOSK_{name.upper()}": str(value) for name, value in values.items()}


def _ray_variables(installation: Installation) -> dict[str, str]:
    """Say where the installation's Ray is, for a program that fans work out; nothing when it does not run."""
    state = installation.state
    if state is None or not state.ray_address:
        return {}
    return {"RAY_ADDRESS": state.ray_address, **driver_environment(installation.places)}


def _run_module(module: str, arguments: list[str], more: Mapping[str, str] = MappingProxyType({})) -> None:
    with hidden_secrets(os.environ) as clean:
        environment = {**clean, **python_path(clean, package_root()), **more}
        command = [sys.executable, "-m", module, *arguments]
        code = subprocess.run(command, env=environment, check=False).returncode
    raise typer.Exit(code)
