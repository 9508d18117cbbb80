"""Create and edit experiments, and change their status.

    lifecycle = ExperimentLifecycle(stores, SystemClock())
    variants = [{"name": "now"}, {"name": "blue", "engine_id": "blue"}]
    await lifecycle.create("production", [{"name": "Blue", "variants": variants}])
    await lifecycle.start("production", "blue")

Every step reads all experiments of the app, decides, and writes only if no other process wrote meanwhile. Free slices
of a layer and free slugs are therefore still free when the step is written.

A draft is JSON that a person wrote:

    {"name": "Paywall after 3 or 5", "goal": ["subscribe"], "traffic": 0.5, "layer": "paywall", "slice": [0, 0.5],
     "variants": [{"name": "three"}, {"name": "five", "weight": 1, "configuration": {"free": 5}}]}

The status decides what an edit may change:

    draft                everything
    scheduled, active    name, end, weights, and traffic upwards: assigned users keep their variant
    over                 the name

More traffic keeps all users who had entered, because a user's position does not move. Less traffic would exclude
users who had met the experiment. After a change of weights, users who met it before and after are not alike. The report
counts only users who met it after the change.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
import uuid
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from pydantic import ValidationError

from cluster.clock import Clock, iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.experiment import LISTS, STEPS, Experiment, ExperimentUpdate, Status, can_overlap
from cluster.records.field_types.record_changes import with_changes
from cluster.records.interaction import INTERACTION_TYPES
from cluster.store.engines.experiments import ExperimentBook
from cluster.store.stores import Stores

_TRIES = 8

ExperimentChange = Callable[[Experiment, int], dict[str, Any]]


def _new_id() -> str:
    return str(uuid.uuid4())


def _new_salt() -> str:
    return secrets.token_hex(12)


class ExperimentLifecycle:
    """Creates experiments and changes their status. API replicas see changes within a second."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    async def create(self, app_id: str, drafts: Sequence[Any]) -> list[Experiment]:
        """Create experiments from drafts, all with the status `Draft`; none when one of them is invalid.

        Errors:
            Invalid: a draft makes no sense; Conflict: a slug is taken
        """
        now_ms = self._clock.now_ms()
        made = build_experiments(drafts, app_id, now_ms=now_ms)
        book = await self._stores.experiments.read_all(app_id)
        for experiment in made:
            if book.find(experiment.slug) is not None:
                raise Conflict(
                    f"there is already an experiment {experiment.slug!r}; choose another slug or name"
                )
        return [await self._add(experiment) for experiment in made]

    async def list_experiments(self, app_id: str) -> list[Experiment]:
        """List the experiments of an app, oldest first."""
        return list((await self._stores.experiments.read_all(app_id)).experiments)

    async def get(self, app_id: str, named: str) -> Experiment:
        """Find an experiment by id or slug.

        Errors:
            NotFound: there is none
        """
        return _get_experiment(await self._stores.experiments.read_all(app_id), app_id, named)

    async def start(self, app_id: str, named: str) -> Experiment:
        """Start an experiment now, also a paused one.

        Errors:
            NotFound: no such experiment; or an engine or a rule of its variants does not exist
            Conflict: another one has its part of the layer
            Invalid: its status does not allow the start, or all its variants serve the same
        """
        # Before the start: counts of the last run must not pause the new one.
        await self._forget_guard_counts(app_id, named)
        return await self._change_status(
            app_id,
            named,
            "Active",
            lambda experiment, now: {
                "starts_at": now,
                "ends_at": _future_end(experiment, now),
                "paused_by": "",
            },
        )

    async def schedule(
        self, app_id: str, named: str, starts_at: int, ends_at: int | None = None
    ) -> Experiment:
        """Schedule an experiment from a time on, perhaps until another; milliseconds since 1970.

        Errors:
            as `start`; Invalid: the times lie in the past or in the wrong order
        """
        now_ms = self._clock.now_ms()
        if starts_at <= now_ms:
            raise Invalid(f"{iso_ms(starts_at)} is past; `start` begins at once")
        if ends_at is not None and ends_at <= starts_at:
            raise Invalid("the end has to be after the start")
        await self._forget_guard_counts(app_id, named)
        return await self._change_status(
            app_id,
            named,
            "Scheduled",
            lambda experiment, now: {"starts_at": starts_at, "ends_at": ends_at, "paused_by": ""},
        )

    async def _forget_guard_counts(self, app_id: str, named: str) -> None:
        """Delete the evidence of guardrails before a new start, unless the experiment runs."""
        before = await self.get(app_id, named)
        if before.guardrails and before.status_at(self._clock.now_ms()) != "Active":
            await self._stores.experiments.clear_guard_counts(app_id, before.experiment_id)

    async def pause(self, app_id: str, named: str, guardrail: str = "") -> Experiment:
        """Pause an experiment: no new user enters, and all users see the first variant until it starts again.

        `guardrail` names what paused it by itself.
        """
        return await self._change_status(
            app_id,
            named,
            "Scheduled",
            lambda experiment, now: {"starts_at": 0, "paused_by": guardrail},
            pausing=True,
        )

    async def complete(self, app_id: str, named: str) -> Experiment:
        """Complete an experiment permanently."""
        return await self._change_status(
            app_id,
            named,
            "Completed",
            lambda experiment, now: {"ends_at": max(now, experiment.starts_at + 1)},
        )

    async def archive(self, app_id: str, named: str) -> Experiment:
        return await self._change_status(app_id, named, "Archived", lambda experiment, now: {})

    async def edit(self, app_id: str, named: str, edit: ExperimentUpdate) -> Experiment:
        """Change an experiment in its current status; users keep the variants that they have.

        Errors:
            NotFound: no such experiment or variant; Invalid: the status does not allow the change
            Conflict: other processes kept changing the experiments of the app
        """
        for _ in range(_TRIES):
            book = await self._stores.experiments.read_all(app_id)
            before = _get_experiment(book, app_id, named)
            # Applied to what is stored now, so a concurrent edit of another field survives.
            after = apply_edit(before, edit, self._clock.now_ms())
            written = (
                before
                if after == before
                else await self._stores.experiments.compare_and_set(after, book.version)
            )
            if written is not None:
                return written
        raise Conflict(f"experiments of {app_id} are being changed by others; try again")

    async def _add(self, experiment: Experiment) -> Experiment:
        for _ in range(_TRIES):
            book = await self._stores.experiments.read_all(experiment.app_id)
            if book.find(experiment.slug) is not None:
                break
            written = await self._stores.experiments.compare_and_set(experiment, book.version)
            if written is not None:
                return written
        raise Conflict(f"experiment {experiment.slug!r} was made by somebody else just now")

    async def _change_status(
        self, app_id: str, named: str, target: Status, change: ExperimentChange, *, pausing: bool = False
    ) -> Experiment:
        for _ in range(_TRIES):
            book = await self._stores.experiments.read_all(app_id)
            before = _get_experiment(book, app_id, named)
            now_ms = self._clock.now_ms()
            _validate_step(before, target, now_ms, pausing)
            after = with_changes(before, {"status": target, **change(before, now_ms)})
            # Checked against the same book that the write compares: a part of the layer can't be taken twice.
            if target in ("Active", "Scheduled") and not pausing:
                _validate_difference(after)
                await self._validate_variants(after)
                _validate_layer(after, book, now_ms)
            written = await self._stores.experiments.compare_and_set(after, book.version)
            if written is not None:
                return written
        raise Conflict(f"experiments of {app_id} are being changed by others; try again")

    async def _validate_variants(self, experiment: Experiment) -> None:
        """Refuse to start a variant that would fail for all its users."""
        app_id = experiment.app_id
        rules = {rule.name for rule in await self._stores.boost_rules.all(app_id)}
        for variant in experiment.variants:
            if variant.engine_id and await self._stores.engines.get(app_id, variant.engine_id) is None:
                raise NotFound(f"variant {variant.slug}: app {app_id} has no engine {variant.engine_id!r}")
            if variant.boost_rule and variant.boost_rule not in rules:
                raise NotFound(
                    f"variant {variant.slug}: app {app_id} has no stored rule {variant.boost_rule!r}"
                )


