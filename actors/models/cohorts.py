"""Popularity in cohorts of users with equal profile values, shrunk towards the popularity among all users."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from actors.models.model import Batch
from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.types import Codes, Floats, Matrix, Rows, Vector

FIELDS = ("country", "state", "city", "gender", "group_id", "age")
"Fields of users that form cohorts by default."

ATTRIBUTES = "custom_attributes."
"Prefix of custom attributes. Attributes with few values form cohorts too."

LEAST_USERS = 5
"A value of fewer users forms no cohort, because it would reveal actions of single users."

LEAST_PRIOR = 5.0
MOST_PRIOR = 2_000.0
"Bounds of an estimated prior, in votes of all users."

AGE_BANDS = (18, 25, 35, 45, 55, 65)
"First age of each band after the youngest. Single years have too few users to form cohorts."

_OLDEST = 150
# Standard errors by which the agreement must exceed chance (equation 16).
_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class CohortModel:
    """Shares of votes by item, for each profile value.

    Shapes:
        shares: float32 [c, n], one row per value of any field; everybody: float32 [n]; first: int64 [f], row of the
        first value of each field; mass: float32 [c], votes behind each row, its prior included
    """

    shares: Matrix
    everybody: Matrix
    first: Rows
    fields: tuple[str, ...] = ()
    "Profile fields, as named in user records and queries."
    values: tuple[tuple[str, ...], ...] = ()
    "Values of each field, in the order of their codes."
    mass: Vector | None = None
    "None in snapshots of earlier releases."

    def find_row(self, field: str, text: str) -> int:
        """Return the row of a value; -1 when the snapshot lacks it."""
        if field not in self.fields:
            return -1
        at = self.fields.index(field)
        code = _code(self.values[at], text)
        return code if code < 0 else int(self.first[at]) + code

    def get_mass(self, row: int) -> float:
        """Return the number of votes of a row, including its prior."""
        return MOST_PRIOR if self.mass is None else float(self.mass[row])

    def codes(self, profile: Mapping[str, Any]) -> Codes:
        """Return the codes of the values of a profile.

        Shapes:
            returns: int32 [1, f], -1 where a value is missing or unknown
        """
        codes = [
            _code(values, text_from_value(profile.get(field), field))
            for field, values in zip(self.fields, self.values, strict=True)
        ]
        return np.array([codes], np.int32).reshape(1, len(self.fields))

    def score(self, profiles: Codes) -> Batch:
        """Return the mean shares over the known fields; the shares of all users if none is known.

        Shapes:
            profiles: int32 [q, f], codes of values, -1 for unknown
            returns: float32 [q, n]
        """
        has_value = profiles >= 0
        # Shapes: profiles [q, f] -> rows [k], one for each known value; unknown ones are masked, so any
        # index will do.
        rows = (self.first + np.maximum(profiles, 0))[has_value]
        owner = np.nonzero(has_value)[0]
        counts = has_value.sum(axis=1)
        weights = 1.0 / counts[owner]
        shape = (len(profiles), len(self.shares))
        scores: Batch = (sp.csr_matrix((weights, (owner, rows)), shape=shape) @ self.shares).astype(
            np.float32
        )
        # Zero rows of the sparse matrix would give equal scores; the shares of all users still rank.
        scores[counts == 0] = self.everybody
        return scores

    def save(self) -> ModelState:
        """Return the shares as arrays, fields and values as facts."""
        arrays: dict[str, Array] = {"shares": self.shares, "everybody": self.everybody, "first": self.first}
        if self.mass is not None:
            arrays["mass"] = self.mass
        return ModelState(
            arrays, {"fields": list(self.fields), "values": [list(values) for values in self.values]}
        )

    @classmethod
    def load(cls, parts: ModelState) -> CohortModel:
        """Return the model of a saved state."""
        return cls(
            parts.array("shares"),
            parts.array("everybody"),
            parts.array("first"),
            tuple(parts.facts["fields"]),
            tuple(tuple(values) for values in parts.facts["values"]),
            parts.arrays.get("mass"),
        )


def estimate_prior(counts: Floats, squares: float, everybody: Floats) -> float:
    """Estimate how many votes of all users to add to the votes of a cohort.

    If a cohort differs from all users, two of its votes name the same product more often than two votes of all users.
    The estimate subtracts two standard errors from that frequency, so few votes must differ clearly.

    Shapes:
        counts: float64 [n], one vote (0 to 1) per user and product; everybody: float64 [n], shares that sum to 1
    Units:
        squares: sum of the squared votes
    Source:
        moments of the Dirichlet-multinomial distribution, by pairs of votes
    """
    total = float(counts.sum())
    # N^2 - Q: ordered pairs of votes of two different users, in votes
    pairs = total * total - squares
    # One vote, or votes decayed to nothing, can't agree with another one.
    if pairs <= 1e-9 or squares <= 0:
        return MOST_PRIOR
    chance = float(everybody @ everybody)
    error = squares / total * np.sqrt(2 * chance / pairs)
    # A = (sum votes^2 - Q) / (N^2 - Q) - 2 error (equation 16)
    agreed = (float(counts @ counts) - squares) / pairs - _ERRORS * error
    if agreed <= chance:
        return MOST_PRIOR
    # m = clip((1 - A) / (A - C), m_min, m_max) (equation 16)
    return float(np.clip((1 - agreed) / (agreed - chance), LEAST_PRIOR, MOST_PRIOR))


def text_from_value(value: Any, field: str = "") -> str:
    """Return the text of a profile value; empty when it is no single value.

    An age gives its band, for example `25-34`. 3 and 3.0 give the same text, because JSON does not distinguish them.
    """
    if field == "age":
        return _age_band(value)
    # Before the numbers: in Python a bool is an int, and `True` would become "1".
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else ""


def _age_band(value: Any) -> str:
    """Return the band of an age in years; a text that is no number stays as it is, so a band names itself."""
    if isinstance(value, str):
        if not (value.isascii() and value.isdecimal() and len(value) <= 3):
            return value
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _OLDEST:
        return ""
    at = bisect_right(AGE_BANDS, value)
    if at == len(AGE_BANDS):
        return f"{AGE_BANDS[-1]}+"
    return f"{AGE_BANDS[at - 1] if at else 0}-{AGE_BANDS[at] - 1}"


def _code(values: tuple[str, ...], text: str) -> int:
    return values.index(text) if text in values else -1
