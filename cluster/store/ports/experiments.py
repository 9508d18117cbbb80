"""The protocol of the store of experiments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.records.experiment import Experiment, Exposure
from cluster.store.ports.interactions import BrowserWriter

AssignMode = Literal["read", "take", "force"]
"Mode of an assignment: only read; give the proposed variant to users without one; replace any variant."


@dataclass(frozen=True, slots=True)
class ExperimentBook:
    """All experiments of an app at one version."""

    version: int
    experiments: tuple[Experiment, ...]
    "Oldest first."

    def find(self, named: str) -> Experiment | None:
        """Return an experiment by id or slug, None when absent; an id wins."""
        by_slug = None
        for experiment in self.experiments:
            if experiment.experiment_id == named:
                return experiment
            if experiment.slug == named:
                by_slug = experiment
        return by_slug


class ExperimentStore(Protocol):
    """Experiments, the users' exposures to their variants, and the counters of served variants."""

    async def version(self, app_id: str) -> int:
        """Return the counter that every change of an experiment increments; 0 before the first."""
        ...

    async def read_all(self, app_id: str) -> ExperimentBook: ...

    async def compare_and_set(self, experiment: Experiment, version: int) -> Experiment | None:
        """Write an experiment if its stored revision and the app's version are unchanged, and return it.

        A stored revision of 0 means that none is stored. The returned experiment has the next revision. Returns
        None, and writes nothing, after a concurrent write or if another experiment has the slug. The version
        protects the other experiments too: two writers can't take the same slice of a layer.
        """
        ...

    async def assign(
        self,
        experiment: Experiment,
        readers: Sequence[str],
        proposed: Exposure | None,
        mode: AssignMode,
        writer: BrowserWriter | None = None,
    ) -> Exposure | None:
        """Return or set the variant of a person with one or two ids, the user's id first; one atomic step.

        The variant of the first id with one wins and applies to the others; a variant that the experiment no longer
        has counts as none. None: no variant exists and none was proposed. With a `writer`, only a limited number of
        new users is stored on a day; for the others the call returns the proposal.
        """
        ...

    async def erase_exposures(self, app_id: str, readers: Sequence[str]) -> int:
        """Erase, in all experiments, the variants of these users and of their linked ids."""
        ...

    def exposures(self, app_id: str, experiment_id: str) -> AsyncIterator[tuple[str, Exposure]]:
        """Iterate over prefixed user ids and their exposures; unordered, while others may write."""
        ...

    async def record_served(self, app_id: str, experiment_id: str, counts: Mapping[str, int]) -> None:
        """Increment the counters of served variants: `<variant id>:<what>` -> count."""
        ...

    async def served(self, app_id: str, experiment_id: str) -> dict[str, int]: ...
