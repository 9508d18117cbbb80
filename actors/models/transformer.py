"""A causal transformer over the events of a user, computed with numpy. The training writes its arrays.

An event is the vector of its item, plus vectors for the weight of the event and for the pause before it. Two or more
blocks of attention and gated feed-forward layers follow. The output at the newest event is the user's vector. Items
with the largest inner products with it get a score: their share of the softmax, to a power. Large catalogs have
sketches of the item vectors, which find these items without a look at every vector.

Source:
    W. Kang, J. McAuley, Self-Attentive Sequential Recommendation, ICDM 2018
    N. Shazeer, GLU Variants Improve Transformer, 2020
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpy.lib.stride_tricks import sliding_window_view

from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from actors.vectors.quantization import Sketches, learn_sketches
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Codes, Floats, Matrix, Rows, Scores, Vector

GAPS = 24
"Number of buckets of pauses: powers of two of minutes, and one for data without times."
WEIGHTS = 24
"Number of buckets of event weights: tenths from -1 to 1, and larger ones."
BLOCK_ARRAYS = ("norm", "attend", "gate", "mix", "distance", "norm_wide", "widen", "narrow")
"Arrays of one block, in the order of their use."

# Keeps the norm of a zero vector from dividing by 0; the training has the same constant.
_ROUNDING = np.float32(1e-6)
_CACHED_SCORES = 1_200_000
"Limit of kept scores of a model: 10 MB, of 4,000 users with 300 candidates."
# Histories of one block: it bounds the memory for vectors and candidates in an evaluation.
_AT_ONCE = 512
_EXACT_ITEMS = 50_000
"Up to this number, comparing all vectors is as fast (docs/decisions/0032-candidates-of-transformers.md)."
_MORE = 5
"Items of a sketch that are compared in full, for each candidate."
_FEWEST_SHARE = 40
"Items of a catalog for each candidate from which sketches save time."
_POINTS = "sketch.points"
_CODES = "sketch.codes"
SKETCH_ARRAYS = (_POINTS, _CODES)


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Sizes of a transformer, and how its scores are made."""

    blocks: int
    heads: int
    events: int
    "Number of newest events that count."
    candidates: int = 300
    "Number of items with a score."
    power: float = 0.5
    "Exponent of the softmax share."


def bucket_weights(weights: npt.NDArray[np.floating]) -> Codes:
    """Return the bucket of each event weight.

    Shapes:
        weights: float [m]; returns: int32 [m], 0 to WEIGHTS - 1
    """
    tenths = np.rint(np.asarray(weights, np.float64) * 10.0)
    buckets: Codes = (np.clip(tenths, -10, WEIGHTS - 11) + 10).astype(np.int32)
    return buckets


def bucket_gaps(at_s: Floats, clock: bool) -> Codes:
    """Return the bucket of the pause before each event of one sequence, oldest first; the first event has pause 0.

    Shapes:
        at_s: float64 [m]; returns: int32 [m], 0 to GAPS - 1
    """
    if not clock:
        return np.zeros(len(at_s), np.int32)
    pauses = np.maximum(np.diff(at_s, prepend=at_s[:1]), 0.0)
    # Powers of two of minutes: a minute more matters within a visit, not between two months.
    buckets: Codes = np.minimum(1.0 + np.log2(1.0 + pauses / 60.0), GAPS - 1).astype(np.int32)
    return buckets


