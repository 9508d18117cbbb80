"""Experiments in dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster.records.experiment import Experiment, Exposure
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.engines.experiments import GUARD, AssignMode, ExperimentBook, ExperimentStore


@dataclass(slots=True)
class _Assignments:
    by_user_key: dict[str, Exposure] = field(default_factory=dict)
    others: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))


@dataclass(slots=True)
class _App:
    version: int = 0
    experiments: dict[str, Experiment] = field(default_factory=dict)
    given: dict[str, _Assignments] = field(default_factory=lambda: defaultdict(_Assignments))
    served: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


class MemoryExperiments(ExperimentStore):
    """`ExperimentStore` in dictionaries."""

    def __init__(self) -> None:
        self._apps: dict[str, _App] = defaultdict(_App)
        self._strangers: Counter[tuple[str, int, str]] = Counter()

    async def version(self, app_id: str) -> int:
        return self._apps[app_id].version

    async def read_all(self, app_id: str) -> ExperimentBook:
        app = self._apps[app_id]
        experiments = sorted(
            app.experiments.values(), key=lambda experiment: (experiment.created_at, experiment.experiment_id)
        )
        return ExperimentBook(app.version, tuple(experiments))

    async def compare_and_set(self, experiment: Experiment, version: int) -> Experiment | None:
        app = self._apps[experiment.app_id]
        before = app.experiments.get(experiment.experiment_id)
        if app.version != version or (before.revision if before else 0) != experiment.revision:
            return None
        for other in app.experiments.values():
            if other.slug == experiment.slug and other.experiment_id != experiment.experiment_id:
                return None
        after = experiment.model_copy(update={"revision": experiment.revision + 1})
        app.experiments[experiment.experiment_id] = after
        app.version += 1
        return after

    async def assign(
        self,
        experiment: Experiment,
        user_keys: Sequence[str],
        proposed: Exposure | None,
        mode: AssignMode,
        writer: BrowserWriteLimits | None = None,
    ) -> Exposure | None:
        given = self._apps[experiment.app_id].given[experiment.experiment_id]
        variant_ids = {variant.variant_id for variant in experiment.variants}
        exposures = [given.by_user_key.get(user_key) for user_key in user_keys]
        winner = next(
            (
                exposure
                for exposure in exposures
                if exposure is not None and exposure.variant_id in variant_ids
            ),
            None,
        )
        person = user_keys[0] if winner is None else winner.person
        if mode != "read" and proposed is not None and (mode == "force" or winner is None):
            winner = replace(proposed, person=person)
        if mode != "read" and winner is not None:
            for user_key in user_keys:
                is_stored = user_key in given.by_user_key
                if not is_stored and not self._admit(experiment.app_id, writer):
                    continue
                if given.by_user_key.get(user_key) != winner:
                    given.by_user_key[user_key] = winner
                    if user_key != person:
                        given.others[person][user_key] = None
        return winner

    def _admit(self, app_id: str, writer: BrowserWriteLimits | None) -> bool:
        if writer is None:
            return True
        mine, everybody = (app_id, writer.day, writer.address), (app_id, writer.day, "")
        if (
            self._strangers[mine] >= writer.users_per_address
            or self._strangers[everybody] >= writer.users_per_day
        ):
            return False
        self._strangers.update((mine, everybody))
        return True

    async def erase_exposures(self, app_id: str, user_keys: Sequence[str]) -> int:
        app = self._apps[app_id]
        return sum(_erase(app.given[name], user_key) for name in app.experiments for user_key in user_keys)

    async def exposures(self, app_id: str, experiment_id: str) -> AsyncIterator[tuple[str, Exposure]]:
        for user_key, exposure in list(self._apps[app_id].given[experiment_id].by_user_key.items()):
            yield user_key, exposure

    async def record_served(self, app_id: str, experiment_id: str, counts: Mapping[str, int]) -> None:
        self._apps[app_id].served[experiment_id].update(counts)

    async def clear_guard_counts(self, app_id: str, experiment_id: str) -> None:
        counts = self._apps[app_id].served[experiment_id]
        for name in [name for name in counts if f":{GUARD}" in name]:
            del counts[name]

    async def served(self, app_id: str, experiment_id: str) -> dict[str, int]:
        return dict(self._apps[app_id].served[experiment_id])


def _erase(given: _Assignments, user_key: str) -> int:
    exposure = given.by_user_key.get(user_key)
    person = exposure.person if exposure is not None else user_key
    names = [*given.others.pop(person, ()), person, user_key]
    return sum(given.by_user_key.pop(name, None) is not None for name in names)
