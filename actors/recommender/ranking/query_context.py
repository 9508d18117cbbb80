"""A query with everything the stages need to know: worked out once, passed along."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import mmh3

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.score import personal_scores
from actors.recommender.ranking.session_context import apply_session_context
from actors.recommender.ranking.user_profile import UserProfile, build_user_profile, find_interaction_rows
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import CohortScores, EngineState, ItemPriors
from actors.recommender.state.interaction_rows import InteractionRows, RecentEventTuple
from actors.recommender.state.prior_scores import PriorScores, Ranking
from actors.recommender.state.score_components import PersonalScores
from cluster.records.validation.recent_events import GROUP

_DAY_MS = 86_400_000
_LOOK_BACK = 200


def seed_from_names(*parts: str) -> int:
    """Derive a seed from names."""
    return mmh3.hash64("\x00".join(parts), signed=False)[0]


@dataclass(frozen=True)
class QueryContext:
    """One query on its way through the pipeline."""

    query: UserQuery
    recent_events: list[RecentEventTuple]
    "What the reader did lately, newest first."
    shown_ids: list[str]
    "Products already returned under the query's `pagination_id`."
    engine_state: EngineState
    item_priors: ItemPriors
    now_ms: int

    @property
    def catalog(self) -> Catalog:
        """The products."""
        return self.engine_state.catalog

    @property
    def shown_count(self) -> int:
        """Places of the whole list that earlier pages filled."""
        return len(self.shown_ids)

    @property
    def start(self) -> int:
        """Rows to skip of what is left after earlier pages."""
        return max(0, self.query.start - self.shown_count)

    @property
    def page_end(self) -> int:
        """Rows that must be left after earlier pages to fill this one."""
        return self.start + self.query.rows

    @cached_property
    def shown_rows(self) -> frozenset[int]:
        """Rows of earlier pages; with their variants when one per product is wanted."""
        if not self.shown_ids:
            return frozenset()
        rows = self.catalog.rows_of(self.shown_ids)
        return frozenset(self.catalog.add_variants(rows) if self.query.dedupe else rows)

    @cached_property
    def interaction_rows(self) -> InteractionRows:
        """What the reader did, by row."""
        return find_interaction_rows(self.recent_events, self.catalog)

    @cached_property
    def history_profile(self) -> UserProfile:
        """What the reader likes, by what they did."""
        return build_user_profile(self.interaction_rows, self.engine_state.index)

    @cached_property
    def user_profile(self) -> UserProfile:
        """What the reader likes, the session's variables included."""
        context = self.query.context
        if not context:
            return self.history_profile
        return apply_session_context(
            self.history_profile, context, self.catalog, self.engine_state.index, self.item_priors
        )

    @cached_property
    def cohort_scores(self) -> CohortScores | None:
        """What users with equal attributes take; None for a user with history, or when nothing is known of them."""
        profile = {**self.query.context, **self.query.cohort}
        if not profile or self.history_profile.has_signal:
            return None
        return self.engine_state.get_cohort_scores(profile, self.item_priors, self.now_ms)

    @cached_property
    def prior_scores(self) -> PriorScores:
        """What the user's scores start from: everybody's, or those of their cohort when that is all that is known."""
        if self.history_profile.has_signal:
            return self.item_priors.prior
        return self.item_priors.prior_new if self.cohort_scores is None else self.cohort_scores.prior

    @cached_property
    def personal_scores(self) -> PersonalScores:
        """What is said to this reader alone."""
        return personal_scores(self.user_profile, self.engine_state, self.item_priors)

    def build_ranking(self) -> Ranking:
        """Score every row for the reader; whoever asks may bar rows of it."""
        return Ranking(self.prior_scores, self.personal_scores)

    @property
    def fallback_level(self) -> str:
        """Name the rung of the fallback ladder: the reader's own taste, their kind's, the session's, the crowd's."""
        if self.history_profile.has_signal:
            return "personal"
        if self.cohort_scores is not None:
            return "cohort"
        if self.user_profile.has_signal:
            return "context"
        return "trending" if self.item_priors.has_interactions else "newest"

    @cached_property
    def seed(self) -> int:
        """Seed of the noise: one per reader and `pagination_id`, else one per reader and day (UTC).

        So the pages of one reader fit together when they are turned by `start` alone.
        """
        return seed_from_names(
            *self.query.reader_ids, self.query.pagination_id or f"day {self.now_ms // _DAY_MS}"
        )

    @cached_property
    def last_shown(self) -> list[int]:
        """Rows that end the page before, in order: spacing looks back at them."""
        if not self.query.spacing:
            return []
        distance = max(rule.minimum_distance for rule in self.query.spacing)
        return self.catalog.rows_of(self.shown_ids[-min(distance, _LOOK_BACK) :]) if distance else []

    @cached_property
    def anchor_rows(self) -> list[int]:
        """Rows of the anchors of `product_to_products`, variants of anchored groups included."""
        rows: list[int] = []
        for anchor in self.query.anchors:
            if anchor.startswith(GROUP):
                rows += self.catalog.rows_of_group(anchor.removeprefix(GROUP))
            else:
                rows += self.catalog.rows_of((anchor,))
        return list(dict.fromkeys(rows))
