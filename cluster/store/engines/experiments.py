"""Experiments of an app in one hash with a version, and one hash of assignments for each experiment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from cluster.records.experiment import Experiment, Exposure
from cluster.store import keys
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs
from cluster.store.client.script import Script
from cluster.store.data.append_plan import MOST_ADDRESSES, STRANGER_LIFE_S, BrowserWriteLimits
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.sealed_hash import SealedHash

GUARD: Final = "guard."
"Begins the names of the counters that guardrails read, behind the variant's id."

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


_SWAP = Script.load("swap_experiment")
_ASSIGN = Script.load("assign")
_ERASE = Script.load("erase_exposures")
_READ = Script.load("read_experiments")
_PAGE = 1_000


class ExperimentStore:
    """Experiments, the users' exposures to their variants, and the counters of served variants."""

    def __init__(self, server: RedisClient, quarantine: Quarantine) -> None:
        self._server = server
        self._experiments = SealedHash(server, quarantine, Experiment, keys.experiment)

    async def version(self, app_id: str) -> int:
        """Return the counter that every change of an experiment increments; 0 before the first."""
        return int(await self._server.execute("GET", keys.experiment_version(app_id)) or 0)

    async def read_all(self, app_id: str) -> ExperimentBook:
        names = [keys.experiment_version(app_id), keys.experiment(app_id)]
        version, flat = await self._server.run(_READ, names, [])
        experiments = (await self._experiments.open(app_id, flat)).values()
        return ExperimentBook(int(version), tuple(sorted(experiments, key=_age)))

    async def compare_and_set(self, experiment: Experiment, version: int) -> Experiment | None:
        """Write an experiment if its stored revision and the app's version are unchanged, and return it.

        A stored revision of 0 means that none is stored. The returned experiment has the next revision. Returns
        None, and writes nothing, after a concurrent write or if another experiment has the slug. The version
        protects the other experiments too: two writers can't take the same slice of a layer.
        """
        app_id = experiment.app_id
        experiment_id = experiment.experiment_id
        # For the slug before, which the script frees; the revision in the
        # script detects a change since this read.
        (before,) = await self._experiments.get_many(app_id, [experiment_id])
        after = experiment.model_copy(update={"revision": experiment.revision + 1})
        names = [
            keys.experiment(app_id),
            keys.experiment_revision(app_id),
            keys.experiment_slug(app_id),
            keys.experiment_version(app_id),
        ]
        args: list[Argument] = [
            experiment_id,
            experiment.revision,
            self._experiments.seal(app_id, experiment_id, after),
            experiment.slug,
            before.slug if before is not None else "",
            version,
        ]
        return after if await self._server.run(_SWAP, names, args) else None

    async def assign(
        self,
        experiment: Experiment,
        user_keys: Sequence[str],
        proposed: Exposure | None,
        mode: AssignMode,
        writer: BrowserWriteLimits | None = None,
    ) -> Exposure | None:
        """Return or set the variant of a person with one or two ids, the user's id first; one atomic step.

        The variant of the first id with one wins and applies to the others; a variant that the experiment no longer
        has counts as none. None: no variant exists and none was proposed. With a `writer`, only a limited number of
        new users is stored on a day; for the others the call returns the proposal.
        """
        app_id = experiment.app_id
        experiment_id = experiment.experiment_id
        variant_ids = [variant.variant_id for variant in experiment.variants]
        names = [
            keys.exposure(app_id, experiment_id),
            keys.exposure_ids(app_id, experiment_id),
            keys.stranger(app_id, writer.day if writer is not None else 0),
        ]
        # The script puts in the person, which it alone knows.
        packed = replace(proposed, person="").pack() if proposed is not None else ""
        bounds: list[Argument] = []
        if writer is not None:
            bounds = ["stranger", writer.address, writer.users_per_address, writer.users_per_day]
            bounds += [MOST_ADDRESSES, STRANGER_LIFE_S]
        args: list[Argument] = [
            *bounds,
            mode,
            packed,
            len(variant_ids),
            *variant_ids,
            *dict.fromkeys(user_keys),
        ]
        assigned = await self._server.run(_ASSIGN, names, args, hot=True)
        return Exposure.unpack(name_of(assigned)) if assigned else None

    async def erase_exposures(self, app_id: str, user_keys: Sequence[str]) -> int:
        """Erase, in all experiments, the variants of these users and of their linked ids."""
        return await erase_exposures(self._server, app_id, user_keys)

    async def exposures(self, app_id: str, experiment_id: str) -> AsyncIterator[tuple[str, Exposure]]:
        """Iterate over prefixed user ids and their exposures; unordered, while others may write."""
        key = keys.exposure(app_id, experiment_id)
        cursor = b"0"
        # HSCAN may return a field several times while others write.
        seen = set[str]()
        while True:
            cursor, flat = await self._server.execute_slow("HSCAN", key, cursor, "COUNT", _PAGE)
            for name, packed in split_pairs(flat):
                exposure = Exposure.unpack(name_of(packed))
                user_key = name_of(name)
                if exposure is not None and user_key not in seen:
                    seen.add(user_key)
                    yield user_key, exposure
            if cursor == b"0":
                return

    async def record_served(self, app_id: str, experiment_id: str, counts: Mapping[str, int]) -> None:
        """Increment the counters of served variants: `<variant id>:<what>` -> count."""
        key = keys.experiment_served(app_id, experiment_id)
        await asyncio.gather(
            *(self._server.execute_slow("HINCRBY", key, name, count) for name, count in counts.items())
        )

    async def clear_guard_counts(self, app_id: str, experiment_id: str) -> None:
        """Delete the counters that guardrails read: after a new start they judge the requests since then."""
        names = [name for name in await self.served(app_id, experiment_id) if f":{GUARD}" in name]
        if names:
            await self._server.execute_slow("HDEL", keys.experiment_served(app_id, experiment_id), *names)

    async def served(self, app_id: str, experiment_id: str) -> dict[str, int]:
        flat = await self._server.execute_slow("HGETALL", keys.experiment_served(app_id, experiment_id))
        return {name_of(name): int(count) for name, count in split_pairs(flat)}


async def erase_exposures(server: RedisClient, app_id: str, user_keys: Sequence[str]) -> int:
    """Erase the variants of users in all experiments; see `ExperimentStore`."""
    if not user_keys:
        return 0
    names = [name_of(name) for name in await server.execute_slow("HKEYS", keys.experiment(app_id))]
    gone = await asyncio.gather(*(erase_exposures_of(server, app_id, name, user_keys) for name in names))
    return sum(gone)


async def erase_exposures_of(
    server: RedisClient, app_id: str, experiment_id: str, user_keys: Sequence[str]
) -> int:
    """Erase the variants of users in one experiment, which may be deleted."""
    names = [keys.exposure(app_id, experiment_id), keys.exposure_ids(app_id, experiment_id)]
    return int(await server.run(_ERASE, names, list(user_keys)))


def _age(experiment: Experiment) -> tuple[int, str]:
    return experiment.created_at, experiment.experiment_id
