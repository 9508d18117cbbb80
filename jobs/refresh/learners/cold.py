"""What readers with equal profile values take, drawn towards what everybody takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import BaseModel, Field

from actors.learned.cohorts import Cohorts
from actors.learned.histories import DAY_S
from actors.vectors.types import Codes, Floats, Rows
from cluster.errors import Invalid
from jobs.refresh.events.dataset import Interactions
from jobs.refresh.learner import STRICT
from jobs.refresh.learners.popularity import daily_votes


class CohortRecipe(BaseModel):
    """Parameters of cohorts."""

    model_config = STRICT

    fields: tuple[str, ...] = ()
    "Profile fields by which readers are grouped, as `country` or `custom_attributes.plan`."
    prior: float = Field(default=2_000.0, ge=0)
    "Votes of everybody that are added to every cohort: the smaller it is, the more it follows the crowd."
    half_life_days: float | None = Field(default=7.0, gt=0)
    "Halves a vote for every so many days of age."


def cohorts_of(recipe: CohortRecipe, data: Interactions) -> Cohorts | None:
    """Count what readers of a kind take; none when nothing is known of what readers are like."""
    profiles = data.profiles
    if profiles is None or not profiles.fields:
        return None
    cohorts = train_cohorts(recipe, data, profiles.codes)
    return replace(cohorts, fields=profiles.fields, values=profiles.values)


def train_cohorts(recipe: CohortRecipe, data: Interactions, profiles: Codes) -> Cohorts:
    """Count what the readers of each profile value take.

    Shapes:
        profiles: int32 [readers, f], codes from 0 within each field, -1 for unknown
    Errors:
        Invalid: there are not as many profiles as readers
    Source:
        ranking notes, section 5: means over fields beat a product of probabilities, which overfits
    """
    if len(profiles) != data.n_readers:
        raise Invalid(f"there are {len(profiles)} profiles for {data.n_readers} readers")
    votes = daily_votes(data)
    weights = votes.weight.astype(np.float64)
    if recipe.half_life_days is not None and data.clock:
        weights *= np.exp2((votes.at_s - data.now_s) / (DAY_S * recipe.half_life_days))
    counts = np.bincount(votes.item, weights, data.n_items)
    everybody = counts / max(float(counts.sum()), 1e-12)
    sizes = profiles.max(axis=0, initial=-1).astype(np.int64) + 1
    first = np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64)
    shares = [
        _shares(
            profiles[votes.reader, field], votes.item, weights, everybody, int(sizes[field]), recipe.prior
        )
        for field in range(profiles.shape[1])
    ]
    whole = np.concatenate(shares) if shares else np.zeros((0, data.n_items))
    return Cohorts(whole.astype(np.float32), everybody.astype(np.float32), first)


def _shares(codes: Codes, item: Rows, weights: Floats, everybody: Floats, size: int, prior: float) -> Floats:
    known = codes >= 0
    keys = codes[known].astype(np.int64) * len(everybody) + item[known]
    counts = np.bincount(keys, weights[known], size * len(everybody)).reshape(size, -1)
    shares: Floats = (counts + prior * everybody) / np.maximum(
        counts.sum(axis=1, keepdims=True) + prior, 1e-12
    )
    return shares