def _get_experiment(book: ExperimentBook, app_id: str, named: str) -> Experiment:
    experiment = book.find(named)
    if experiment is None:
        raise NotFound(f"app {app_id} has no experiment {named!r}; see `kiosk experiments list {app_id}`")
    return experiment


def _future_end(experiment: Experiment, now_ms: int) -> int | None:
    ends_at = experiment.ends_at
    return ends_at if ends_at is not None and ends_at > now_ms else None


def _validate_step(experiment: Experiment, target: Status, now_ms: int, pausing: bool) -> None:
    stands = experiment.status_at(now_ms)
    if pausing and stands != "Active":
        raise Invalid(f"{experiment.slug} is {stands}; only what is Active can be paused")
    if stands == "Active" and target == "Scheduled" and not pausing:
        raise Invalid(f"{experiment.slug} is Active; pause it before it is scheduled")
    again = stands == target == "Scheduled"
    if target not in STEPS[stands] and not again:
        ways = ", ".join(sorted(STEPS[stands])) or "nothing else"
        raise Invalid(f"{experiment.slug} is {stands}; from there it can become {ways}, not {target}")


def _validate_difference(experiment: Experiment) -> None:
    """Refuse an experiment that would never count anybody."""
    if not experiment.can_be_measured:
        raise Invalid(
            f"{experiment.slug}: all variants serve the same, so no user would be counted. Choose another engine, "
            "snapshot or rule for a variant, or set reports_exposure if your shop reports who met which variant"
        )


