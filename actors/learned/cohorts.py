"""What readers with equal profile values take, drawn towards what everybody takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from actors.learned.model import Batch, Parts
from actors.vectors.types import Codes, Matrix, Rows


@dataclass(frozen=True, slots=True)
class Cohorts:
    """Shares of all votes, per profile value.

    Shapes:
        shares: float32 [c, n], one row per value of any field; everybody: float32 [n]; first: int64 [f], row of the
        first value of each field
    """

    shares: Matrix
    everybody: Matrix
    first: Rows

    def score(self, profiles: Codes) -> Batch:
        """Give the mean over the fields that are known; everybody's shares when none is.

        Shapes:
            profiles: int32 [q, f], codes of values, -1 for unknown
            returns: float32 [q, n]
        """
        known = profiles >= 0
        rows = (self.first + np.maximum(profiles, 0))[known]
        owner = np.nonzero(known)[0]
        counts = known.sum(axis=1)
        weights = 1.0 / counts[owner]
        shape = (len(profiles), len(self.shares))
        scores: Batch = (sp.csr_matrix((weights, (owner, rows)), shape=shape) @ self.shares).astype(
            np.float32
        )
        scores[counts == 0] = self.everybody
        return scores

    def save(self) -> Parts:
        """Give the shares."""
        return Parts({"shares": self.shares, "everybody": self.everybody, "first": self.first})

    @classmethod
    def load(cls, parts: Parts) -> Cohorts:
        """Bring the shares back."""
        return cls(parts.array("shares"), parts.array("everybody"), parts.array("first"))
