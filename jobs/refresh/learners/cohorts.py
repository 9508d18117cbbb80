"""Popularity by cohort (users with an equal profile value), smoothed towards the popularity among all users."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from actors.models.cohorts import ATTRIBUTES, CohortModel, estimate_prior
from actors.models.user_histories import DAY_S
from actors.vectors.types import Codes, Floats, Mask, Rows
from cluster.errors import Invalid
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.data.split import Targets
from jobs.refresh.evaluation import metrics
from jobs.refresh.evaluation.metrics import significant_gain
from jobs.refresh.learners.popularity import select_daily_votes
from jobs.refresh.learners.protocol import RecipeModel

PRIORS: tuple[float | None, ...] = (2_000.0, 300.0, 50.0, 10.0)
HALF_LIVES: tuple[float | None, ...] = (7.0, 30.0, 90.0, None)
"Candidate half-lives of `auto` in days, the default first."

_VALIDATION_SHARE = 0.1
# Below it, the mean over validation users is too uncertain to choose by.
_ENOUGH_USERS = 30
_MOST_USERS = 2_000


class CohortRecipe(RecipeModel):
    """Parameters of popularity by cohort."""

    fields: tuple[str, ...] = ()
    "Profile fields that group users, for example `country` or `custom_attributes.plan`."
    prior: Annotated[float, Field(ge=0)] | Literal["auto"] = "auto"
    """Pseudo-votes with the distribution of all users, added to each cohort; small cohorts are smoothed more.

    `auto` chooses the prior on validation, or estimates it for each cohort if there are too few users."""
    half_life_days: Annotated[float, Field(gt=0)] | Literal["auto"] | None = "auto"
    "Half-life of a vote in days; `auto` chooses half-life and prior on held-out users."


def build_cohorts(recipe: CohortRecipe, data: Interactions, rng: np.random.Generator) -> CohortModel | None:
    """Train popularity by cohort; return None if the users have no profiles."""
    profiles = data.profiles
    if profiles is None or not profiles.fields:
        return None
    settled, fields = _choose_parameters(recipe, data, profiles, rng)
    if not fields:
        return None
    cohorts = train_cohorts(settled, data, profiles.codes[:, fields])
    return replace(
        cohorts,
        fields=tuple(profiles.fields[at] for at in fields),
        values=tuple(profiles.values[at] for at in fields),
    )


def train_cohorts(recipe: CohortRecipe, data: Interactions, profiles: Codes) -> CohortModel:
    """Return the popularity of items among the users of each profile value.

    With `auto`, the half-life is the first candidate, and the prior is estimated for each profile value.

    Shapes:
        profiles: int32 [users, f], codes from 0 within each field, -1 for unknown
    Errors:
        Invalid: the number of profiles is not the number of users
    Source:
        Kiosk's benchmarks: means over fields have a higher NDCG than a product of probabilities, which overfits
    """
    if len(profiles) != data.n_readers:
        raise Invalid(f"there are {len(profiles)} profiles for {data.n_readers} readers")
    half_life_days = _candidate_values(recipe.half_life_days, HALF_LIVES)[0]
    votes = select_daily_votes(data)
    weights = votes.weight.astype(np.float64)
    if half_life_days is not None and data.clock:
        # 2^(-age / D), relative to the newest event of the data, so that no clock takes part
        weights *= np.exp2((votes.at_s - data.now_s) / (DAY_S * half_life_days))
    counts = np.bincount(votes.item, weights, data.n_items)
    everybody = counts / max(float(counts.sum()), 1e-12)
    sizes = profiles.max(axis=0, initial=-1).astype(np.int64) + 1
    first = np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64)
    counted = [
        _count_values(profiles[votes.reader, field], votes.item, weights, int(sizes[field]), data.n_items)
        for field in range(profiles.shape[1])
    ]
    whole = np.concatenate(counted) if counted else np.zeros((0, data.n_items))
    if recipe.prior == "auto":
        priors = _estimate_priors(votes, weights, profiles, first, len(whole), everybody)
    else:
        priors = np.full(len(whole), recipe.prior)
    mass = whole.sum(axis=1) + priors
    # (votes + m base) / (N + m); shapes [c, n] + [c, 1] * [n] (equation 15)
    shares = (whole + priors[:, None] * everybody) / np.maximum(mass, 1e-12)[:, None]
    return CohortModel(
        shares.astype(np.float32), everybody.astype(np.float32), first, mass=mass.astype(np.float32)
    )


def _choose_parameters(
    recipe: CohortRecipe, data: Interactions, profiles: Profiles, rng: np.random.Generator
) -> tuple[CohortRecipe, list[int]]:
    """Choose half-life, prior, and useful custom attributes and age bands on held-out users."""
    settled = recipe.model_copy(
        update={"half_life_days": _candidate_values(recipe.half_life_days, HALF_LIVES)[0]}
    )
    # No public data set says what age bands are worth in general, so each training measures them on its own users.
    offered = [
        at
        for at, field in enumerate(profiles.fields)
        if (field.startswith(ATTRIBUTES) or field == "age") and not recipe.fields
    ]
    fields = [at for at in range(len(profiles.fields)) if at not in offered]
    described: Mask = profiles.codes.max(axis=1) >= 0
    train, users, targets = _split_validation_users(data, described, rng)
    if len(users) < _ENOUGH_USERS:
        # too few users for validation: the prior is estimated from the votes instead
        return settled, fields
    settled = settled.model_copy(update={"prior": _candidate_values(recipe.prior, PRIORS)[0]})

    def figures(changed: CohortRecipe, chosen: list[int]) -> Floats:
        codes = profiles.codes[:, chosen]
        scores = train_cohorts(changed, train, codes).score(codes[users])
        hits = metrics.mark_hits(metrics.rank_top_items(scores, 10), targets, data.n_items)
        return metrics.ndcg(hits, targets.lengths, 10)

    now = figures(settled, fields)

    def tried(changed: CohortRecipe, chosen: list[int]) -> bool:
        nonlocal now
        changed_figures = figures(changed, chosen)
        # Against the figures chosen so far, user by user: paired differences are far less noisy than two
        # means.
        better = significant_gain(changed_figures - now, now) > 0
        now = changed_figures if better else now
        return better

    for half_life_days in _candidate_values(recipe.half_life_days, HALF_LIVES)[1:]:
        changed = settled.model_copy(update={"half_life_days": half_life_days})
        settled = changed if tried(changed, fields) else settled
    for at in offered:
        fields = [*fields, at] if tried(settled, [*fields, at]) else fields
    for prior in _candidate_values(recipe.prior, PRIORS)[1:]:
        changed = settled.model_copy(update={"prior": prior})
        settled = changed if tried(changed, fields) else settled
    # with a smaller prior, fields may help that did not help before
    for at in offered:
        if at not in fields:
            fields = [*fields, at] if tried(settled, [*fields, at]) else fields
    return settled, sorted(fields)


def _split_validation_users(
    data: Interactions, described: Mask, rng: np.random.Generator
) -> tuple[Interactions, Rows, Targets]:
    """Hold out the newest users if there are enough, else a random sample.

    Shapes:
        described: bool [users]
    """
    liked = data.pick(data.weight > 0)
    first_s = np.full(data.n_readers, np.inf)
    np.minimum.at(first_s, liked.reader, liked.at_s)
    came = np.isfinite(first_s) & described
    instant_s = float(np.quantile(liked.at_s, 1 - _VALIDATION_SHARE)) if len(liked) else 0.0
    is_validation = came & (first_s > instant_s)
    train = data.pick(data.at_s <= instant_s)
    # New users of the newest tenth are what cohorts serve; a random sample is the second best.
    if not data.clock or np.count_nonzero(is_validation) < _ENOUGH_USERS:
        is_validation = came & (rng.random(data.n_readers) < _VALIDATION_SHARE)
        train = data.pick(~is_validation[data.reader])
    users = np.flatnonzero(is_validation)
    if len(users) > _MOST_USERS:
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    validation_events = liked.pick(np.isin(liked.reader, users))
    targets = Targets.from_pairs(
        np.searchsorted(users, validation_events.reader), validation_events.item, len(users)
    )
    return train, users, targets


def _candidate_values(
    value: float | Literal["auto"] | None, choices: tuple[float | None, ...]
) -> list[float | None]:
    return list(choices) if value == "auto" else [value]


def _count_values(codes: Codes, item: Rows, weights: Floats, size: int, n_items: int) -> Floats:
    has_value = codes >= 0
    # Value and item as one number, so `bincount` makes the table in one pass.
    keys = codes[has_value].astype(np.int64) * n_items + item[has_value]
    counts: Floats = np.bincount(keys, weights[has_value], size * n_items).astype(np.float64)
    return counts.reshape(size, n_items)


def _estimate_priors(
    votes: Interactions, weights: Floats, profiles: Codes, first: Rows, rows: int, everybody: Floats
) -> Floats:
    """Estimate the prior of each row of the shares; a user has one vote per item over all days."""
    keys, pair = np.unique(votes.reader.astype(np.int64) * len(everybody) + votes.item, return_inverse=True)
    once = np.minimum(np.bincount(pair, weights, len(keys)), 1.0)
    user, item = np.divmod(keys, len(everybody))
    row = np.where(profiles[user] >= 0, profiles[user] + first, -1)
    priors = np.zeros(rows)
    for at in range(rows):
        of_row = (row == at).any(axis=1)
        counts: Floats = np.bincount(item[of_row], once[of_row], len(everybody)).astype(np.float64)
        priors[at] = estimate_prior(counts, float(once[of_row] @ once[of_row]), everybody)
    return priors
