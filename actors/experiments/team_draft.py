"""The draft of a list from two sides (team draft): the seed, the coins, and who places what.

In each round of two places a coin decides which side picks first. A side adds its best product that the list lacks. A
product that it pins takes its place when that side picks there. The coin of a round depends on the seed and the place
alone, so pages of one list continue one draft.

Source:
    F. Radlinski, M. Kurup, T. Joachims, How does clickthrough data reflect retrieval quality?, CIKM 2008
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Final

from cluster.records.experiment import Experiment
from cluster.records.served_list import BOTH_SIDES, FIRST_SIDE, SECOND_SIDE

ROUNDS_A_DIGEST: Final = 512
_MOST_SEEDS: Final = 4_096
"Seeds that are tried: ten places have 32 sequences of coins."
CREDITS: Final = (FIRST_SIDE, SECOND_SIDE)


def seed_draft(experiment: Experiment, user_key: str, *parts: str) -> str:
    """Return the seed of a draft: a hash with the secret of the experiment, so that no client can choose it.

    `parts` tell the lists of a person apart.

    Cost:
        2 us
    """
    key = experiment.variant_salt.encode()
    text = "\n".join((experiment.experiment_id, user_key, *parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=key).hexdigest()


class DraftCoins:
    """The coins of a draft: for each place the side that picks there, 0 or 1."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._digests: dict[int, bytes] = {}

    def find_side(self, place: int) -> int:
        """Return the side that picks at a place: the coin of its round for the first place, else the other side.

        Units:
            place: from 0, in the whole list
        """
        # at: number of the round; second: 1 for its second place, which the other side gets.
        at, second = divmod(place, 2)
        block, bit = divmod(at, ROUNDS_A_DIGEST)
        if block not in self._digests:
            # One digest of 512 bits has the coins of 512 rounds, so long lists hash seldom.
            self._digests[block] = blake2b(f"{self._seed}\n{block}".encode()).digest()
        # Bit of the round, turned over for the second place.
        return (self._digests[block][bit >> 3] >> (bit & 7) & 1) ^ second


@dataclass(frozen=True, slots=True)
class SideList:
    """The list of one side, from the first place of the draft on."""

    products: Sequence[Hashable]
    "Best first; variants of one product are equal."
    pinned: Mapping[int, int]
    "Place in the whole list -> position in `products`, for products that a rule put there."


@dataclass(frozen=True, slots=True)
class DraftPick:
    """One place of a drafted list."""

    side: int
    "The side whose list has the product: 0 or 1."
    position: int
    "Position in the list of that side."
    credit: int
    "`FIRST_SIDE` or `SECOND_SIDE`; `BOTH_SIDES` if both would place the product there."


class _Picker:
    """What one side may still add."""

    def __init__(self, ranked: SideList) -> None:
        self._products = ranked.products
        self._pinned = dict(ranked.pinned)
        later = set(self._pinned.values())
        # Ascending, so it is a heap already.
        self._free = [at for at in range(len(self._products)) if at not in later]
        "A heap of positions."

    def find_best(self, place: int, taken: Set[Hashable]) -> int | None:
        """Return the position of the product that the side would add at a place."""
        pinned = self._pinned.get(place)
        if pinned is not None and self._products[pinned] not in taken:
            return pinned
        while self._free:
            if self._products[self._free[0]] not in taken:
                return self._free[0]
            # Taken products stay taken, so the position is never looked at again.
            heappop(self._free)
        # Only pinned products are left: rather early than a place left empty.
        later = (at for _, at in sorted(self._pinned.items()) if self._products[at] not in taken)
        return next(later, None)

    def pass_place(self, place: int) -> None:
        """Leave a place behind: a product that was pinned there and not added becomes an ordinary one."""
        pinned = self._pinned.pop(place, None)
        if pinned is not None:
            heappush(self._free, pinned)


def find_seed(sides: Sequence[int], start: int) -> str:
    """Return a seed whose coins give the places from `start` on to these sides; empty if some thousand seeds do not.

    `sides` are those of a row of the log; a place of both sides fits every coin.
    """
    places = [(start + at, CREDITS.index(side)) for at, side in enumerate(sides) if side in CREDITS]
    for number in range(_MOST_SEEDS):
        coins = DraftCoins(str(number))
        if all(coins.find_side(place) == turn for place, turn in places):
            return str(number)
    return ""


def draft_list(first: SideList, second: SideList, seed: str, start: int, rows: int) -> list[DraftPick]:
    """Draft `rows` places from place `start` of the whole list on; fewer when both lists end.

    Cost:
        20 us for ten places
    """
    sides = (first, second)
    pickers = (_Picker(first), _Picker(second))
    coins = DraftCoins(seed)
    taken: set[Hashable] = set()
    picks: list[DraftPick] = []
    for place in range(start, start + rows):
        turn = coins.find_side(place)
        best = [picker.find_best(place, taken) for picker in pickers]
        # A side whose list has ended leaves its places to the other one.
        if best[turn] is None:
            turn = 1 - turn
        position = best[turn]
        other = best[1 - turn]
        if position is None:
            break
        product = sides[turn].products[position]
        # Both would place it here: a click then says nothing about the sides.
        is_shared = other is not None and sides[1 - turn].products[other] == product
        picks.append(DraftPick(turn, position, BOTH_SIDES if is_shared else CREDITS[turn]))
        taken.add(product)
        for picker in pickers:
            picker.pass_place(place)
    return picks
