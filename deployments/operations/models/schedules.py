"""Use cases of schedules: engines that are trained again by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.run import Schedule, newest_slot, next_slot, period_of
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import check_visible, list_visible
from deployments.operations.models.recipes import choose_recipe

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class OfSchedule(OfApp):
    """One schedule."""

    schedule: str = Field(description="A name for the schedule.")


class AddSchedule(OfSchedule):
    """A schedule to add."""

    when: str = "nightly"
    "`nightly`, `daily HH:MM` (UTC), or `every N` with m, h or d."
    engine_id: str = "default"
    recipe: Annotated[str | dict[str, Any], Field(union_mode="left_to_right")] = "default"
    "A built-in recipe by its name, or all fields of one; kept as it is now."
    promote: bool = True
    "Let the result serve if the gate allows."


class ChangeSchedule(OfSchedule):
    """What to change of a schedule; what is not named stays."""

    when: str | None = None
    "`nightly`, `daily HH:MM` (UTC), or `every N` with m, h or d."
    recipe: str | None = None
    "A built-in recipe by its name; kept as it is now."
    promote: bool | None = None
    "Let the result serve if the gate allows."


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """One schedule at one moment."""

    schedule: Schedule
    at_ms: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        schedule = self.schedule
        return {
            "app_id": schedule.app_id,
            "name": schedule.name,
            "engine_id": schedule.engine_id,
            "when": schedule.when,
            "recipe": str(schedule.recipe.get("name", "")),
            "promote": schedule.promote,
            "last": iso_ms(schedule.last_slot) if schedule.last_slot else None,
            "next": iso_ms(next_slot(schedule, self.at_ms)),
        }

    def to_lines(self) -> ResultLines:
        """Return when the engine is trained."""
        schedule = self.schedule
        due = iso_ms(next_slot(self.schedule, self.at_ms))[:16]
        return (
            f"Engine {schedule.engine_id} of {schedule.app_id} is trained {schedule.when}, the next time {due} UTC.",
        )


@dataclass(frozen=True, slots=True)
class ScheduleList:
    """Schedules at one moment."""

    schedules: tuple[ScheduleView, ...]

    def to_lines(self) -> ResultLines:
        """Return a table of the schedules."""
        rows = []
        for view in self.schedules:
            facts = view.to_dict()
            rows.append(
                (
                    *(facts[name] for name in ("app_id", "name", "engine_id", "when", "recipe")),
                    "yes" if facts["promote"] else "no",
                    (facts["last"] or "never")[:16],
                    facts["next"][:16],
                )
            )
        return (
            ResultTable(
                ("app", "name", "engine", "when", "recipe", "promotes", "fired last", "due (UTC)"),
                rows,
                "There are no schedules; `kiosk schedules add` makes one.",
                droppable=("engine", "fired last"),
            ),
        )


@operation("schedules.list_all", "GET", "/schedules", scope="person")
async def list_all_schedules(services: AdminServices, _: Arguments) -> ScheduleList:
    """List the schedules of all apps."""
    return await _list_schedules(services, await list_visible(services))


@operation("schedules.list", "GET", "/apps/{app_id}/schedules")
async def list_schedules(services: AdminServices, given: OfApp) -> ScheduleList:
    """List the schedules of an app, when they fired last and when they are due."""
    return await _list_schedules(services, [await check_visible(services, given.app_id)])


async def _list_schedules(services: AdminServices, app_ids: Sequence[str]) -> ScheduleList:
    schedules = [schedule for app_id in app_ids for schedule in await services.stores.schedules.all(app_id)]
    return ScheduleList(tuple(ScheduleView(schedule, services.now_ms()) for schedule in schedules))


def check_schedule(given: OfSchedule, when: str) -> None:
    """Check the name and the time of a new schedule.

    Errors:
        Invalid: one is not allowed; the message shows what is
    """
    if not _NAME.fullmatch(given.schedule):
        raise Invalid(
            f"{given.schedule!r} is no name for a schedule: up to 40 lower case letters, digits and -; "
            f'the time comes with another option: kiosk schedules add {given.app_id} NAME --when "nightly"'
        )
    period_of(when)


@operation("schedules.add", "POST", "/apps/{app_id}/schedules", "editor")
async def add_schedule(services: AdminServices, given: AddSchedule) -> ScheduleView:
    """Train an engine again and again.

    Errors:
        Invalid: the name, the time or the recipe is not allowed
        NotFound: no such app, engine or recipe
        Conflict: the app has a schedule of that name
    """
    check_schedule(given, given.when)
    recipe = await choose_recipe(given.recipe, {})
    from jobs.refresh.runs.run_commands import check_engine, check_memory_limit

    app_id = given.app_id
    name = given.schedule
    now_ms = services.now_ms()
    made = Schedule(
        app_id=app_id,
        name=name,
        engine_id=given.engine_id,
        when=given.when,
        recipe=recipe.model_dump(mode="json"),
        promote=given.promote,
        created_at=now_ms,
    )
    check_memory_limit(made.recipe, await check_engine(services.stores, app_id, given.engine_id))
    if not await services.stores.schedules.add(made):
        raise Conflict(
            f"app {app_id} has a schedule {name} already; remove it first: "
            f"kiosk schedules remove {app_id} {name}"
        )
    return ScheduleView(made, now_ms)


async def _read_schedule(services: AdminServices, given: OfSchedule) -> ScheduleView | None:
    for schedule in await services.stores.schedules.all(given.app_id):
        if schedule.name == given.schedule:
            return ScheduleView(schedule, services.now_ms())
    return None


@operation(
    "schedules.change", "PATCH", "/apps/{app_id}/schedules/{schedule}", "editor", read_before=_read_schedule
)
async def change_schedule(services: AdminServices, given: ChangeSchedule) -> ScheduleView:
    """Change when an engine is trained, with which recipe, and whether the result may serve.

    Errors:
        Invalid: the time or the recipe is not allowed
        NotFound: no such schedule or recipe
    """
    view = await _read_schedule(services, given)
    if view is None:
        raise _no_schedule_error(given)
    changes: dict[str, Any] = {}
    if given.when is not None:
        period_of(given.when)
        # a slot of the new time that has passed already is not made up for
        changes |= {"when": given.when, "last_slot": newest_slot(given.when, services.now_ms())}
    if given.recipe is not None:
        recipe = await choose_recipe(given.recipe, {})
        from jobs.refresh.runs.run_commands import check_engine, check_memory_limit

        changes["recipe"] = recipe.model_dump(mode="json")
        check_memory_limit(
            changes["recipe"], await check_engine(services.stores, given.app_id, view.schedule.engine_id)
        )
    if given.promote is not None:
        changes["promote"] = given.promote
    changed = await services.stores.schedules.update(
        given.app_id, given.schedule, lambda stored: stored.model_copy(update=changes)
    )
    if changed is None:
        raise _no_schedule_error(given)
    return ScheduleView(changed, services.now_ms())


@operation(
    "schedules.remove", "DELETE", "/apps/{app_id}/schedules/{schedule}", "editor", read_before=_read_schedule
)
async def remove_schedule(services: AdminServices, given: OfSchedule) -> PlainResult:
    """Remove a schedule; a run under way goes on.

    Errors:
        NotFound: no such schedule
    """
    if not await services.stores.schedules.remove(given.app_id, given.schedule):
        raise _no_schedule_error(given)
    return PlainResult(
        {"app_id": given.app_id, "name": given.schedule, "removed": True},
        (f"Schedule {given.schedule} of {given.app_id} is removed.",),
    )


def _no_schedule_error(given: OfSchedule) -> NotFound:
    return NotFound(
        f"app {given.app_id} has no schedule {given.schedule}; see `kiosk schedules list {given.app_id}`"
    )
