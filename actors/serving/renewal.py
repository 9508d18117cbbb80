"""When an API replica replaces the state of an app by a new load, so that all replicas hold the same state.

A state that followed the change log depends on its history: on the order in which products arrived, on the batches in
which events were counted, on segments that were merged. A state that was just loaded depends on the artifact store
alone. So after writes have ended, and their compaction, each replica loads again beside the state that answers, and
then replaces it. All replicas then return the same lists, those that start later too.

Under a stream of writes without a pause the replicas load again in the same hour, so their histories stay short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actors.recommender.recommender import Recommender
from cluster.artifacts.segments import position_from_offset
from cluster.clock import Clock

QUIET_S = 15.0
"A state is renewed when no change came for so long."
_PAUSE_S = 60.0
"Shortest time between two loads."
_SHARE = 30
"A load that takes one second is repeated after so many seconds at the earliest: 3 % of a processor."
_EVERY_MS = 3_600_000
"Period of the renewals of an app whose writes never pause, by the clock, the same for all replicas."


class RenewalSchedule:
    """Decides when the state of one app is renewed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed_s = self._loaded_s = clock.monotonic_s()
        self._pause_s = _PAUSE_S
        self._period = clock.now_ms() // _EVERY_MS

    def record_change(self) -> None:
        """Record that a change of the log or a promoted snapshot was applied."""
        self._changed_s = self._clock.monotonic_s()

    def record_load(self, took_s: float) -> None:
        """Record that a state was loaded, successfully or not, and how long that took."""
        self._loaded_s = self._clock.monotonic_s()
        self._pause_s = max(_PAUSE_S, _SHARE * took_s)
        self._period = self._clock.now_ms() // _EVERY_MS

    @property
    def is_quiet(self) -> bool:
        """Return whether a renewal is allowed, and no change came for a while."""
        return self._is_allowed and self._clock.monotonic_s() - self._changed_s >= QUIET_S

    @property
    def is_overdue(self) -> bool:
        """Return whether a renewal is allowed and the last load was in an earlier period."""
        return self._is_allowed and self._clock.now_ms() // _EVERY_MS > self._period

    @property
    def _is_allowed(self) -> bool:
        return self._clock.monotonic_s() - self._loaded_s >= self._pause_s


def has_reached(offsets: Mapping[Any, str], others: Mapping[Any, str]) -> bool:
    """Return whether offsets are at or after others, for each kind of record that the others name."""
    return all(
        position_from_offset(offsets.get(noun, "0")) >= position_from_offset(offset)
        for noun, offset in others.items()
    )


def has_caught_up_with(recommender: Recommender, active: Recommender, engine_ids: Iterable[str]) -> bool:
    """Return whether a new state has all records, changes and snapshots of the active one."""
    versions = (
        (state.get_engine_state(engine_id).serving_version for state in (active, recommender))
        for engine_id in engine_ids
    )
    return (
        recommender.overlay.is_damaged <= active.overlay.is_damaged
        and has_reached(recommender.overlay.offsets, active.overlay.offsets)
        and all(old == new for old, new in versions)
    )
