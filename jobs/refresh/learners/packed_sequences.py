"""Training rows of the transformer: sequences of users, cut into pieces and packed into rows of one length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from actors.models.transformer import bucket_gaps, bucket_weights
from actors.vectors.row_selection import expand_runs
from actors.vectors.types import Codes, Rows
from jobs.refresh.data.dataset import Interactions


@dataclass(frozen=True, slots=True)
class Sequences:
    """Events of all users with at least two, oldest first.

    Shapes:
        starts: int64 [u + 1]; items, weights, gaps: int32 [m]; targets: int32 [m], the next item, -1 for none
    """

    starts: Rows
    items: Codes
    weights: Codes
    gaps: Codes
    targets: Codes

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Rows:
        """Return the number of events of each user.

        Shapes:
            returns: int64 [u]
        """
        return np.diff(self.starts)


def sequences_from_interactions(data: Interactions) -> Sequences:
    """Return the sequences of interactions.

    An item with a negative weight, and one that follows itself, is no target.
    """
    lengths = np.diff(data.starts())
    users = np.flatnonzero(lengths > 1)
    rows = expand_runs(data.starts()[users], lengths[users])
    starts = np.concatenate(([0], np.cumsum(lengths[users]))).astype(np.int64)
    items = data.item[rows]
    weights = data.weight[rows]
    at_s = data.at_s[rows]
    gaps = bucket_gaps(at_s, data.clock)
    if data.clock and len(gaps):
        gaps[starts[:-1]] = 1  # no pause is known before the first event
    targets = np.full(len(items), -1, np.int64)
    targets[:-1] = np.where((weights[1:] > 0) & (items[1:] != items[:-1]), items[1:], -1)
    if len(targets):
        # The next event of the array is the first one of another user.
        targets[starts[1:] - 1] = -1
    return Sequences(starts, items.astype(np.int32), bucket_weights(weights), gaps, targets.astype(np.int32))


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows of events; each holds pieces of several sequences.

    Shapes:
        items, weights, gaps, targets, sequences: int32 [r, t]; `sequences` numbers the pieces of a row, -1 is padding
    """

    items: Codes
    weights: Codes
    gaps: Codes
    targets: Codes
    sequences: Codes

    def __len__(self) -> int:
        return len(self.items)

    def batches(self, size: int) -> Iterator[dict[str, Codes]]:
        """Yield batches of equal size; the last is filled with padding.

        Shapes:
            yields: int32 [size, t] for each name
        """
        for first in range(0, len(self), size):
            part = slice(first, first + size)
            # All batches have one shape, for which JAX compiles once.
            missing = max(0, first + size - len(self))
            yield {
                name: np.pad(getattr(self, name)[part], ((0, missing), (0, 0)), constant_values=fill)
                for name, fill in _PADDING
            }


_PADDING = (("items", 0), ("weights", 0), ("gaps", 0), ("targets", -1), ("sequences", -1))


def pack_rows(sequences: Sequences, length: int, rng: np.random.Generator) -> PackedRows:
    """Cut sequences into pieces of at most `length` events and pack the pieces into rows, both at random.

    The cuts differ at each call, so an event has another context in each epoch.
    """
    first, last = _cut_pieces(sequences, length, rng)
    row, place, rows = _place_pieces(last - first, length, rng)
    events = expand_runs(first, last - first)
    owner = np.repeat(np.arange(len(first)), last - first)
    within = np.arange(len(events)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    target = row[owner] * length + place[owner] + within
    packed = {name: np.full(rows * length, fill, np.int32) for name, fill in _PADDING}
    for name in ("items", "weights", "gaps", "targets"):
        packed[name][target] = getattr(sequences, name)[events]
    # The place of a piece within its row names it: attention stays inside equal names.
    packed["sequences"][target] = place[owner]
    if sequences.gaps.any():
        packed["gaps"][row * length + place] = 1  # a piece begins without a known pause, as when it is served
    return PackedRows(**{name: array.reshape(rows, length) for name, array in packed.items()})


def pack_ends(sequences: Sequences, users: Rows, ends: Rows, length: int) -> tuple[PackedRows, Codes]:
    """Return the newest events before `ends` of some users, one user in a row, and the place of the last event.

    Shapes:
        users, ends: int64 [q], `ends` are positions of events; returns: rows [q, length], and int32 [q]
    """
    first = np.maximum(sequences.starts[users], ends - length)
    counts = ends - first
    events = expand_runs(first, counts)
    within = np.arange(len(events)) - np.repeat(np.cumsum(counts) - counts, counts)
    target = np.repeat(np.arange(len(users)), counts) * length + within
    packed = {name: np.full(len(users) * length, fill, np.int32) for name, fill in _PADDING}
    for name in ("items", "weights", "gaps"):
        packed[name][target] = getattr(sequences, name)[events]
    packed["sequences"][target] = 0
    if sequences.gaps.any():
        packed["gaps"][np.arange(len(users)) * length] = 1
    rows = PackedRows(**{name: array.reshape(len(users), length) for name, array in packed.items()})
    return rows, (counts - 1).astype(np.int32)


def _cut_pieces(sequences: Sequences, length: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return first and last + 1 event of each piece; the first piece of a long sequence has a random length."""
    lengths = sequences.lengths
    long = lengths > length
    # A random first piece moves all cuts of a long sequence by as much.
    offsets = np.where(long, rng.integers(1, length + 1, len(lengths)), np.minimum(lengths, length))
    more = np.maximum(-(-(lengths - offsets) // length), 0)
    counts = more + 1
    user = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)
    begin = np.where(number == 0, 0, offsets[user] + (number - 1) * length)
    end = np.minimum(offsets[user] + number * length, lengths[user])
    return sequences.starts[user] + begin, sequences.starts[user] + end


def _place_pieces(sizes: Rows, length: int, rng: np.random.Generator) -> tuple[Rows, Rows, int]:
    """Return row and place of each piece, and the number of rows; pieces fill rows in random order."""
    order = rng.permutation(len(sizes))
    row = np.zeros(len(sizes), np.int64)
    place = np.zeros(len(sizes), np.int64)
    waiting: list[tuple[int, int]] = []
    rows = 0
    for piece, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        for at, (open_row, used) in enumerate(waiting):
            if used + size <= length:
                row[piece] = open_row
                place[piece] = used
                waiting[at] = (open_row, used + size)
                break
        else:
            row[piece] = rows
            waiting.append((rows, size))
            rows += 1
            # a few rows stay open: enough that little padding is left
            del waiting[: max(0, len(waiting) - _OPEN_ROWS)]
    return row, place, rows


_OPEN_ROWS = 8
