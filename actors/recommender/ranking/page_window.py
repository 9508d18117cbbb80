"""The places of the whole list that a query asks for, and the rows that earlier pages showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.recommender.messages import UserQuery
from actors.recommender.state.catalog import Catalog

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
    "Rows of earlier pages, with their variants when the query wants one for each product."
    last_shown: Sequence[int] = ()
    "Rows at the end of the page before, in order. Only diversity rules need them."

    @property
    def is_first(self) -> bool:
        """Tell whether the page begins the list."""
        return not self.start and not self.shown_count


def find_page_window(query: UserQuery, shown_ids: Sequence[str], catalog: Catalog) -> PageWindow:
    """Locate the page of a query behind the products that earlier pages returned."""
    if not shown_ids:
        start = max(0, query.start)
        return PageWindow(0, start, start + query.rows)
    count = len(shown_ids)
    start = max(0, query.start - count)
    rows = catalog.rows_of(shown_ids)
    return PageWindow(
        count,
        start,
        count + start + query.rows,
        frozenset(catalog.add_variants(rows) if query.dedupe else rows),
        _find_last_shown(query, shown_ids, catalog),
    )


def _find_last_shown(query: UserQuery, shown_ids: Sequence[str], catalog: Catalog) -> list[int]:
    distance = max((rule.minimum_distance for rule in query.spacing), default=0)
    return catalog.rows_of(shown_ids[-min(distance, _LOOK_BACK) :]) if distance else []