class CandidateCache:
    """Scored items by the digest of a user's newest events; the least recently used entry goes first.

    No user id is stored. Safe for several threads.
    """

    def __init__(self, most: int = _CACHED_SCORES) -> None:
        self._most = most
        self._count = 0
        self._entries: OrderedDict[bytes, tuple[Codes, Scores]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._count = 0

    def get(self, key: bytes) -> tuple[Codes, Scores] | None:
        """Return an entry, None without one.

        Shapes:
            returns: int32 [k], items, and float32 [k], their scores
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def put(self, key: bytes, entry: tuple[Codes, Scores]) -> None:
        """Store an entry; drop the oldest ones while there are more scores than the limit.

        Shapes:
            entry: int32 [k], items, and float32 [k], their scores
        """
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._entries[key] = entry
            self._count += len(entry[0]) - (0 if replaced is None else len(replaced[0]))
            while self._count > self._most:
                _, (dropped, _) = self._entries.popitem(last=False)
                self._count -= len(dropped)


@dataclass(frozen=True, slots=True)
class TransformerModel:
    """Trained arrays of a transformer with `d` dimensions.

    Shapes:
        items: float32 [n, d]; arrays: `weights` [WEIGHTS, d], `gaps` [GAPS, d], `norm` [d], and for block b
        `b.norm` [d], `b.attend` [d, 3d], `b.gate` [d, d], `b.mix` [d, d], `b.distance` [heads, events],
        `b.norm_wide` [d], `b.widen` [d, 2w], `b.narrow` [w, d]
    """

    items: Matrix
    arrays: Mapping[str, npt.NDArray[np.float32]]
    config: TransformerConfig
    clock: bool
    "Whether the training data had times."
    facts: Mapping[str, Any] = field(default_factory=dict)
    "How the training went: the metric after each epoch."
    sketch_arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """`sketch.points` and `sketch.codes` of `learn_sketches`; empty for a small catalog, and in snapshots of earlier
    releases."""
    sketches: Sketches | None = field(default=None, compare=False)
    cache: CandidateCache = field(default_factory=CandidateCache, compare=False)
    _biases: dict[int, Matrix] = field(default_factory=dict, init=False, repr=False, compare=False)

    def compute_user_vector(self, items: Rows, weights: Floats, at_s: Floats) -> Vector:
        """Return the vector of a user.

        Shapes:
            items: int64 [m], rows of the catalog, oldest first, m > 0; weights, at_s: float [m]; returns: float32 [d]
        Cost:
            100 events, 64 dimensions, 2 blocks: 0.4 ms on one core
        """
        arrays = self.arrays
        config = self.config
        # the pause before the first event that counts is known to be cut off, as in the training
        items = items[-config.events :]
        weights = weights[-config.events :]
        at_s = at_s[-config.events :]
        steps = np.asarray(self.items)[items]
        # x_j = E(i_j) + a(weight) + g(pause); the content vectors are part of `items`. Shape [events, d].
        steps = steps + arrays["weights"][bucket_weights(weights)]
        steps += arrays["gaps"][bucket_gaps(at_s, self.clock)]
        for block in range(config.blocks):
            steps = self._apply_block(block, steps, is_last=block == config.blocks - 1)
        # h: the output at the newest event alone
        vector: Vector = _normalize(steps[-1], arrays["norm"])
        return vector

    def score_past(self, items: Rows, weights: Floats, at_s: Floats) -> tuple[Codes, Scores]:
        """Return the items with the largest scores for a user, and their scores.

        Shapes:
            items: int64 [m], oldest first; weights, at_s: float [m]; returns: int32 [k] and float32 [k]
        """
        if not len(items):
            return np.zeros(0, np.int32), np.zeros(0, np.float32)
        return self._find_candidates(self.compute_user_vector(items, weights, at_s))

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Return the scores of `score` for one history, computed once for the newest events.

        Shapes:
            returns: int [k], items, and float32 [k]; callers do not change them
        """
        newest = slice(0, self.config.events)
        items = past.items[newest]
        weights = past.weights[newest]
        at_s = past.at_s[newest]
        # No user id is kept, so an erasure clears the whole cache.
        digest = blake2b(items.tobytes(), digest_size=16)
        digest.update(bucket_weights(weights).tobytes())
        # not the times themselves: products of a query are events of the present moment
        digest.update(bucket_gaps(at_s[::-1], self.clock).tobytes())
        key = digest.digest()
        entry = self.cache.get(key)
        if entry is None:
            entry = self.score_past(items[::-1], weights[::-1], at_s[::-1])
            self.cache.put(key, entry)
        return entry

    def sparse(self, histories: UserHistories) -> Any:
        """Return the scores of all histories.

        Shapes:
            returns: CSR float32 [q, n]
        """
        shape = (len(histories), histories.n_items)
        chosen: list[tuple[Codes, Scores]] = []
        for first in range(0, len(histories), _AT_ONCE):
            part = histories.select_block(first, first + _AT_ONCE)
            vectors = np.zeros((len(part), self.items.shape[1]), np.float32)
            filled = np.zeros(len(part), np.bool_)
            for at, (begin, end) in enumerate(pairwise(part.starts.tolist())):
                trained = np.flatnonzero(part.items[begin:end] >= 0) + begin
                if len(trained):
                    filled[at] = True
                    weights = part.weights[trained].astype(np.float64)
                    at_s = part.at_s[trained]
                    vectors[at] = self.compute_user_vector(part.items[trained], weights, at_s)
            empty = (np.zeros(0, np.int32), np.zeros(0, np.float32))
            chosen += [
                self._find_candidates(vector) if full else empty
                for vector, full in zip(vectors, filled, strict=True)
            ]
        starts = np.concatenate(([0], np.cumsum([len(rows) for rows, _ in chosen], dtype=np.int64)))
        if not chosen:
            return sp.csr_matrix(shape, dtype=np.float32)
        rows, values = (np.concatenate(column) for column in zip(*chosen, strict=True))
        return sp.csr_matrix((values, rows, starts), shape=shape)

    def score(self, histories: UserHistories) -> Batch:
        """Return the scores of all histories.

        Shapes:
            returns: float32 [q, n]
        """
        scores: Batch = self.sparse(histories).toarray()
        return scores

    def save(self) -> ModelState:
        facts = {"config": asdict(self.config), "clock": self.clock, "training": dict(self.facts)}
        return ModelState({"items": self.items, **self.arrays, **self.sketch_arrays}, facts)

    @classmethod
    def load(cls, parts: ModelState) -> TransformerModel:
        """Return the model of a saved state.

        Errors:
            ValueError: the sketches do not fit the item vectors
        """
        config = TransformerConfig(**parts.facts["config"])
        arrays = {name: np.asarray(parts.array(name)) for name in array_names(config.blocks)}
        clock = bool(parts.facts["clock"])
        model = cls(parts.array("items"), arrays, config, clock, parts.facts["training"])
        sketched = {name: parts.array(name) for name in SKETCH_ARRAYS if name in parts.arrays}
        return model._open_sketches(sketched) if sketched else model

    def list_shapes(self, count: int) -> list[tuple[str, npt.NDArray[np.float32], tuple[int, ...]]]:
        """Return name, array and right shape of each array, for a catalog of `count` items.

        Shapes:
            returns: float32 arrays, as in the class
        """
        config = self.config
        width = self.items.shape[-1]
        wide = self.arrays["0.narrow"].shape[0] if config.blocks else 0
        shapes: dict[str, tuple[int, ...]] = {
            "weights": (WEIGHTS, width),
            "gaps": (GAPS, width),
            "norm": (width,),
        }
        for block in range(config.blocks):
            shapes |= {
                f"{block}.norm": (width,),
                f"{block}.attend": (width, 3 * width),
                f"{block}.gate": (width, width),
                f"{block}.mix": (width, width),
                f"{block}.distance": (config.heads, config.events),
                f"{block}.norm_wide": (width,),
                f"{block}.widen": (width, 2 * wide),
                f"{block}.narrow": (wide, width),
            }
        others = [(name, self.arrays[name], shape) for name, shape in shapes.items()]
        return [("items", self.items, (count, width)), *others]

    def _apply_block(self, block: int, steps: Matrix, *, is_last: bool) -> Matrix:
        """Return the output of one block; of the last block, only the newest event matters."""
        norm, attend, gate, mix, distance, norm_wide, widen, narrow = (
            self.arrays[f"{block}.{name}"] for name in BLOCK_ARRAYS
        )
        count, width = steps.shape
        heads = self.config.heads
        size = width // self.config.heads
        inside = _normalize(steps, norm)
        ends = slice(-1, None) if is_last else slice(None)
        # Shapes: queries [heads, q, size], keys [heads, size, m], values [heads, m, size]; q is 1 in the
        # last block.
        queries = (inside[ends] @ attend[:, :width]).reshape(-1, heads, size).transpose(1, 0, 2)
        keys = (inside @ attend[:, width : 2 * width]).reshape(count, heads, size).transpose(1, 2, 0)
        values = (inside @ attend[:, 2 * width :]).reshape(count, heads, size).transpose(1, 0, 2)
        attention = queries @ keys
        # softmax(Q K' / sqrt(size) + distance), with float32 constants, which keep the arrays float32
        attention *= np.float32(size**-0.5)
        bias = self._biases.get(block)
        if bias is None:
            bias = self._biases[block] = _expand_distances(distance)
        attention += bias[:, :count, :count][:, ends]
        # exp of the differences can't overflow, and the softmax stays the same.
        attention -= attention.max(axis=2, keepdims=True)
        np.exp(attention, out=attention)
        attention /= attention.sum(axis=2, keepdims=True)
        mixed = (attention @ values).transpose(1, 0, 2).reshape(-1, width)
        steps = steps[ends] + (mixed * _sigmoid(inside[ends] @ gate)) @ mix
        wide = _normalize(steps, norm_wide) @ widen
        half = wide.shape[1] // 2
        # SwiGLU: (x sigmoid(x)) * y, then back to d dimensions, plus the input of the layer
        result: Matrix = steps + (wide[:, :half] * _sigmoid(wide[:, :half]) * wide[:, half:]) @ narrow
        return result

    def _find_candidates(self, vector: Vector) -> tuple[Codes, Scores]:
        """Return the items with the largest logits, and their shares of the softmax to a power."""
        items = np.asarray(self.items)
        count = min(self.config.candidates, len(items))
        if self.sketches is None:
            logits = items @ vector
        else:
            # in the order of the vectors, which are read from a mapped file
            nearest = np.sort(self.sketches.candidates(vector, _MORE * count)[0])
            logits = items.take(nearest, axis=0) @ vector
        # The best in no order: the blend sums scores and needs none.
        rows = np.argpartition(logits, len(logits) - count)[len(logits) - count :]
        kept = logits[rows]
        # y = exp(power (h . e_p - max h . e_q))
        shares = np.exp((kept - kept.max()) * np.float32(self.config.power))
        if self.sketches is not None:
            rows = nearest[rows]
        return rows.astype(np.int32), shares.astype(np.float32)

    def with_sketches(self, *, least: int = _EXACT_ITEMS) -> TransformerModel:
        """Return the same model with sketches if it has more than `least` items, else this model."""
        if len(self.items) <= max(least, _FEWEST_SHARE * self.config.candidates):
            return self
        points, codes = learn_sketches(np.asarray(self.items))
        return self._open_sketches({_POINTS: points, _CODES: codes})

    def _open_sketches(self, arrays: Mapping[str, npt.NDArray[Any]]) -> TransformerModel:
        sketches = Sketches.from_arrays(arrays[_POINTS], arrays[_CODES])
        # Sketches of other items would name rows that these vectors lack.
        if (len(sketches), sketches.dimensions) != self.items.shape or not np.isfinite(arrays[_POINTS]).all():
            raise ValueError("the sketches of a transformer do not fit its item vectors")
        return replace(self, sketch_arrays=arrays, sketches=sketches, cache=CandidateCache())


def array_names(blocks: int) -> list[str]:
    """Return the names of the arrays of a transformer besides its item vectors."""
    return [
        "weights",
        "gaps",
        "norm",
        *(f"{block}.{name}" for block in range(blocks) for name in BLOCK_ARRAYS),
    ]


def _expand_distances(distance: Matrix) -> Matrix:
    """Return what the attention of each event to each event gets for their distance; -inf for later events.

    An event sees only events before it, as in the training. The result is a view of 2 * events values a head.

    Shapes:
        distance: float32 [heads, events]; returns: float32 [heads, events, events]
    """
    heads, events = distance.shape
    later = np.full((heads, events - 1), -np.inf, np.float32)
    # Row i starts at the distance of event i to the oldest event: element i, j is the one of distance i - j.
    windows = sliding_window_view(np.concatenate((distance[:, ::-1], later), axis=1), events, axis=1)
    bias: Matrix = windows[:, ::-1]
    return bias


def _normalize(steps: Any, gain: Vector) -> Any:
    """Scale vectors to mean square 1, times a gain for each dimension."""
    square = np.einsum("...d,...d->...", steps, steps)[..., None] / np.float32(steps.shape[-1])
    return steps * (gain / np.sqrt(square + _ROUNDING))


def _sigmoid(values: Matrix) -> Matrix:
    # written with tanh: exp would overflow for large negative values
    squashed: Matrix = np.float32(0.5) * (np.float32(1.0) + np.tanh(np.float32(0.5) * values))
    return squashed
