"""Changes of run records: create, claim, update, end, cancel. Of two concurrent changes, one succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors.models.loading.allowed_learners import ALLOWED
from cluster.errors import Conflict, Invalid, NotFound, ReadOnly, messages
from cluster.ids import new_request_id
from cluster.process.training_memory_limit import training_memory_mb
from cluster.records.apps import App
from cluster.records.run import Run, RunKind, cancel_run, claim_run
from cluster.store.app_quotas import check_new_training
from cluster.store.stores import Stores
from cluster.tracing import current_traceparent

_TRIES = 20


def check_memory_limit(recipe: Mapping[str, Any], app: App) -> None:
    """Check that a recipe allows its training no more memory than the app and the installation allow.

    Errors:
        Invalid: `limits.memory_mb` is larger than the bound
    """
    limits = recipe.get("limits")
    most = training_memory_mb(app)
    given = limits.get("memory_mb") if isinstance(limits, Mapping) else None
    if most and isinstance(given, int) and given > most:
        raise Invalid(
            f"limits.memory_mb is {given}; a training of {app.app_id} may use at most {most} MB",
            bound="max_training_memory_mb",
        )


async def create_run(
    stores: Stores,
    app_id: str,
    engine_id: str,
    recipe: Mapping[str, Any],
    *,
    now_ms: int,
    by: str,
    promote: bool = False,
    run_id: str = "",
    owner: str = "",
    code: str = "",
    kind: RunKind = "training",
    options: Mapping[str, Any] | None = None,
) -> Run:
    """Store a run that trains an engine or measures a recipe of it, and return it.

    A second call with the same `run_id` returns the stored run. With an `owner`, the run belongs to that worker from
    the start, so that no other worker claims it.

    Errors:
        NotFound: the app or engine does not exist; the message lists the existing ones
        Invalid: the recipe names a learner class that this installation does not allow
        Conflict: another process writes the run at the same time, or the app has as many trainings as it may
        Forbidden: the app's storage reached its bound
    """
    app = await check_engine(stores, app_id, engine_id)
    # Here and not only in the worker: who orders the run gets the reason at once.
    ALLOWED.check_recipe(recipe)
    check_memory_limit(recipe, app)
    # A repeated call returns its run, and must not be refused because that run fills the bound.
    if not (run_id and await _is_stored(stores, app, run_id)):
        await check_new_training(stores.runs, stores.usage, app)
    engine = await stores.engines.get(app_id, engine_id)
    run = Run(
        app_id=app_id,
        run_id=run_id or f"run-{new_request_id()[:10]}",
        engine_id=engine_id,
        recipe=_with_pauses(recipe, {} if engine is None else engine.repeat_after_days),
        kind=kind,
        options=dict(options or {}),
        promote=promote,
        code=code,
        by=by,
        traceparent=current_traceparent(),
        created_at=now_ms,
    )
    # Claimed in the same write, so that no other worker sees the run without an owner.
    taken = claim_run(run, owner, now_ms) if owner else run
    written = await stores.runs.compare_and_set(taken or run)
    if written is not None:
        return written
    # Refused because the id exists: a repeated call gets the run of the first one.
    there = await stores.runs.get(app_id, run.run_id)
    if there is None:
        raise Conflict(f"run {run.run_id} is being written by somebody else; try again")
    return there


def _with_pauses(recipe: Mapping[str, Any], pauses: Mapping[str, float]) -> dict[str, Any]:
    """Return the recipe with the pauses of its engine, so that validation expects the products that lists may show."""
    validation = recipe.get("validation") or {}
    # Pauses that the recipe names itself win.
    if not pauses or not isinstance(validation, Mapping) or validation.get("repeat_after_days"):
        return dict(recipe)
    return {**recipe, "validation": {**validation, "repeat_after_days": dict(pauses)}}


async def _is_stored(stores: Stores, app: App, run_id: str) -> bool:
    """Return whether a run exists; asked for apps with bounds only."""
    bounded = app.settings.max_trainings or app.settings.max_storage_mb
    return bool(bounded) and await stores.runs.get(app.app_id, run_id) is not None


async def check_engine(stores: Stores, app_id: str, engine_id: str) -> App:
    """Check that an app and its engine exist, and return the app.

    Errors:
        NotFound: one does not exist; the message lists the existing ones
    """
    book = await stores.access.read_all()
    if app_id not in book.apps:
        app_ids = ", ".join(sorted(book.apps)) or "none"
        raise NotFound(f"there is no app named {app_id}; there are: {app_ids}")
    if await stores.engines.get(app_id, engine_id) is None:
        engines = ", ".join(engine.engine_id for engine in await stores.engines.all(app_id))
        advice = (
            f"there are: {engines}; `kiosk engines create` makes another one"
            if engines
            else "it has none yet: the engine `default` comes with the first product"
        )
        raise NotFound(f"app {app_id} has no engine {engine_id}; {advice}")
    return book.apps[app_id]


async def check_promotable(stores: Stores, app_id: str) -> None:
    """Check that an app accepts promotions; trainings and evaluations are always allowed.

    Errors:
        ReadOnly: the app is a playground
    """
    app = (await stores.access.read_all()).apps.get(app_id)
    if app is not None and app.read_only:
        raise ReadOnly(f"{messages.PLAYGROUND} Name another app, or leave out --promote.")


async def get_run(stores: Stores, app_id: str, run_id: str) -> Run:
    """Return a run.

    Errors:
        NotFound: the run does not exist
    """
    run = await stores.runs.get(app_id, run_id)
    if run is None:
        raise NotFound(f"app {app_id} has no run {run_id}; see `kiosk runs list {app_id}`")
    return run


async def update_run(stores: Stores, run: Run, change: Callable[[Run], Run | None]) -> Run | None:
    """Apply a change to the newest record of a run and return it; None if `change` returns None.

    Errors:
        Conflict: other processes changed the record during every attempt
    """
    current: Run | None = run
    for _ in range(_TRIES):
        after = None if current is None else change(current)
        if after is None:
            return None
        written = await stores.runs.compare_and_set(after)
        if written is not None:
            return written
        # Another process wrote in between; the change is applied again to what it wrote.
        current = await stores.runs.get(run.app_id, run.run_id)
    raise Conflict(f"run {run.run_id} is being changed by many at once")


async def cancel_training(stores: Stores, app_id: str, run_id: str, now_ms: int) -> Run:
    """Cancel a run and return it; its worker stops within seconds and writes no more.

    Errors:
        NotFound: the run does not exist
        Conflict: the run has ended already
    """
    run = await get_run(stores, app_id, run_id)
    ended = await update_run(stores, run, lambda now: cancel_run(now, now_ms))
    if ended is None:
        now: Any = await get_run(stores, app_id, run_id)
        raise Conflict(f"run {run_id} has ended already: {now.status}")
    return ended
