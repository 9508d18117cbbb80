"""A causal transformer that predicts the next item of a user; trained with JAX, served with numpy.

The training stops when the NDCG of held-out last events no longer grows, and keeps the best epoch. What is measured
and kept are parameters averaged over epochs. After each epoch its state is stored, so a killed training continues
there and ends with the same model.

Source:
    B. Polyak, A. Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control 1992
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.models.transformer import TransformerConfig, TransformerModel, array_names
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Matrix, Rows
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.interaction_matrix import select_newest_per_user
from jobs.refresh.learners.item_sampler import ItemSampler
from jobs.refresh.learners.packed_sequences import (
    Sequences,
    pack_ends,
    pack_rows,
    sequences_from_interactions,
)
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe, check_package
from jobs.refresh.learners.training_progress import current_progress, digest_training

_CONTENT_WIDTH = 128
_STORE_INTERVAL_S = 20.0
"Minimum time between two stored states; the last one is always stored."
_SCORE_PARAMETERS = {"tune", "items_up_to", "items_from", "candidates", "power"}
"Parameters that do not change the training."
_EVENT_VISITS = 22_000_000
"22 passes over 1,000,000 events: recipe `deep` then takes at most 45 minutes of processor time by the estimate."
_AVERAGING = 0.7
"About three epochs count: fewer leave more noise of single steps, more follow the training too late."
_STOPPING_SHARE = 0.2
_STOPPING_USERS = 1_000


class TransformerRecipe(PartRecipe):
    """Parameters of the transformer."""

    learner: Literal["transformer"] = "transformer"
    dimensions: int = Field(default=64, ge=8, le=512, multiple_of=8)
    "Length of an item vector."
    blocks: int = Field(default=2, ge=1, le=8)
    "Number of blocks of attention and feed-forward layers."
    heads: Literal[1, 2, 4, 8] = 2
    "Number of attention heads in each block."
    events: int = Field(default=100, ge=2, le=1_000)
    "Number of newest events of a user that count."
    dropout: float = Field(default=0.3, ge=0, lt=1)
    "Share of the inputs of each layer that a training step drops."
    decay: float = Field(default=0.05, ge=0, le=1)
    "Weight decay of the optimizer."
    rate: float = Field(default=0.002, gt=0, le=0.1)
    "Learning rate."
    batch_events: int = Field(default=1_000, ge=100, le=100_000)
    "Number of events of one training step."
    sampled: int = Field(default=1_024, ge=16, le=100_000)
    "Number of sampled items with which a target is compared; in a catalog of at most this size, all items."
    epochs: int = Field(default=60, ge=1, le=1_000)
    "Maximum number of passes over the events."
    # The default is left out: a snapshot has the version that earlier releases gave it.
    event_visits: int = Field(default=_EVENT_VISITS, ge=1, exclude_if=lambda most: most == _EVENT_VISITS)
    "Maximum number of events that all passes visit together; large data get fewer passes, at least one."
    averaging: float = Field(default=_AVERAGING, ge=0, lt=1, exclude_if=lambda share: share == _AVERAGING)
    "Share of the average up to the epoch before in that of an epoch; 0 keeps the parameters of single epochs."
    patience: int = Field(default=5, ge=1)
    "Number of passes without a better NDCG after which the training stops."
    candidates: int = Field(default=300, ge=10, le=10_000)
    "Number of items with a score for a user."
    power: float = Field(default=0.5, gt=0, le=2)
    "Exponent of the softmax share that is the score of an item."

    def limit_epochs(self, events: int) -> int:
        """Return the maximum number of passes over a number of events."""
        return min(self.epochs, max(1, self.event_visits // max(events, 1)))


@dataclass
class _TrainingState:
    """State after an epoch: numpy arrays by name, and plain numbers."""

    epoch: int
    step: int
    parameters: dict[str, Any]
    moments: dict[str, Any]
    average: dict[str, Any]
    "Parameters averaged over the epochs, the newest ones most."
    best: dict[str, Any]
    "The best average."
    curve: list[list[float]]
    "Loss and NDCG of each epoch."

    def save(self) -> ModelState:
        """Return the state as numpy arrays and facts."""
        groups = {
            "parameters": self.parameters,
            "first": {name: first for name, (first, _) in self.moments.items()},
            "second": {name: second for name, (_, second) in self.moments.items()},
            "average": self.average,
            "best": self.best,
        }
        arrays = {
            f"{group}/{name}": np.asarray(array)
            for group, named in groups.items()
            for name, array in named.items()
        }
        return ModelState(arrays, {"epoch": self.epoch, "step": self.step, "curve": list(self.curve)})


class TransformerLearner(BuiltInLearner[TransformerRecipe]):
    """Learner of the transformer."""

    def train(self, data: Interactions, rng: np.random.Generator) -> TransformerModel:
        """Train on the newest events of each user and return the best epoch.

        Errors:
            Invalid: JAX is not installed; the message says how to install it
        """
        # Before any work: a run without the package ends at once, with the command that installs it.
        check_package("jax")
        recipe = self.recipe
        config = TransformerConfig(
            recipe.blocks, recipe.heads, recipe.events, recipe.candidates, recipe.power
        )
        sequences = sequences_from_interactions(select_newest_per_user(data))
        content = reduce_content(data.content, rng)
        seed = int(rng.integers(2**31))
        name = digest_training(recipe.model_dump_json(exclude=_SCORE_PARAMETERS), seed, data)
        training = _Training(recipe, config, sequences, data.n_items, content, seed)
        del content  # the training has a copy
        # Another name than in release 0.2.0, whose states have no average and which could not read these.
        state = training.run(f"transformer-averaged-{name}")
        items, arrays = training.read_arrays(state.best)
        facts = {"curve": state.curve}
        return TransformerModel(items, arrays, config, data.clock, facts).with_sketches()


class _Training:
    """One training: its data, compiled steps and held-out events."""

    def __init__(
        self,
        recipe: TransformerRecipe,
        config: TransformerConfig,
        sequences: Sequences,
        n_items: int,
        content: Matrix | None,
        seed: int,
    ) -> None:
        import jax

        from jobs.refresh.learners import transformer_steps as steps

        self._recipe = recipe
        self._config = config
        self._seed = seed
        self._n_items = n_items
        self._jax = jax
        self._steps = steps
        self._step_config = steps.StepConfig(config, recipe.dropout, recipe.decay, recipe.rate)
        # here once: arrays of numpy would be copied in each step
        self._content = None if content is None else jax.numpy.asarray(content)
        self._last_events = self._hold_out(sequences)
        self._sequences = sequences
        self._epochs = recipe.limit_epochs(len(sequences.items))
        counts = np.bincount(np.maximum(sequences.targets, 0), minlength=n_items).astype(np.float64) + 1.0
        self._sampler = ItemSampler(counts, recipe.sampled) if recipe.sampled < n_items else None

    def run(self, name: str) -> _TrainingState:
        """Train until no epoch helps any more, from the stored state of an earlier attempt if there is one."""
        progress = current_progress()
        state = self._load(progress.load(name)) or self._begin()
        stored_s = time.monotonic()
        while not self._is_done(state):
            self._run_epoch(state)
            progress.show(f"epoch {state.epoch}, NDCG {state.curve[-1][1]:.4f}")
            if self._is_done(state) or time.monotonic() - stored_s > _STORE_INTERVAL_S:
                progress.store(name, state.save())
                stored_s = time.monotonic()
        return state

    def _load(self, stored: ModelState | None) -> _TrainingState | None:
        if stored is None:
            return None
        groups: dict[str, dict[str, Any]] = {
            name: {} for name in ("parameters", "first", "second", "average", "best")
        }
        for path, array in stored.arrays.items():
            group, _, name = path.partition("/")
            groups[group][name] = array
        # the compiled step gives its inputs away, so each one needs a buffer of its own
        parameters = {name: self._jax.numpy.array(array) for name, array in groups["parameters"].items()}
        moments = {
            name: (self._jax.numpy.array(array), self._jax.numpy.array(groups["second"][name]))
            for name, array in groups["first"].items()
        }
        facts = stored.facts
        return _TrainingState(
            facts["epoch"],
            facts["step"],
            parameters,
            moments,
            groups["average"],
            groups["best"],
            facts["curve"],
        )

    def _begin(self) -> _TrainingState:
        rng = np.random.default_rng([self._seed, 0])
        width = 0 if self._content is None else self._content.shape[1]
        parameters = self._steps.build_parameters(
            self._config, self._n_items, self._recipe.dimensions, width, rng
        )
        moments = {name: (0.0 * array, 0.0 * array) for name, array in parameters.items()}
        return _TrainingState(0, 0, parameters, moments, {}, {}, [])

    def _is_done(self, state: _TrainingState) -> bool:
        figures = [figure for _, figure in state.curve]
        stale = len(figures) - int(np.argmax(figures)) > self._recipe.patience if figures else False
        return state.epoch >= self._epochs or stale or not len(self._sequences)

    def _run_epoch(self, state: _TrainingState) -> None:
        recipe = self._recipe
        # By epoch, not one stream: an attempt that continues in epoch 7 draws as the killed one would have.
        rng = np.random.default_rng([self._seed, 1 + state.epoch])
        key = self._jax.random.key(int(rng.integers(2**31)), impl="rbg")
        rows = pack_rows(self._sequences, recipe.events, rng)
        losses = []
        sampler = self._sampler
        if sampler is not None:
            sampler.begin(state.step)
        for batch in rows.batches(max(1, recipe.batch_events // recipe.events)):
            state.step += 1
            sampled = None
            if sampler is not None:
                batch, sampled = sampler.prepare(batch, rng, state.step)
            state.parameters, state.moments, loss = self._steps.update(
                state.parameters,
                state.moments,
                batch,
                sampled,
                self._content,
                self._jax.random.fold_in(key, state.step),
                state.step,
                config=self._step_config,
            )
            losses.append(loss)
        if sampler is not None:
            state.parameters, state.moments = self._steps.catch_up_all(
                state.parameters,
                state.moments,
                sampler.count_missed(state.step),
                state.step + 1,
                config=self._step_config,
            )
        state.average = self._average(state)
        state.epoch += 1
        figure = self._measure(state.average)
        if not state.curve or figure > max(before for _, before in state.curve):
            state.best = state.average
        state.curve.append([round(float(np.mean(losses)), 5), round(figure, 5)])

    def _average(self, state: _TrainingState) -> dict[str, Any]:
        """Return the average of the parameters over the epochs, with the one that just ended."""
        # The first epochs count alike: with the full share, the random start of the first would stay too long.
        share = np.float32(min(self._recipe.averaging, state.epoch / (state.epoch + 1)))
        newest = {name: np.asarray(array) for name, array in state.parameters.items()}
        if not share:
            # a copy: the next step gives the arrays of these parameters away
            return {name: array.copy() for name, array in newest.items()}
        mixed = {}
        for name, array in newest.items():
            # in two steps: the item vectors of a large catalog take a quarter of a gigabyte
            mixed[name] = share * state.average[name]
            mixed[name] += (1 - share) * array
        return mixed

    def _hold_out(self, sequences: Sequences) -> tuple[Rows, Rows, Rows]:
        """Hold out the last target of some users; return the users, the ends of their histories, and the items."""
        rng = np.random.default_rng([self._seed, 2**31])
        # The last event has no target; the one before it has the last event as its target.
        ends = sequences.starts[1:] - 2
        possible = np.flatnonzero((sequences.lengths > 2) & (sequences.targets[ends] >= 0))
        count = min(_STOPPING_USERS, int(len(possible) * _STOPPING_SHARE))
        users = np.sort(rng.choice(possible, count, replace=False))
        items = sequences.targets[ends[users]].astype(np.int64)
        # Held out: the training must not see what stops it.
        sequences.targets[ends[users]] = -1
        return users, ends[users] + 1, items

    def _measure(self, parameters: dict[str, Any]) -> float:
        """Return the NDCG of the held-out events among the items that are new to the user."""
        users, ends, targets = self._last_events
        item_vectors = self._steps.compute_item_vectors(parameters, self._content)
        compared = np.asarray(item_vectors).T
        gains = []
        for first in range(0, len(users), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            rows, last = pack_ends(self._sequences, users[part], ends[part], self._config.events)
            (batch,) = rows.batches(_AT_ONCE)
            # JAX compiles for each shape: the last part gets the size of all others.
            last = np.pad(last, (0, _AT_ONCE - len(last)))
            outputs = self._steps.encode_last(parameters, item_vectors, batch, last, config=self._step_config)
            scores = np.asarray(outputs)[: len(targets[part])] @ compared
            for row, (user, end, target) in enumerate(
                zip(users[part].tolist(), ends[part].tolist(), targets[part].tolist(), strict=True)
            ):
                target_score = scores[row, target]
                scores[row, self._sequences.items[self._sequences.starts[user] : end]] = -np.inf
                # scores of a diverged training are no numbers: they must rank last, not first
                place = int(np.count_nonzero(~(scores[row] <= target_score)))
                gains.append(1 / np.log2(place + 2))
        return float(np.mean(gains)) if gains else 0.0

    def read_arrays(self, best: dict[str, Any]) -> tuple[Matrix, dict[str, Matrix]]:
        """Return the item vectors and the other arrays of the best parameters."""
        parameters = best or self._begin().parameters
        vectors = np.asarray(self._steps.compute_item_vectors(parameters, self._content))
        return vectors, {name: np.asarray(parameters[name]) for name in array_names(self._config.blocks)}


_AT_ONCE = 64


def reduce_content(content: Any, rng: np.random.Generator) -> Matrix | None:
    """Return contents with at most 128 dimensions; a random projection keeps their inner products nearly.

    Shapes:
        content: float32 [n, c] or CSR, or None; returns: float32 [n, c']
    """
    if content is None:
        return None
    if content.shape[1] > _CONTENT_WIDTH:
        # Johnson-Lindenstrauss: random directions of this scale keep inner products in the mean.
        directions = rng.normal(0.0, _CONTENT_WIDTH**-0.5, (content.shape[1], _CONTENT_WIDTH))
        content = content @ directions.astype(np.float32)
    dense: Matrix = content.toarray() if sp.issparse(content) else np.asarray(content)
    return dense.astype(np.float32, copy=False)


def estimate_memory_bytes(items: int, events: int, recipe: TransformerRecipe) -> int:
    """Return the estimated peak memory of the training in bytes."""
    vectors = 4 * items * (recipe.dimensions * _COPIES + _CONTENT_WIDTH)
    logits = 4 * recipe.batch_events * min(recipe.sampled, items) * _COPIES
    return vectors + logits + 100 * events + LIBRARY_BYTES


def estimate_seconds(items: int, events: int, recipe: TransformerRecipe, *, at_most: bool = False) -> float:
    """Return the estimated training time on one core in seconds, for a usual number of epochs or the largest one.

    Nothing tells beforehand in which epoch the training stops: equal sizes of data stopped after 14 to 38.
    """
    multiplied = 36 * recipe.blocks * recipe.dimensions + 3 * min(recipe.sampled, items)
    most = recipe.limit_epochs(events)
    epochs = most if at_most else min(most, _USUAL_EPOCHS + _EARLY_EVENTS / max(events, 1))
    each = 2 * events * recipe.dimensions * multiplied / _FLOPS_PER_S + items * _ITEM_EPOCH_S
    return epochs * each + _COMPILE_S


_COPIES = 8
"Copies of the item vectors: parameters, moments, the average, the best epoch and the stored state."
LIBRARY_BYTES = 500 << 20
"JAX and its compiled steps; they stay in the process after the training."
_FLOPS_PER_S = 3.5e10
"Throughput of one core, including functions that are no products of matrices."
_ITEM_EPOCH_S = 6e-6
"Time for one item in an epoch: comparing its vector with those of the held-out users, and catching up."
_USUAL_EPOCHS = 21
_EARLY_EVENTS = 700_000
"Events of the additional epochs that small data need, in all: 33 to 43 epochs were run on 70,000 events."
_COMPILE_S = 2.0
