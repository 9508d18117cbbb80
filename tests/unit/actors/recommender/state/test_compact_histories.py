from __future__ import annotations

import numpy as np
import pytest

from actors.recommender.state.compact_histories import (
    MINUTE_MS,
    MOST_EVENTS,
    CompactHistories,
    drop_events,
    unpack_events,
)
from actors.recommender.state.events import KIND_CODES, EventArrays

MINUTE = 29_000_000
"A time, in minutes since 1970."
ADA, BOB = 77, -12


def _events(*rows: int, kind: str = "like", weight: float = 0.6, minute: int = MINUTE) -> EventArrays:
    return EventArrays.of(
        [(0, row, (minute + at) * MINUTE_MS + 31, weight, KIND_CODES[kind]) for at, row in enumerate(rows)]
    )


def _record(histories: CompactHistories, user: int, events: EventArrays) -> None:
    histories.record(np.full(len(events), user), events)


def _rows(histories: CompactHistories, user: int) -> list[int]:
    rows: list[int] = unpack_events(histories.find(user)).rows.tolist()
    return rows


@pytest.mark.parametrize("kind", list(KIND_CODES))
@pytest.mark.parametrize("weight", [-1.0, -0.5, 0.05, 0.3, 1.0])
def test_an_event_comes_back_as_it_was(kind: str, weight: float) -> None:
    histories = CompactHistories()
    _record(histories, ADA, _events(5, 67_000_000, kind=kind, weight=weight))
    columns = unpack_events(histories.find(ADA))
    assert columns.rows.tolist() == [5, 67_000_000]
    assert columns.at_ms.tolist() == [MINUTE * MINUTE_MS, (MINUTE + 1) * MINUTE_MS]
    assert columns.weights == pytest.approx([weight] * 2, abs=0.5 / 31)
    assert columns.kinds.tolist() == [KIND_CODES[kind]] * 2


def test_loaded_events_come_before_those_of_the_log() -> None:
    histories = CompactHistories()
    histories.add_many(np.array([ADA, BOB, ADA]), _events(1, 2, 3))
    _record(histories, ADA, _events(4))
    _record(histories, 0, _events(9))
    assert _rows(histories, ADA) == [1, 3, 4]
    assert _rows(histories, BOB) == [2]
    assert _rows(histories, 5) == []
    assert [histories.count(user) for user in (ADA, BOB, 0, 5)] == [3, 1, 0, 0]


def test_the_parts_make_no_difference() -> None:
    rng = np.random.default_rng(1)
    users, events = rng.integers(1, 9, 2_000), _events(*rng.integers(0, 500, 2_000).tolist())
    loaded, followed, both = CompactHistories(), CompactHistories(newer_limit=150), CompactHistories()
    loaded.add_many(users, events)
    for first in range(0, 2_000, 40):
        part = np.arange(first, first + 40)
        followed.record(users[part], events.select(part))
    both.add_many(users[:900], events.select(np.arange(900)))
    both.record(users[900:], events.select(np.arange(900, 2_000)))
    for user in range(1, 9):
        assert _rows(loaded, user) == _rows(followed, user) == _rows(both, user)
        assert len(_rows(loaded, user)) == loaded.count(user) == followed.count(user)


def test_an_erased_user_is_gone_from_both_parts_and_may_return() -> None:
    histories = CompactHistories(newer_limit=10)
    histories.add_many(np.array([ADA, BOB]), _events(1, 2))
    _record(histories, ADA, _events(3))
    histories.erase(ADA)
    histories.erase(ADA)
    assert (_rows(histories, ADA), _rows(histories, BOB)) == ([], [2])
    _record(histories, ADA, _events(4))
    assert _rows(histories, ADA) == [4]
    _record(histories, BOB, _events(*range(20)))
    assert (_rows(histories, ADA), len(histories)) == ([4], 22)


def test_a_person_keeps_the_newest_events() -> None:
    loaded, followed = CompactHistories(), CompactHistories()
    events = _events(*range(MOST_EVENTS + 300))
    loaded.add_many(np.full(len(events), ADA), events)
    _record(followed, ADA, events)
    for histories in (loaded, followed):
        assert _rows(histories, ADA) == list(range(300, MOST_EVENTS + 300))


def test_old_events_that_arrive_late_replace_no_newer_ones() -> None:
    newest, late = _events(*range(MOST_EVENTS)), _events(*range(9_000, 9_100), minute=MINUTE - 200)
    loaded, followed, merged = CompactHistories(), CompactHistories(), CompactHistories(newer_limit=50)
    loaded.add_many(np.full(len(late), ADA), late)
    _record(loaded, ADA, newest)
    for histories in (followed, merged):
        histories.add_many(np.full(len(newest), ADA), newest)
        _record(histories, ADA, late)
    for histories in (loaded, followed, merged):
        assert sorted(_rows(histories, ADA)) == list(range(MOST_EVENTS))


def test_an_app_keeps_the_newest_events() -> None:
    histories = CompactHistories(limit=100)
    histories.add_many(np.arange(1, 501), _events(*range(500)))
    assert len(histories) == 100
    assert _rows(histories, 500) == [499]
    assert _rows(histories, 400) == []


def test_erased_events_go_from_a_full_app() -> None:
    histories = CompactHistories(limit=6, newer_limit=2)
    histories.add_many(np.full(5, ADA), _events(*range(5)))
    histories.erase(ADA)
    _record(histories, ADA, _events(5, 6, 7))
    assert len(histories) == 3
    assert _rows(histories, ADA) == [5, 6, 7]


def test_an_event_takes_eight_bytes() -> None:
    histories = CompactHistories()
    users = np.repeat(np.arange(1, 1_001), 100)
    histories.add_many(users, _events(*[7] * 100_000))
    assert histories.nbytes == 100_000 * 8 + 1_000 * 16


def test_events_that_a_list_has_are_dropped_by_row_type_and_minute() -> None:
    histories = CompactHistories()
    _record(histories, ADA, _events(1, 2, 3, 4))
    at_ms = (MINUTE + 2) * MINUTE_MS
    left = drop_events(
        histories.find(ADA),
        (3, 4),
        (KIND_CODES["like"], KIND_CODES["click"]),
        (at_ms + 59_999, at_ms + MINUTE_MS),
    )
    assert unpack_events(left).rows.tolist() == [1, 2, 4]
    later = drop_events(histories.find(ADA), [3], [KIND_CODES["like"]], [at_ms + 99 * MINUTE_MS])
    assert len(later) == 4


def test_an_event_before_1970_is_left_out_as_it_was_packed() -> None:
    histories = CompactHistories()
    _record(histories, ADA, _events(5, minute=-90))
    _record(histories, ADA, _events(6))
    left = drop_events(histories.find(ADA), [5], [KIND_CODES["like"]], [-90 * MINUTE_MS])
    assert unpack_events(left).rows.tolist() == [6]
