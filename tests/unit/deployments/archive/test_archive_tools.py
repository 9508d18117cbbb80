from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from deployments.archive.archive_tools import MOST_POSITIONS, OffsetSigner

ISSUER = OffsetSigner((bytes(range(32)),))
names = st.text(max_size=40)
positions = st.integers(0, MOST_POSITIONS - 1)


@given(names, names, names, positions)
def test_an_offset_leads_back_to_its_passage(app: str, user: str, product: str, position: int) -> None:
    offset = ISSUER.sign(app, user, product, position)
    assert 0 <= offset < 2**53
    assert ISSUER.verify(app, user, product, offset) == position


@given(positions)
def test_another_replica_with_the_same_key_agrees_and_one_with_another_key_does_not(position: int) -> None:
    offset = ISSUER.sign("news", "ida", "a-1", position)
    assert OffsetSigner((bytes(range(32)),)).sign("news", "ida", "a-1", position) == offset
    assert OffsetSigner((bytes(32),)).verify("news", "ida", "a-1", offset) is None


@given(st.tuples(names, names, names), st.tuples(names, names, names), positions)
def test_an_offset_is_worthless_to_anybody_else_and_for_anything_else(
    mine: tuple[str, str, str], other: tuple[str, str, str], position: int
) -> None:
    if mine != other:
        assert ISSUER.verify(*other, ISSUER.sign(*mine, position)) is None


def test_no_made_up_offset_of_a_hundred_thousand_is_right() -> None:
    chance = random.Random(7)
    for _ in range(100_000):
        assert ISSUER.verify("news", "ida", "a-1", chance.getrandbits(53)) is None


def test_every_neighbour_of_a_good_offset_is_wrong() -> None:
    good = ISSUER.sign("news", "ida", "a-1", 3)
    near = [good + step for step in range(-5000, 5001) if step] + [good ^ 1 << bit for bit in range(53)]
    assert all(ISSUER.verify("news", "ida", "a-1", offset) is None for offset in near)


def test_offsets_do_not_show_the_order_of_passages() -> None:
    offsets = [ISSUER.sign("news", "ida", "a-1", position) for position in range(2000)]
    assert len(set(offsets)) == 2000
    rising = sum(earlier < later for earlier, later in itertools.pairwise(offsets))
    assert 850 < rising < 1150
    low = [offset & MOST_POSITIONS - 1 for offset in offsets]
    assert len(set(low)) > 1600, "the low bits follow the position"


def test_names_run_into_each_other_nowhere() -> None:
    assert ISSUER.verify("news", "id", "aa-1", ISSUER.sign("news", "ida", "a-1", 0)) is None


def test_what_is_no_offset_is_none() -> None:
    assert [ISSUER.verify("a", "b", "c", offset) for offset in (-1, 2**53, 2**64, -(2**80))] == [None] * 4


def test_offsets_of_the_previous_key_are_good_until_it_is_removed() -> None:
    old, both, new = (OffsetSigner(keys) for keys in ((b"1" * 32,), (b"2" * 32, b"1" * 32), (b"2" * 32,)))
    for issuer, verifier, other in ((old, both, new), (both, new, old)):
        offset = issuer.sign("news", "ida", "a-1", 17)
        assert verifier.verify("news", "ida", "a-1", offset) == 17
        assert verifier.verify("news", "bob", "a-1", offset) is None
        assert other.verify("news", "ida", "a-1", offset) is None
