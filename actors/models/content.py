"""Content-based scores of products without events: weights from a history to features.

A trained blend scores the items of the snapshot for a history. A ridge regression explains these scores by the features
of the items. Both steps are linear, so one sparse matrix from items to features is enough. The score of a product is
the sum over its features, also for a product uploaded after the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.models.model import Batch
from actors.models.neighbours import add_rows, csr_from_arrays
from actors.models.user_histories import TimeDecay, UserHistories, apply_time_decay
from actors.models.user_history import UserHistory
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Rows, Scores


@dataclass(frozen=True, slots=True)
class ContentModel:
    """Weights from items of a history to features.

    Shapes:
        weights: CSR float32 [n, d]; row = item of the history, column = feature
        features: int64 [d], ascending; sample: CSR float32 [s, d], features of a sample of items
    """

    weights: Any
    features: Rows
    sample: Any
    "Scores are scaled to deviation 1 over these items."
    fading: TimeDecay

    def score(self, histories: UserHistories, products: Any) -> Batch:
        """Return the scores of products for histories, in no fixed scale.

        Shapes:
            products: CSR float32 [k, d]
            returns: float32 [q, k]
        """
        liked = apply_time_decay(histories, self.fading) @ self.weights
        scores: Batch = (liked @ products.T).toarray().astype(np.float32, copy=False)
        return scores

    def score_past(self, past: UserHistory, products: Any) -> Scores:
        """Return the scores of products for one user, scaled to deviation 1 over the sample; zeros without evidence.

        Shapes:
            products: CSR float32 [k, d]
            returns: float32 [k]
        Cost:
            50 events, 2,000 products of ten features: 60 us
        """
        # f M, shape [d]: what the history says of each feature (equation 12)
        liked = np.zeros(len(self.features), np.float32)
        if not add_rows(self.weights, *past.apply_time_decay(self.fading), liked):
            return np.zeros(products.shape[0], np.float32)
        usual = self.sample @ liked
        # Over the sample of known items, so that cold products have the scale of products with
        # interactions.
        spread = float(usual.std())
        # All sample items alike: the history says nothing of these features, and the quotient would be
        # noise.
        if spread <= 1e-12:
            return np.zeros(products.shape[0], np.float32)
        scores: Scores = (products @ liked - usual.mean()) * np.float32(1 / spread)
        return scores

    def save(self) -> ModelState:
        """Return weights and sample as three arrays each, and the features."""
        arrays = {
            "starts": self.weights.indptr,
            "columns": self.weights.indices,
            "weights": self.weights.data,
            "features": self.features,
            "sample_starts": self.sample.indptr,
            "sample_columns": self.sample.indices,
            "sample_values": self.sample.data,
        }
        return ModelState(arrays, {"fading": self.fading.model_dump(), "items": int(self.weights.shape[0])})

    @classmethod
    def load(cls, parts: ModelState) -> ContentModel:
        """Return the weights of a saved state, without copying them."""
        features = np.asarray(parts.array("features"))
        starts, columns, values = (parts.array(name) for name in ("starts", "columns", "weights"))
        weights = csr_from_arrays(starts, columns, values, (int(parts.facts["items"]), len(features)))
        taken = (parts.array(f"sample_{name}") for name in ("starts", "columns", "values"))
        first, columns, values = taken
        sample = csr_from_arrays(first, columns, values, (len(first) - 1, len(features)))
        return cls(weights, features, sample, TimeDecay(**parts.facts["fading"]))
