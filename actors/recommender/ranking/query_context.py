"""A query with everything the stages need to know: worked out once, passed along."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from actors.recommender.messages import ReaderQuery
from actors.recommender.ranking.score import own_of
from actors.recommender.ranking.session_context import leaning
from actors.recommender.ranking.user_profile import Did, Taste, Traces, taste_of, traces_of
from actors.recommender.rerank.dither import seed_of
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import CohortScores, Holdings, Standing
from actors.recommender.state.prior_scores import Ranking, Start
from actors.recommender.state.score_components import Own
from cluster.records.validation.recent_events import GROUP

_DAY_MS = 86_400_000
_LOOK_BACK = 200


@dataclass(frozen=True)
class Request:
    """One query on its way through the pipeline."""

    query: ReaderQuery
    did: list[Did]
    "What the reader did lately, newest first."
    shown: list[str]
    "Products already returned under the query's `pagination_id`."
    holdings: Holdings
    standing: Standing
    now_ms: int

    @property
    def catalog(self) -> Catalog:
        """The products."""
        return self.holdings.catalog

    @property
    def before(self) -> int:
        """Places of the whole list that earlier pages filled."""
        return len(self.shown)

    @property
    def start(self) -> int:
        """Rows to skip of what is left after earlier pages."""
        return max(0, self.query.start - self.before)

    @property
    def wanted(self) -> int:
        """Rows that must be left after earlier pages to fill this one."""
        return self.start + self.query.rows

    @cached_property
    def shown_rows(self) -> frozenset[int]:
        """Rows of earlier pages; with their variants when one per product is wanted."""
        if not self.shown:
            return frozenset()
        rows = self.catalog.rows_of(self.shown)
        return frozenset(self.catalog.with_variants(rows) if self.query.dedupe else rows)

    @cached_property
    def traces(self) -> Traces:
        """What the reader did, by row."""
        return traces_of(self.did, self.catalog)

    @cached_property
    def own_taste(self) -> Taste:
        """What the reader likes, by what they did."""
        return taste_of(self.traces, self.holdings.index)

    @cached_property
    def taste(self) -> Taste:
        """What the reader likes, the session's variables included."""
        context = self.query.context
        if not context:
            return self.own_taste
        return leaning(self.own_taste, context, self.catalog, self.holdings.index, self.standing)

    @cached_property
    def cohort(self) -> CohortScores | None:
        """What users with equal attributes take; None for a user with history, or when nothing is known of them."""
        profile = {**self.query.context, **self.query.cohort}
        if not profile or self.own_taste.known:
            return None
        return self.holdings.get_cohort_scores(profile, self.standing, self.now_ms)

    @cached_property
    def start_scores(self) -> Start:
        """What the user's scores start from: everybody's, or those of their cohort when that is all that is known."""
        if self.own_taste.known:
            return self.standing.start
        return self.standing.start_new if self.cohort is None else self.cohort.start

    @cached_property
    def own(self) -> Own:
        """What is said to this reader alone."""
        return own_of(self.taste, self.holdings, self.standing)

    def ranking(self) -> Ranking:
        """Score every row for the reader; whoever asks may bar rows of it."""
        return Ranking(self.start_scores, self.own)

    @property
    def rung(self) -> str:
        """Name the rung of the fallback ladder: the reader's own taste, their kind's, the session's, the crowd's."""
        if self.own_taste.known:
            return "personal"
        if self.cohort is not None:
            return "cohort"
        if self.taste.known:
            return "context"
        return "trending" if self.standing.voted else "newest"

    @cached_property
    def seed(self) -> int:
        """Seed of the noise: one per reader and `pagination_id`, else one per reader and day (UTC).

        So the pages of one reader fit together when they are turned by `start` alone.
        """
        return seed_of(*self.query.reader_ids, self.query.pagination_id or f"day {self.now_ms // _DAY_MS}")

    @cached_property
    def last_shown(self) -> list[int]:
        """Rows that end the page before, in order: spacing looks back at them."""
        if not self.query.spacing:
            return []
        distance = max(rule.minimum_distance for rule in self.query.spacing)
        return self.catalog.rows_of(self.shown[-min(distance, _LOOK_BACK) :]) if distance else []

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
