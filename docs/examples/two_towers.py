"""A neural learner to copy: two towers, trained by gradient descent, with a line of progress for each epoch.

    PYTHONPATH=. kiosk learners conform two_towers:TwoTowers --config '{"epochs": 20}'
    kiosk learners allow two_towers:TwoTowers

The item tower gives each item a vector: a free one plus a projection of its content. The user tower takes the mean of
the vectors in a history, and projects it. The loss is a softmax over the targets of a batch:

    v_i  = free_i + content_i P
    u    = mean of v over the newest items of the history, times U
    loss = -log softmax_j(u . v_j - log q_j)[target],  q_j = share of item j in all targets

Only `train` needs the library of your choice. With torch and a GPU, keep the arrays on the device inside `train`, and
hand numpy arrays to the model: what serves needs no GPU. `docs/guides/learners.md` explains the protocol.

Source: Yi et al. 2019, Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.models.model import Batch
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners.training_progress import current_progress

HALF_LIFE = TimeDecay(half_life_items=8.0)


@dataclass(frozen=True)
class TwoTowersModel:
    """The vectors of the items, and the projection of the user tower."""

    items: Any
    "float32 [n, d]"
    user: Any
    "float32 [d, d]"

    def score(self, histories: UserHistories) -> Batch:
        """Return the score of every item for every history: float32 [q, n]; an empty history scores 0."""
        recent = sp.csr_matrix(apply_time_decay(histories, HALF_LIFE))
        totals = np.maximum(np.asarray(abs(recent).sum(axis=1)), 1e-9)
        users = (recent @ self.items / totals) @ self.user
        scores: Batch = np.asarray(users @ self.items.T, np.float32)
        return scores

    def save(self) -> ModelState:
        """Return what load() needs."""
        return ModelState({"items": self.items, "user": self.user}, {})


class TwoTowers:
    """Trains both towers. The arguments of the constructor come from `config` in the recipe."""

    def __init__(self, width: int = 32, epochs: int = 15, batch: int = 256, rate: float = 0.1) -> None:
        self.width, self.epochs, self.batch, self.rate = width, epochs, batch, rate

    def train(self, data: Interactions, rng: np.random.Generator) -> TwoTowersModel:
        """Train on pairs of a history and the item that came next."""
        histories, targets = list_pairs(data)
        content = None if data.content is None else sp.csr_matrix(data.content)
        weights = {
            "free": rng.normal(0, 0.1, (data.n_items, self.width)),
            "user": np.eye(self.width) + rng.normal(0, 0.01, (self.width, self.width)),
        }
        if content is not None:
            weights["content"] = rng.normal(0, 0.1, (content.shape[1], self.width))
        squares = {name: np.full(array.shape, 1e-6) for name, array in weights.items()}
        rarity = np.log(np.maximum(np.bincount(targets, minlength=data.n_items), 1) / max(len(targets), 1))
        for epoch in range(self.epochs if len(targets) else 0):
            order, losses = rng.permutation(len(targets)), []
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                loss, slopes = descend(weights, content, histories[chosen], targets[chosen], rarity)
                losses.append(loss)
                for name, slope in slopes.items():  # Adagrad
                    squares[name] += slope**2
                    weights[name] -= self.rate * slope / np.sqrt(squares[name])
            # it stands in `kiosk runs show` and in the console while the training goes on
            current_progress().show(f"epoch {epoch + 1} of {self.epochs}, loss {np.mean(losses):.4f}")
        return TwoTowersModel(
            item_vectors(weights, content).astype(np.float32), weights["user"].astype(np.float32)
        )

    def load(self, parts: ModelState) -> TwoTowersModel:
        """Return the model that save() described."""
        return TwoTowersModel(parts.array("items"), parts.array("user"))


def list_pairs(data: Interactions, most: int = 20) -> tuple[Any, Any]:
    """Return histories and the item that each user took next.

    Shapes:
        histories: CSR float64 [pairs, n], the mean over at most `most` earlier items; targets: int64 [pairs]
    """
    liked = np.flatnonzero(data.weight > 0)
    reader, item = data.reader[liked], data.item[liked]
    begin = np.searchsorted(reader, reader)  # rows are sorted by user
    length = np.minimum(np.arange(len(liked)) - begin, most)
    ends = np.flatnonzero(length > 0)
    starts = np.concatenate([[0], np.cumsum(length[ends])])
    places = (
        np.arange(starts[-1])
        - np.repeat(starts[:-1], length[ends])
        + np.repeat(ends - length[ends], length[ends])
    )
    values = np.repeat(1.0 / np.maximum(length[ends], 1), length[ends])
    histories = sp.csr_matrix((values, item[places], starts), shape=(len(ends), data.n_items))
    return histories, item[ends].astype(np.int64)


def item_vectors(weights: dict[str, Any], content: Any) -> Any:
    """Return the output of the item tower: float64 [n, d]."""
    return weights["free"] if content is None else weights["free"] + content @ weights["content"]


def descend(
    weights: dict[str, Any], content: Any, histories: Any, targets: Any, rarity: Any
) -> tuple[float, dict[str, Any]]:
    """Return the loss of a batch and the gradient of each weight.

    Shapes:
        histories: CSR [b, n]; targets: int64 [b]; rarity: float64 [n]
    """
    vectors = item_vectors(weights, content)
    means = histories @ vectors
    users, wanted = means @ weights["user"], vectors[targets]
    logits = users @ wanted.T - rarity[targets]
    logits[targets[:, None] == targets[None, :]] = -np.inf  # the same item is no wrong answer
    np.fill_diagonal(logits, np.einsum("ij,ij->i", users, wanted) - rarity[targets])
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    loss = float(-np.log(np.maximum(np.diag(shares), 1e-12)).mean())
    shares[np.diag_indices(len(targets))] -= 1.0
    shares /= len(targets)
    of_users = shares @ wanted
    of_vectors = histories.T @ (of_users @ weights["user"].T)
    np.add.at(of_vectors, targets, shares.T @ users)
    slopes = {"free": of_vectors, "user": means.T @ of_users}
    if content is not None:
        slopes["content"] = content.T @ of_vectors
    return loss, slopes
