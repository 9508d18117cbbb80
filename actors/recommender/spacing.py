"""Diversification: equal values at least so far apart, or side by side. Best effort, never loses a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from actors.recommender.messages import Spacing

ValuesOf = Callable[[int, str], frozenset[str]]
"Reads the values of a row's field."

_LOOK_AHEAD = 200


def gathered(rows: Sequence[int], spacing: Sequence[Spacing], values_of: ValuesOf) -> list[int]:
    """Put rows with an equal value side by side, where the first of them stood (`always_together`)."""
    order = list(rows)
    for rule in spacing:
        if rule.always_together:
            lots: dict[str, list[int]] = {}
            for row in order:
                value = min(values_of(row, rule.field), default=f"\x00{row}")
                lots.setdefault(value, []).append(row)
            order = [row for lot in lots.values() for row in lot]
    return order


def spaced(
    rows: Sequence[int],
    spacing: Sequence[Spacing],
    values_of: ValuesOf,
    *,
    pinned: Mapping[int, int],
    front: int,
    wanted: int,
) -> list[int]:
    """Let the best fitting row come next: the first that keeps its distance, else simply the first.

    `pinned` maps places to rows that stay there; the first `front` other rows stay before the rest. Only the first
    `wanted` places are worked on.

    Cost:
        a look at 200 rows per place at most
    """
    rules = [rule for rule in spacing if rule.minimum_distance > 0 and not rule.always_together]
    fixed = set(pinned.values())
    waiting = [row for row in rows if row not in fixed]
    placed: list[int] = []
    while waiting and rules and len(placed) < wanted:
        if len(placed) in pinned:
            placed.append(pinned[len(placed)])
            continue
        end = min(_LOOK_AHEAD, front if front > 0 else len(waiting))
        at = _fitting(waiting[:end], placed, rules, values_of, pinned)
        placed.append(waiting.pop(at))
        front -= 1
    return _filled(placed, waiting, pinned)


def _fitting(
    waiting: Sequence[int],
    placed: Sequence[int],
    rules: Sequence[Spacing],
    values_of: ValuesOf,
    pinned: Mapping[int, int],
) -> int:
    """Find the first row whose values are not taken nearby; 0 when all are."""
    taken = [(rule.field, _nearby(rule, placed, values_of, pinned)) for rule in rules]
    for at, row in enumerate(waiting):
        if not any(values & values_of(row, field) for field, values in taken):
            return at
    return 0


def _nearby(
    rule: Spacing, placed: Sequence[int], values_of: ValuesOf, pinned: Mapping[int, int]
) -> frozenset[str]:
    """Collect the values of what stands within the distance, before and, where pinned, behind."""
    here = len(placed)
    near = list(placed[max(0, here - rule.minimum_distance) :])
    near += [row for place, row in pinned.items() if here < place <= here + rule.minimum_distance]
    return frozenset[str]().union(*(values_of(row, rule.field) for row in near))


def _filled(placed: list[int], waiting: list[int], pinned: Mapping[int, int]) -> list[int]:
    """Append the rest, pinned rows in their places (or at the end when the list is too short)."""
    rest = iter(waiting)
    left = {place: row for place, row in pinned.items() if place >= len(placed)}
    while left:
        if len(placed) in left:
            placed.append(left.pop(len(placed)))
            continue
        row = next(rest, None)
        if row is None:
            placed += [left[place] for place in sorted(left)]
            break
        placed.append(row)
    return placed + list(rest)