def _validate_layer(experiment: Experiment, book: ExperimentBook, now_ms: int) -> None:
    begin, end = _active_window(experiment, now_ms)
    for other in book.experiments:
        if other.status_at(now_ms) not in ("Active", "Scheduled") or not can_overlap(experiment, other):
            continue
        others_begin, others_end = _active_window(other, now_ms)
        if begin < others_end and others_begin < end:
            raise Conflict(
                f"{experiment.slug} and {other.slug} ({other.status_at(now_ms)}) would share users: in layer "
                f"{experiment.layer} one has {_format_slice(experiment)} and the other {_format_slice(other)}"
            )


def _active_window(experiment: Experiment, now_ms: int) -> tuple[float, float]:
    """Return the times between which it occupies its part of the layer; a paused one does."""
    begin = max(experiment.starts_at, now_ms) if experiment.status == "Scheduled" else now_ms
    return begin, inf if experiment.ends_at is None else experiment.ends_at


def _format_slice(experiment: Experiment) -> str:
    return f"{experiment.slice[0]:g} to {experiment.slice[1]:g}"


_SERVER_FIELDS = (
    "app_id",
    "experiment_id",
    "status",
    "starts_at",
    "ends_at",
    "created_at",
    "weights_at",
    "paused_by",
    "revision",
)
"Fields that a draft may not have: the server generates them, or they result from a step of the life cycle."


def parse_drafts(written: Any) -> list[Any] | None:
    """Return the drafts of a document: one, an array, or an object with `experiments`; None when there are none."""
    if isinstance(written, Mapping):
        written = written["experiments"] if "experiments" in written and "name" not in written else [written]
    return list(written) if isinstance(written, list) and written else None


def build_experiments(items: Sequence[Any], app_id: str, *, now_ms: int) -> list[Experiment]:
    """Build experiments from drafts; generate ids, salts and missing slugs.

    Errors:
        Invalid: names the draft, the field and the problem
    """
    results = [_build_experiment(at, item, app_id, now_ms=now_ms) for at, item in enumerate(items)]
    slugs = [experiment.slug for experiment in results]
    for at, slug in enumerate(slugs):
        if slug in slugs[:at]:
            raise Invalid(f"experiments.{at}.slug is invalid. There are two experiments {slug!r} in the file")
    return results


def slug_from_name(name: str) -> str:
    """Return a slug made from a name; empty when no character of the name is allowed in a slug."""
    # Accents go from their letters; letters without an ASCII form go wholly.
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:63].rstrip("-_")


def _build_experiment(at: int, item: Any, app_id: str, *, now_ms: int) -> Experiment:
    if not isinstance(item, Mapping):
        raise Invalid(f"experiments.{at} is invalid. An experiment is an object")
    for name in _SERVER_FIELDS:
        if name in item:
            raise Invalid(f"experiments.{at}.{name} is invalid. It is not for a draft to say")
    written: dict[str, Any] = {"entry_salt": _new_salt(), "variant_salt": _new_salt(), **item}
    # A millisecond apart, so that the drafts of one document keep their order.
    written |= {"app_id": app_id, "experiment_id": _new_id(), "created_at": now_ms + at}
    written.setdefault("slug", slug_from_name(str(item.get("name", ""))))
    variants = item.get("variants", ())
    if isinstance(variants, Sequence) and not isinstance(variants, str):
        written["variants"] = [_build_variant(variant) for variant in variants]
    try:
        experiment = Experiment.model_validate(written)
    except ValidationError as error:
        raise Invalid(_error_message(at, error)) from None
    for kind in experiment.goal:
        if kind not in INTERACTION_TYPES:
            raise Invalid(f"experiments.{at}.goal is invalid. There is no interaction of type {kind!r}")
    for goal in experiment.goals:
        for kind in (*goal.types, *goal.per):
            if kind not in INTERACTION_TYPES and kind != LISTS:
                raise Invalid(
                    f"experiments.{at}.goals.{goal.name} is invalid. There is no interaction of type {kind!r}"
                )
    return experiment


