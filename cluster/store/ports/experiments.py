"""What the store of experiments promises; part of `ports`, and kept to the same rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from cluster.records.experiment import Experiment
from cluster.records.exposure import Exposure
from cluster.store.ports.interactions import BrowserWriter

AssignMode = Literal["read", "take", "force"]
"What an assignment may do: only look; give the proposed variant to whoever has none; give it whatever they had."


@dataclass(frozen=True, slots=True)
class ExperimentBook:
    """All experiments of an app as they were at one version."""

    version: int
    experiments: tuple[Experiment, ...]
    "Oldest first."

    def find(self, named: str) -> Experiment | None:
        """Find one by id or slug; an id wins."""
        by_slug = None
        for experiment in self.experiments:
            if experiment.experiment_id == named:
                return experiment
            if experiment.slug == named:
                by_slug = experiment
        return by_slug


class ExperimentStore(Protocol):
    """Experiments, who met which variant of them, and how well each was served."""

    async def version(self, app_id: str) -> int:
        """Read the counter that every change of an experiment increments; 0 when there never was one."""
        ...

    async def read_all(self, app_id: str) -> ExperimentBook: ...

    async def compare_and_set(self, experiment: Experiment, version: int) -> Experiment | None:
        """Write an experiment whose stored revision is still this one's (0: none is stored) while the app's
        version is still the one the writer read, and return it with the next revision.

        None, and nothing is written, when somebody wrote meanwhile or another experiment has the slug. The version
        is what lets a writer rely on the experiments beside it: no two slices of a layer can be taken at once.
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
        """Get or set what a person was given, known under one or two reader ids, the user's first; one step.

        What the first of them has wins and is given to the others; a variant the experiment no longer has counts
        as none. None: nothing was given, and nothing proposed. With a `writer` only so many new readers are
        remembered on a day; the others are told what was proposed.
        """
        ...

    async def erase_exposures(self, app_id: str, readers: Sequence[str]) -> int:
        """Forget, in all experiments, what these readers and whoever they turned out to be were given."""
        ...

    def exposures(self, app_id: str, experiment_id: str) -> AsyncIterator[tuple[str, Exposure]]:
        """Go through reader ids and what they were given; in no order, while others may write."""
        ...

    async def record_served(self, app_id: str, experiment_id: str, counts: Mapping[str, int]) -> None:
        """Add to the counters of how well variants were served: `<variant id>:<what>` -> how often."""
        ...

    async def served(self, app_id: str, experiment_id: str) -> dict[str, int]: ...
