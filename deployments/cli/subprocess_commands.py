"""Commands whose work lies in another package: they are run as programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import typer

from cluster.build_info import package_root
from cluster.errors import Invalid, Unavailable
from cluster.runtime.handover import hidden_secrets
from cluster.runtime.ray_environment import driver_environment, python_path
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from jobs.articles.cli import add_archive_command
from jobs.encoders.cli import build_models_app
from jobs.ingest.cli import build_ingest_app


def build_ingest_commands() -> typer.Typer:
    """Build `kiosk ingest`: its options are those of the programs, which run beside this command."""
    app = build_ingest_app(
        lambda options, words: _ingest(
            "jobs.ingest", words, dry_run=options.dry_run or options.guess, fans_out=options.at_once > 1
        )
    )
    add_archive_command(app, "archive", lambda options, words: _ingest("jobs.articles", words[1:]))
    return app


def build_models_commands() -> typer.Typer:
    """Build `kiosk models`."""

    def publish(folder: Path) -> None:
        from jobs.encoders.driver import publish_encoder

        publish_encoder(Installation().settings, folder)

    return build_models_app(lambda: Installation().settings.data_dir / "models", publish)


def _ingest(module: str, words: Sequence[str], *, dry_run: bool = False, fans_out: bool = False) -> int:
    """Run a program that ingests with the settings of the running installation; return its exit code."""
    installation = Installation()
    if not dry_run:
        if not installation.is_running and not installation.settings.redis_is_external:
            raise Unavailable(installation.not_running_reason)
        screen.print_ignored_settings(installation.in_vain)
        installation.refuse_full_disk()
    variables = settings_as_variables(installation) | (_ray_variables(installation) if fans_out else {})
    return _run_module(module, words, variables)


def register_commands(line: typer.Typer) -> None:
    """Register `kiosk bench`, whose words go to the program that measures: only a checkout has it."""
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    line.command("bench", context_settings=settings)(_bench)


def _bench(context: typer.Context) -> None:
    """Measure this build on this machine and compare the figures with their bounds."""
    with screen.exit_on_error(as_json="--json" in context.args):
        if not (package_root() / "tests" / "benchmarks" / "__main__.py").exists():
            raise Invalid("benchmarks come with the source; run `kiosk bench` in a checkout")
        raise typer.Exit(_run_module("tests.benchmarks", context.args))


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


def _run_module(module: str, arguments: Sequence[str], more: Mapping[str, str] = MappingProxyType({})) -> int:
    with hidden_secrets(os.environ) as clean:
        environment = {**clean, **python_path(clean, package_root()), **more}
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, env=environment, check=False).returncode
