"""What readers with equal profile values take, drawn towards what everybody takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.learned.model import Array, Batch, Parts
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
    fields: tuple[str, ...] = ()
    "Profile fields, as readers' records or a query name them."
    values: tuple[tuple[str, ...], ...] = ()
    "Values of each field, in the order of their codes."

    def codes(self, profile: Mapping[str, Any]) -> Codes:
        """Find the codes of a profile's values.

        Shapes:
            returns: int32 [1, f], -1 where a value is missing or nobody had it
        """
        codes = [
            _code(values, profile.get(field)) for field, values in zip(self.fields, self.values, strict=True)
        ]
        return np.array([codes], np.int32).reshape(1, len(self.fields))

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
        arrays: dict[str, Array] = {"shares": self.shares, "everybody": self.everybody, "first": self.first}
        return Parts(arrays, {"fields": list(self.fields), "values": [list(found) for found in self.values]})

    @classmethod
    def load(cls, parts: Parts) -> Cohorts:
        """Bring the shares back."""
        return cls(
            parts.array("shares"),
            parts.array("everybody"),
            parts.array("first"),
            tuple(parts.facts["fields"]),
            tuple(tuple(found) for found in parts.facts["values"]),
        )


def text_of_value(value: Any) -> str:
    """Write a profile's value as cohorts name it; empty when it is no single value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else ""


def _code(values: tuple[str, ...], value: Any) -> int:
    text = text_of_value(value)
    return values.index(text) if text in values else -1
