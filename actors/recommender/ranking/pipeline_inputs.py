"""The inputs of a pipeline beside the query and the engine: the page, and the signals of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.session_context import apply_session_context
from actors.recommender.ranking.user_profile import (
    EMPTY_PROFILE,
    MOST_ROWS,
    UserProfile,
    build_user_profile,
    find_interaction_rows,
)
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.compact_histories import UnpackedEvents, read_older_events, take_newest
from actors.recommender.state.engine_state import CohortScores, EngineState, ItemPriors
from actors.recommender.state.interaction_rows import InteractionRows, RecentEventTuple
from cluster.records.validation.recent_events import GROUP


@dataclass(frozen=True, slots=True)
class ExplorationDraw:
    """The draw of one answer: does it explore, at which place, and which product."""

    share: float
    "Probability that an answer explores."
    pool_size: int
    chance: float
    "Uniform in [0, 1): the answer explores if it is below `share`."
    place: int
    product: int
    "Uniform 64 bit integers, modulo the places of the list and the products of the pool."


Draw = ExplorationDraw | None
"The draw of an answer; None: it is not explored."


def find_anchor_rows(query: UserQuery, catalog: Catalog) -> list[int]:
    """Return the rows of the anchors of `product_to_products`, with all variants of anchored groups."""
    rows: list[int] = []
    for anchor in query.anchors:
        if anchor.startswith(GROUP):
            rows += catalog.rows_of_group(anchor.removeprefix(GROUP))
        else:
            rows += catalog.rows_of((anchor,))
    return list(dict.fromkeys(rows))


# Bounds the distance that diversity keeps across two pages.
_LOOK_BACK = 200


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The place of one page in the whole list. Without a `pagination_id` no place is filled before it."""

    shown_count: int
    "Places of the whole list that earlier pages filled."
    start: int
    "Rows to skip of those that earlier pages left."
    depth: int
    "Places of the whole list up to the end of the page."
    shown_rows: frozenset[int] = frozenset()
    "Rows of earlier pages; with their variants when the query requests one variant for each product."
    last_shown: Sequence[int] = ()
    "Rows at the end of the page before, in order. Only diversity rules need them."
    draw: Draw = None

    @property
    def pool_depth(self) -> int:
        """Return the places up to the end of the page, and the candidates behind it from which exploration draws."""
        return self.depth if self.draw is None else self.depth + self.draw.pool_size

    @property
    def is_first(self) -> bool:
        return not self.start and not self.shown_count


def find_page_window(
    query: UserQuery, shown_ids: Sequence[str], catalog: Catalog, draw: Draw = None
) -> PageWindow:
    """Locate the page of a query behind the products that earlier pages of its `pagination_id` returned."""
    if not shown_ids:
        start = max(0, query.start)
        return PageWindow(0, start, start + query.rows, draw=draw)
    count = len(shown_ids)
    # `start` counts from the whole list, and earlier pages filled its first `count` places.
    start = max(0, query.start - count)
    rows = catalog.rows_of(shown_ids)
    return PageWindow(
        count,
        start,
        count + start + query.rows,
        # Another size of a product of page one is a repetition for the user.
        frozenset(catalog.expand_variants(rows) if query.dedupe else rows),
        _find_last_shown(query, shown_ids, catalog),
        draw,
    )


def _find_last_shown(query: UserQuery, shown_ids: Sequence[str], catalog: Catalog) -> list[int]:
    distance = max((rule.minimum_distance for rule in query.spacing), default=0)
    return catalog.rows_of(shown_ids[-min(distance, _LOOK_BACK) :]) if distance else []


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
    unseen_only: bool = False
    "Whether the list has no product of the history, so that the snapshot's weights for such lists count."
    older: UnpackedEvents | None = None
    "The events before the recent interactions, newest first."
    gains: Mapping[int, float] = field(default_factory=dict)
    "Row -> what the re-ranker adds to its score; for explanations."


NO_SIGNALS = UserSignals(InteractionRows(), EMPTY_PROFILE, EMPTY_PROFILE, None)
"The signals of a user of whom nothing is known."


def build_user_signals(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> UserSignals:
    """Build the history, the profile and the cohort of the user of a query from the recent events, newest first.

    Cost:
        40 us for 50 events without session variables and cohort

    Source:
        docs/concepts/scoring.md, equations 2, 7 and 15
    """
    history = find_interaction_rows(recent_events, state.catalog)
    older = read_older_events(
        state.overlay.histories, query.user_id, history, len(recent_events), len(query.simulated)
    )
    counting = None if older is None else _select_profile_events(older, history, state)
    learned = build_user_profile(history, state.index, counting)
    profile = learned
    if query.context:
        profile = apply_session_context(learned, query.context, state.catalog, state.index, priors)
    cohort = None
    attributes = {**query.context, **query.cohort}
    # A history says more than attributes: the cohort serves users of whom nothing else is known.
    if attributes and not learned.has_signal:
        cohort = state.get_cohort_scores(attributes, priors, now_ms)
    return UserSignals(history, learned, profile, cohort, older=older)


def _select_profile_events(
    older: UnpackedEvents, history: InteractionRows, state: EngineState
) -> UnpackedEvents | None:
    """Select the older events that still say something about the interests of a user."""
    # As far back as a part of the snapshot looks: older events would be read and then weigh nothing.
    depth = MOST_ROWS if state.serving_model is None else max(MOST_ROWS, state.serving_model.history_depth)
    newest = take_newest(older, history.rows, depth)
    return newest if len(newest) else None


def name_fallback_level(user: UserSignals, priors: ItemPriors) -> str:
    """Name the source of a list (`served_by`): the first of history, cohort, session and trend that is known."""
    if user.history_profile.has_signal:
        return "personal"
    if user.cohort is not None:
        return "cohort"
    if user.profile.has_signal:
        return "context"
    return "trending" if priors.has_interactions else "newest"