def _build_variant(written: Any) -> Any:
    if not isinstance(written, Mapping):
        return written
    return {"variant_id": _new_id(), "slug": slug_from_name(str(written.get("name", ""))), **written}


def _error_message(at: int, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in ("experiments", at, *first["loc"]))
    return f"{place} is invalid. {first['msg'].removeprefix('Value error, ').capitalize()}"


_REFUSALS = {
    "goal": "what counts as a conversion can't change once users met it",
    "layer": "its users would change places",
    "slice": "its users would change places",
}


def apply_edit(experiment: Experiment, edit: ExperimentUpdate, now_ms: int) -> Experiment:
    """Return an experiment with an edit applied.

    Errors:
        Invalid: the status does not allow the change, or it makes no sense; NotFound: no such variant
    """
    stands = experiment.status_at(now_ms)
    changes = _list_changes(experiment, edit)
    for name, why in _REFUSALS.items():
        if stands != "Draft" and name in changes:
            raise Invalid(f"{experiment.slug} is {stands}; {why}. Complete it and make another one")
    if stands in ("Completed", "Archived") and set(changes) - {"name"}:
        raise Invalid(f"{experiment.slug} is {stands}; only its name can be changed")
    excluding = experiment.find_exclusion(changes)
    if stands != "Draft" and excluding:
        raise Invalid(f"{experiment.slug} is {stands}; {excluding}. Pause or complete it instead")
    ends_at = changes.get("ends_at")
    if ends_at is not None and ends_at <= now_ms:
        raise Invalid(f"{iso_ms(ends_at)} is past; `complete` ends it at once")
    if "variants" in changes and stands != "Draft":
        changes["weights_at"] = now_ms
    try:
        # through plain values, so that variants are validated again too
        after = experiment.model_copy(update=changes)
        checked = Experiment.model_validate(after.model_dump())
        return after.model_copy(
            update={name: getattr(checked, name) for name in changes if name != "variants"}
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise Invalid(f"{place}: {words}" if place else words) from None


def _list_changes(experiment: Experiment, edit: ExperimentUpdate) -> dict[str, Any]:
    """Return the fields that differ; an equal value is no change and never refused."""
    for kind in edit.goal or ():
        if kind not in INTERACTION_TYPES:
            raise Invalid(f"goal: there is no interaction of type {kind!r}")
    changes = edit.list_changes()
    if changes.pop("weights", None):
        changes["variants"] = _apply_weights(experiment, edit.weights)
    if edit.guardrails:
        changes["guardrails"] = {**experiment.guardrails, **edit.guardrails}
    return {name: value for name, value in changes.items() if value != getattr(experiment, name)}


def _apply_weights(experiment: Experiment, weights: Mapping[str, float]) -> tuple[Any, ...]:
    by_id: dict[str, float] = {}
    for named, weight in weights.items():
        variant = experiment.variant(named)
        if variant is None:
            slugs = ", ".join(variant.slug for variant in experiment.variants)
            raise NotFound(f"{experiment.slug} has no variant {named!r}; it has {slugs}")
        by_id[variant.variant_id] = weight
    return tuple(
        variant.model_copy(update={"weight": by_id.get(variant.variant_id, variant.weight)})
        for variant in experiment.variants
    )


def experiment_to_dict(experiment: Experiment, now_ms: int) -> dict[str, Any]:
    """Return an experiment as JSON; `status` is the status now, and only an interleaving has `method`."""
    ends_at = experiment.ends_at
    hidden = {"method"} if experiment.method == "split" else set[str]()
    if not experiment.promote_when_better:
        hidden.add("promote_when_better")
    return {
        **experiment.model_dump(mode="json", exclude=hidden),
        "status": experiment.status_at(now_ms),
        "starts_at": iso_ms(experiment.starts_at) if experiment.starts_at else None,
        "ends_at": iso_ms(ends_at) if ends_at is not None else None,
        "created_at": iso_ms(experiment.created_at),
        "weights_at": iso_ms(experiment.weights_at) if experiment.weights_at else None,
    }
