"""What a request knows of its user: interactions, profile and cohort."""

from __future__ import annotations

from dataclasses import dataclass

from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.session_context import apply_session_context
from actors.recommender.ranking.user_profile import UserProfile, build_user_profile, find_interaction_rows
from actors.recommender.state.engine_state import CohortScores, ItemPriors
from actors.recommender.state.interaction_rows import InteractionRows


@dataclass(frozen=True, slots=True)
class UserSignals:
    """The signals of one user at the time of one query."""

    history: InteractionRows
    "The recent interactions, by row."
    history_profile: UserProfile
    "The profile of the history alone."
    profile: UserProfile
    "The profile with the session variables of the query."
    cohort: CohortScores | None
    "The scores of users with equal attributes. None for a user with a history, and without a known cohort."

    @property
    def has_history(self) -> bool:
        """Tell whether the interactions say anything about the interests of the user."""
        return self.history_profile.has_signal


def build_user_signals(request: QueryContext) -> UserSignals:
    """Build the history, the profile and the cohort of the user of a query.

    Cost:
        40 us for 50 events without session variables and cohort

    Source:
        docs/concepts/scoring.md, equations 2, 7 and 15
    """
    query, state, priors = request.query, request.engine_state, request.item_priors
    history = find_interaction_rows(request.recent_events, state.catalog)
    learned = build_user_profile(history, state.index)
    profile = learned
    if query.context:
        profile = apply_session_context(learned, query.context, state.catalog, state.index, priors)
    cohort = None
    attributes = {**query.context, **query.cohort}
    if attributes and not learned.has_signal:
        cohort = state.get_cohort_scores(attributes, priors, request.now_ms)
    return UserSignals(history, learned, profile, cohort)


def name_fallback_level(user: UserSignals, priors: ItemPriors) -> str:
    """Name the source of a list (`served_by`): the first of history, cohort, session and trend that is known."""
    if user.has_history:
        return "personal"
    if user.cohort is not None:
        return "cohort"
    if user.profile.has_signal:
        return "context"
    return "trending" if priors.has_interactions else "newest"
