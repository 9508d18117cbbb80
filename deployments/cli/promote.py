"""`kiosk promote`, `kiosk rollback` and `kiosk engines history`: what serves, what served, and who decided."""

from __future__ import annotations

import asyncio
import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.clock import iso_ms
from cluster.errors import HouseError, NotFound
from cluster.records.engine import Promotion
from deployments.cli import engines, screen
from deployments.cli.installation import Installation, read_clock_ms
from deployments.cli.train import AppName, AsJson, EngineName

if TYPE_CHECKING:
    from cluster.artifacts.artifact_store import ArtifactStore
    from cluster.store.ports.stores import Stores

PROMOTE_EPILOG = """
[bold]Examples[/]

  kiosk promote bookshop                                  the newest snapshot of the default engine
  kiosk promote bookshop 053040c827b6cf19 --engine summer
  kiosk promote bookshop --force "autumn range, worse on old events by design"

Refused when the snapshot is certainly worse than what serves: the whole 95 % interval of the difference in NDCG,
user by user, lies below zero. Was it compared with something else than what serves now, it is compared anew.
"""
ROLLBACK_EPILOG = """
[bold]Examples[/]

  kiosk rollback bookshop                     what served before; again: what served before that
  kiosk rollback bookshop --to 053040c827b6cf19
  kiosk rollback bookshop --to none           nothing that was learned, only what is counted live

Nothing restarts: every replica swaps to the other snapshot within seconds and drops no request.
"""
HISTORY_EPILOG = """
[bold]Example[/]

  kiosk engines history bookshop default
"""


def register_commands(line: typer.Typer) -> None:
    """Add both commands to the command line."""
    line.command("promote", epilog=PROMOTE_EPILOG)(promote)
    line.command("rollback", epilog=ROLLBACK_EPILOG)(rollback)


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
    from cluster.artifacts.snapshots import SnapshotStore
    from cluster.runtime.artifact_access import open_artifact_store
    from jobs.refresh.runs import promotion

    shelf = open_artifact_store(installation.settings)
    async with installation.open_stores() as stores:
        serving = (await promotion.get_engine(stores, app, engine)).snapshot
        version = (
            SnapshotStore(shelf).find_version(app, engine, version)
            if version
            else _find_newest(shelf, app, engine)
        )
        report = await _build_fresh_report(stores, shelf, app, engine, version, serving)
        return await promotion.promote_version(
            stores,
            shelf,
            app,
            engine,
            version,
            now_ms=read_clock_ms(),
            by=_operator_name(),
            force=force,
            report=report,
        )


def _find_newest(shelf: ArtifactStore, app: str, engine: str) -> str:
    from cluster.artifacts.snapshots import SnapshotStore

    versions = SnapshotStore(shelf).versions(app, engine)
    if not versions:
        raise NotFound(
            f"engine {engine} of {app} has no snapshot; make one: kiosk train {app} --engine {engine}"
        )
    return versions[-1].version


async def _build_fresh_report(
    stores: Stores, shelf: ArtifactStore, app: str, engine: str, version: str, serving: str
) -> dict[str, Any] | None:
    """Compare with what serves now, where the kept report compared with something else."""
    from cluster.artifacts.segments import SegmentStore
    from cluster.artifacts.snapshots import SnapshotStore
    from jobs.refresh.evaluation.reports import ReportStore
    from jobs.refresh.runs.promotion import is_compared

    kept = ReportStore(shelf).get(app, engine, version)
    if serving == version or is_compared(kept, serving) or not SnapshotStore(shelf).has(app, engine, version):
        return kept
    from jobs.refresh.runs.local_worker import lower_priority
    from jobs.refresh.runs.version_comparison import compare_versions

    lower_priority()
    with screen.err().status("comparing it with what serves now"):
        try:
            fresh = await asyncio.to_thread(
                compare_versions, SegmentStore(shelf), SnapshotStore(shelf), app, engine, version, serving
            )
        except HouseError as error:
            screen.err().print(f"It can't be compared with what serves now: {error.message}")
            return kept
    return {**fresh, "run_id": (kept or {}).get("run_id", "")}


def rollback(
    app: AppName = "playground",
    engine: EngineName = "default",
    to: Annotated[str, typer.Option(help="A version or its start, or `none`; else what served before.")] = "",
    as_json: AsJson = False,
) -> None:
    """Let serve again what served before; no restart."""
    from cluster.artifacts.snapshots import SnapshotStore
    from cluster.runtime.artifact_access import open_artifact_store
    from jobs.refresh.runs.promotion import roll_back_version as roll

    installation = Installation()
    shelf = open_artifact_store(installation.settings)
    version = "" if to in ("", "none") else SnapshotStore(shelf).find_version(app, engine, to)

    async def back() -> Promotion:
        async with installation.open_stores() as stores:
            return await roll(
                stores,
                shelf,
                app,
                engine,
                now_ms=read_clock_ms(),
                by=_operator_name(),
                to=version if to else None,
            )

    entry = asyncio.run(back())
    if as_json:
        screen.print_json(entry.model_dump(mode="json"))
        return
    now = f"snapshot {entry.version}" if entry.version else "what is counted live, nothing that was learned"
    screen.out().print(f"Engine {engine} of {app} serves {now} again, instead of {entry.before}.")


@engines.app.command("history", epilog=HISTORY_EPILOG)
def history(
    app: AppName = "playground",
    engine: Annotated[str, typer.Argument(metavar="[ENGINE]", help="The engine.")] = "default",
    limit: Annotated[int, typer.Option(help="How many entries.", min=1, max=10_000)] = 50,
    as_json: AsJson = False,
) -> None:
    """List which snapshot served from when on, who decided that, and its figures; newest first."""
    from jobs.refresh.runs.promotion import get_engine

    async def read() -> tuple[str, list[Promotion]]:
        async with Installation().open_stores() as stores:
            found = await get_engine(stores, app, engine)
            return found.snapshot, await stores.promotions.history(app, engine, limit)

    serving, entries = asyncio.run(read())
    if as_json:
        told = [entry.model_dump(mode="json") for entry in entries]
        screen.print_json({"app_id": app, "engine_id": engine, "serving": serving, "history": told})
        return
    table = screen.build_table(
        "since", "what", "snapshot", "by", "run", "ndcg@10", "why",
        ids=("snapshot", "run"), droppable=("run", "by"),
    )  # fmt: skip
    for entry in entries:
        figure = entry.figures.get("ndcg@10")
        table.add_row(
            iso_ms(entry.at_ms)[:19], entry.kind.replace("_", " "), entry.version or "none",
            entry.by, entry.run_id, "" if figure is None else f"{figure:.4f}",
            f"forced: {entry.reason}" if entry.forced else entry.reason.partition(":")[0],
        )  # fmt: skip
    screen.out().print(
        table if entries else f"Nothing that was learned ever served engine {engine} of {app}."
    )


def _operator_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an administrator"
