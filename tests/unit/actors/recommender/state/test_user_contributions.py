from __future__ import annotations

import numpy as np

from actors.recommender.state.events import EventArrays
from actors.recommender.state.user_contributions import UserContributions

NOW = 1_772_452_800_000
MINUTE = 60_000


def _note(ledger: UserContributions, *interactions: tuple[str, int, int]) -> None:
    events = EventArrays.of(
        [
            (ledger.get_code(user_key), row, NOW + minute * MINUTE, 0.5, False)
            for user_key, row, minute in interactions
        ]
    )
    ledger.record(events, np.full(len(events), 0.5))


def test_a_reader_keeps_the_code() -> None:
    ledger = UserContributions()
    assert ledger.get_code("u:a") == ledger.get_code("u:a") != ledger.get_code("u:b")


def test_the_tail_is_the_running_session_oldest_first() -> None:
    ledger = UserContributions()
    _note(ledger, ("u:a", 1, 0), ("u:b", 9, 1), ("u:a", 2, 90))
    _note(ledger, ("u:a", 3, 100))
    tail = ledger.read_events(ledger.read_session_tail(ledger.get_code("u:a"), NOW + 110 * MINUTE, 9))
    assert tail.rows.tolist() == [2, 3]
    assert len(ledger.read_session_tail(ledger.get_code("u:a"), NOW + 110 * MINUTE, 1)) == 1
    assert ledger.read_session_tail(ledger.get_code("u:a"), NOW + 200 * MINUTE, 9) == []
    assert ledger.read_session_tail(ledger.get_code("u:new"), NOW, 9) == []


def test_a_reader_taken_back_leaves_the_others_untouched() -> None:
    ledger = UserContributions()
    _note(ledger, ("u:a", 1, 0), ("u:b", 2, 1), ("u:a", 3, 2))
    events, votes = ledger.remove_user("u:a")
    assert events.rows.tolist() == [1, 3]
    assert votes.tolist() == [0.5, 0.5]
    assert len(ledger.remove_user("u:a")[0]) == 0
    assert ledger.remove_user("u:b")[0].rows.tolist() == [2]


def test_who_comes_back_after_being_forgotten_is_somebody_new() -> None:
    ledger = UserContributions()
    _note(ledger, ("u:a", 1, 0))
    old = ledger.get_code("u:a")
    ledger.remove_user("u:a")
    assert ledger.get_code("u:a") != old
    assert ledger.read_session_tail(ledger.get_code("u:a"), NOW, 9) == []


def test_the_ledger_stays_within_its_limit_and_keeps_the_newest() -> None:
    ledger = UserContributions(limit=100)
    for number in range(1_000):
        _note(ledger, (f"u:{number % 7}", number, number))
    assert len(ledger) <= 100
    kept = [row for user in range(7) for row in ledger.remove_user(f"u:{user}")[0].rows.tolist()]
    assert max(kept) == 999
    assert sorted(kept) == list(range(min(kept), 1_000))
