"""`kiosk promote`, `kiosk rollback` and `kiosk engines history`: what serves, what served, and who decided."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.errors import KioskError
from cluster.records.engine import Promotion
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.cli.training import engines
from deployments.cli.training.train import AppName, AsJson, EngineName
from deployments.operations.framework.principal import COMMAND_LINE
from deployments.operations.models import promotions
from deployments.operations.models.promotions import PromotionView

if TYPE_CHECKING:
    from cluster.artifacts.storage.artifact_store import ArtifactStore
    from jobs.refresh.evaluation.report_models import EvaluationReport

PROMOTE_EPILOG = """
[bold]Examples[/]

  kiosk promote bookshop                                  the newest snapshot of the default engine
  kiosk promote bookshop 053040c827b6cf19 --engine summer
  kiosk promote bookshop --force "autumn range, worse on old events by design"

Refused when the snapshot is certainly worse than what serves: the whole 95 % interval of the difference in NDCG,
user by user, lies below zero. Fewer than 30 users refuse nothing. Was it compared with something else than what
serves now, it is compared anew.
"""
ROLLBACK_EPILOG = """
[bold]Examples[/]

  kiosk rollback bookshop                     what served before; again: what served before that
  kiosk rollback bookshop --to 053040c827b6cf19
  kiosk rollback bookshop --to none           no trained model, only live signals

Nothing restarts: every replica swaps to the other snapshot within seconds and drops no request.
"""
HISTORY_EPILOG = """
[bold]Example[/]

  kiosk engines history bookshop default
"""


def register_commands(line: typer.Typer) -> None:
    """Add both commands to the command line."""
    line.command("promote", epilog=PROMOTE_EPILOG)(promote)
    add_commands(line, (ROLLBACK,), promotions)


def promote(
    app: AppName = "playground",
    snapshot: Annotated[
        str, typer.Argument(metavar="[SNAPSHOT]", help="A version or its start; else the newest one.")
    ] = "",
    engine: EngineName = "default",
    force: Annotated[
        str, typer.Option(help="Promote although the gate refuses; the reason is recorded.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Let a snapshot serve, unless it is certainly worse than what serves."""
    installation = Installation()
    entry = asyncio.run(_promote(installation, app, engine, snapshot, force))
    if as_json:
        screen.print_json(entry.model_dump(mode="json"))
        return
    screen.out().print(f"Snapshot {entry.version} serves engine {engine} of {app} from now on.")
    screen.out().print(f"{'By force: ' if entry.forced else ''}{entry.reason}")
    if entry.before:
        screen.out().print(f"Undo: kiosk rollback {app} --engine {engine}")


async def _promote(installation: Installation, app: str, engine: str, version: str, force: str) -> Promotion:
    async with installation.open_administration() as administration:
        compare = partial(_compare_anew, administration.services.artifacts)
        administration.services = replace(administration.services, compare_versions=compare)
        view: PromotionView = await administration.perform(
            COMMAND_LINE,
            "promotions.promote",
            {"app_id": app, "engine_id": engine, "version": version, "force": force},
        )
        return view.entry


async def _compare_anew(
    artifacts: ArtifactStore, app: str, engine: str, version: str, serving: str
) -> EvaluationReport | None:
    """Compare a version with what serves now by training both again in this process."""
    from cluster.artifacts.segments import SegmentStore
    from cluster.artifacts.snapshots import SnapshotStore
    from jobs.refresh.runs.local_worker import lower_priority
    from jobs.refresh.runs.version_comparison import compare_versions

    lower_priority()
    with screen.err().status("comparing it with what serves now"):
        try:
            return await asyncio.to_thread(
                compare_versions,
                SegmentStore(artifacts),
                SnapshotStore(artifacts),
                app,
                engine,
                version,
                serving,
            )
        except KioskError as error:
            screen.err().print(f"It can't be compared with what serves now: {error.message}")
            return None


ENGINE_OF_PLAYGROUND = {"app_id": "playground", "engine_id": "default"}
ROLLBACK = OperationCommand(
    "rollback",
    "promotions.roll_back",
    ROLLBACK_EPILOG,
    {"app_id": "APP", "engine_id": "--engine"},
    defaults=ENGINE_OF_PLAYGROUND,
)
HISTORY = OperationCommand("history", "promotions.list", HISTORY_EPILOG, defaults=ENGINE_OF_PLAYGROUND)
add_commands(engines.app, (HISTORY,), promotions)
