"""`kiosk cluster`: Kiosk on an existing Ray cluster."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.build_info import package_root
from cluster.errors import Fault, Invalid
from cluster.paths import InstallationPaths
from cluster.process.installation_identity_check import prepare_external_key
from cluster.process.store_connections import ADMIN_S, connect
from cluster.runtime.node_environment import check_node, node_environment
from cluster.runtime.start_plan import StartPlan
from cluster.settings import SECRET_VARIABLES, Settings
from deployments.cli.framework import screen
from deployments.cli.installation import cluster_identity, cluster_status

app = typer.Typer(help="Kiosk on a Ray cluster of yours.", no_args_is_help=True)
cluster_status.register_commands(app)
cluster_identity.register_commands(app)

UP_EPILOG = """
[bold]Examples[/]

  kiosk cluster up                          on a node, after `eval "$(kiosk node env)"` and `ray start`
  kiosk cluster up --replicas 3:12          numbers of API replicas at rest and under load
  kiosk cluster up --proxies HeadOnly       HTTP on the head only
  RAY_ADDRESS=http://HEAD:8265 ray job submit -- kiosk cluster up        from another machine

Run it again after a change or an update: it replaces the API replicas one by one, and no request fails.
"""
ATTACH_EPILOG = """
[bold]Example[/]

  kiosk cluster attach && serve deploy cluster/serve/production.yaml
"""
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object when ready.")]


@app.command("up", epilog=UP_EPILOG)
def up(
    host: Annotated[str, typer.Option(help="Address the proxies listen on.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[int, typer.Option(help="Port the proxies listen on.", min=1, max=65535)] = 8000,
    replicas: Annotated[
        str,
        typer.Option(
            metavar="MIN:MAX", help="API replicas; else one a node at rest, half of all cores at most."
        ),
    ] = "",
    memory: Annotated[
        int | None,
        typer.Option(
            metavar="MB", help="MiB for the apps of one API replica; default: KIOSK_MEMORY_MB or 512.", min=64
        ),
    ] = None,
    proxies: Annotated[str, typer.Option(help="EveryNode or HeadOnly.")] = "EveryNode",
    playground: Annotated[bool, typer.Option("--playground", help="Load the sample data.")] = False,
    as_json: AsJson = False,
) -> None:
    """Deploy on the Ray cluster of RAY_ADDRESS, or of this node; run again, it updates without a failed request.

    It makes apps and keys, the five named actors, an HTTP proxy on every node and the API replicas.
    """
    settings, environment = _prepare()
    low, high = _parse_replicas(replicas)
    plan = StartPlan(
        host=host,
        port=port,
        haproxy=True,
        ray_arguments=[],
        ray_address=environment.get("RAY_ADDRESS") or "auto",
        proxy_location=_check_proxies(proxies),
        spread=True,
        api_arguments={"replicas_min": low, "replicas_max": high, "memory_budget_mb": memory},
        playground=playground,
    )
    last = _run_bootstrap(
        plan, environment, InstallationPaths.from_data_dir(settings.data_dir).run_dir / "cluster-up.log"
    )
    addresses = [f"http://{address}:{port}" for address in last.get("addresses", [])]
    warnings = _warnings(settings, environment)
    for warning in warnings:
        screen.err().print(screen.style_text("warning:", "bold red", f" {warning}"))
    if as_json:
        screen.print_json({"ready": True, "addresses": addresses, "warnings": warnings})
        return
    screen.out().print(screen.style_text("Kiosk is ready", "bold green", " on every address below."))
    screen.print_lines(*(f"  {address}" for address in addresses), "Keys: kiosk keys list --reveal")


@app.command("attach", epilog=ATTACH_EPILOG)
def attach() -> None:
    """Make apps, keys and the five named actors, for those who deploy the API by a configuration of Serve."""
    _, environment = _prepare()
    _run_attach(environment)
    screen.err().print("Attached. Deploy the API: `serve deploy cluster/serve/production.yaml`.")


def _prepare() -> tuple[Settings, dict[str, str]]:
    """Return the settings, and the environment of a driver on this node."""
    settings = Settings()
    check_node(settings)
    address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith(("http://", "https://")):
        raise Invalid(
            "RAY_ADDRESS is the dashboard's address; from outside of the cluster run "
            "`ray job submit -- kiosk cluster up`, or set RAY_ADDRESS=HEAD:6379 on a node"
        )
    prepare_external_key(settings)
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    paths.make_run_dir()
    # The variables of a process can be read for as long as it lives.
    environment = {name: text for name, text in os.environ.items() if name not in SECRET_VARIABLES}
    more = node_environment(paths, os.environ, package_root(), head=False)
    # The existing cluster decides on authentication; this driver must not turn it on alone.
    if "RAY_AUTH_MODE" not in environment:
        more = {name: text for name, text in more.items() if not name.startswith("RAY_AUTH_")}
    return settings, environment | more


def _check_proxies(location: str) -> str:
    """Return the place of proxies, if there is such a one."""
    if location not in ("EveryNode", "HeadOnly"):
        raise Invalid(f"--proxies is EveryNode or HeadOnly, not {location!r}")
    return location


def _parse_replicas(text: str) -> tuple[int, int]:
    """Return both numbers of `MIN:MAX` or `NUMBER`; zeros when nothing is given."""
    if not text:
        return 0, 0
    low, _, high = text.partition(":")
    if not low.isdigit() or not (high or low).isdigit() or not 0 < int(low) <= int(high or low):
        raise Invalid(f"--replicas is MIN:MAX, as 3:12, not {text!r}")
    return int(low), int(high or low)


def _run_attach(environment: Mapping[str, str]) -> None:
    """Create what is missing in a process of its own, because Ray belongs to the process that imports it."""
    done = subprocess.run(
        [sys.executable, "-m", "cluster.runtime.attach"], env=dict(environment), check=False
    )
    if done.returncode:
        raise Fault("nothing was attached; the line above says why")


def _run_bootstrap(
    plan: StartPlan, environment: Mapping[str, str], log: Path, module: str = "cluster.runtime.bootstrap"
) -> dict[str, Any]:
    """Run the steps in a process of their own and show each; return the last message.

    What Ray, Serve and libraries write to standard error goes to `log`.

    Errors:
        Fault: a step failed
    """
    last: dict[str, Any] = {}
    command = [sys.executable, "-m", module, plan.to_json()]
    with (
        log.open("wb") as lines,
        subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=lines,
            text=True,
        ) as steps,
    ):
        assert steps.stdout is not None
        for line in steps.stdout:
            last = json.loads(line)
            screen.err().print(f"{last['after_s']:7.1f} s  {last['message']}", style="dim")
    if last.get("step") != "ready":
        reason = last.get("message", "the steps ended without a word")
        raise Fault(
            f'{reason}; the node needs `eval "$(kiosk node env)"` before `ray start`, and a running Ray; more in {log}'
        )
    return last


def _warnings(settings: Settings, environment: Mapping[str, str]) -> list[str]:
    """Return what an operator should change."""
    warnings = []
    if environment.get("RAY_AUTH_MODE") != "token":
        warnings.append(
            "Ray runs without a token, so whoever reaches its ports runs code on every node; start Ray with what "
            "`kiosk node env` prints"
        )
    if not asyncio.run(_has_administrator(settings)):
        warnings.append("there is no administrator; `kiosk users create NAME --role administrator` makes one")
    return warnings


async def _has_administrator(settings: Settings) -> bool:
    async with connect(settings, slow_s=ADMIN_S) as stores:
        return any(account.role == "administrator" for account in await stores.accounts.all())
