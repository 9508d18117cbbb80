"""Served searches of which the truth is known: people search for words of what they take soon after.

The searches are ranked as Kiosk ranks them, by words and the scores of a trained blend. People look at places and click
as in `simulated_lists`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actors.retrieval.lexical.messages import TextHits, TextQuery
from actors.retrieval.lexical.search_index import SearchIndex
from actors.search.search_pipeline import PERSONAL_WEIGHT, PRIOR_WEIGHT
from actors.search.sort import blend_scores
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Floats, Rows
from jobs.refresh.build.fit import TrainedEngine
from jobs.refresh.build.reranker_training import cut_histories
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.served_lists import ServedLists
from tests.fakes.simulated_lists import LISTED, STRAY, Likings, falling_looks, list_soon, list_visits

ANONYMOUS = 0.3
"Share of the searches without a user."


@dataclass(frozen=True, slots=True)
class _ServedSearch:
    """The first page of a search.

    Shapes:
        items: int64 [k]; scores: float64 [k], best first
    """

    items: Rows
    scores: Floats


@dataclass(frozen=True, slots=True)
class _Visit:
    """A search, what its user takes soon after, and the draws that decide about clicks.

    Shapes:
        liked: int64 [l]; draws: float64 [k]
    """

    row: int
    page: _ServedSearch
    liked: Rows
    draws: Floats


@dataclass(frozen=True, slots=True)
class ShownSearches:
    """First pages of searches that nobody has clicked yet.

    Shapes:
        users: int64 [t]; at_s: float64 [t]
    """

    users: Rows
    at_s: Floats
    visits: list[_Visit]

    def click(self, likings: Likings | None = None) -> ServedLists:
        """Let people click what they take soon after, or with the chances of `likings` at a look."""
        looks = falling_looks()
        served: list[tuple[int, _ServedSearch, Rows]] = []
        for visit in self.visits:
            items = visit.page.items
            chances = np.where(np.isin(items, visit.liked), 1.0, STRAY)
            if likings is not None:
                chances = likings(items, self.at_s[visit.row])
            clicks = visit.draws < chances * looks[: len(items)]
            if clicks.any() and not clicks.all():
                served.append((visit.row, visit.page, clicks))
        which = np.array([row for row, _, _ in served], np.int64)
        sizes = np.array([len(page.items) for _, page, _ in served], np.int64)
        return ServedLists(
            users=self.users[which],
            at_s=self.at_s[which],
            starts=np.append(0, np.cumsum(sizes)),
            items=np.concatenate([page.items for _, page, _ in served]).astype(np.int64),
            places=np.concatenate([np.arange(size) for size in sizes]),
            clicks=np.concatenate([clicks for _, _, clicks in served]),
            scores=np.concatenate([page.scores for _, page, _ in served]),
        )


class SearchShop:
    """Searches the titles of the items of a data set."""

    def __init__(self, data: Interactions, titles: Mapping[str, str]) -> None:
        self.titles = [titles.get(name, "") for name in data.items.names.to_pylist()]
        self._index = SearchIndex()
        for item, title in enumerate(self.titles):
            if title:
                self._index.put(item, {"title": title, "language": "en"})
        self._hits: dict[str, TextHits] = {}
        "People search for the same words: words -> hits."

    def choose_words(self, liked: Sequence[int], rng: np.random.Generator) -> str:
        """Return one word of three letters and more, of the title of a liked item."""
        words = [word for item in liked for word in self.titles[item].split() if len(word) > 2]
        return words[int(rng.integers(len(words)))] if words else ""

    def search(self, words: str, personal: Floats, weight: float) -> _ServedSearch:
        """Return the best items for words and a user.

        Shapes:
            personal: float [items]
        """
        hits = self._hits.get(words)
        if hits is None:
            hits = self._hits[words] = self._index.find(TextQuery(words, correct=False))
        scores = blend_scores(hits.rows, hits.scores, personal[hits.rows].astype(np.float64), weight)
        best = best_rows(scores, LISTED)
        return _ServedSearch(hits.rows[best], scores[best])


def show_searches(
    engine: TrainedEngine,
    data: Interactions,
    titles: Mapping[str, str],
    since_s: float,
    *,
    pause_s: float = 3_600.0,
    most: int = 20_000,
    seed: int = 3,
) -> ShownSearches:
    """Show a search before each event after a pause, since a time; the products of the week after it are liked."""
    rng = np.random.default_rng(seed)
    shop = SearchShop(data, titles)
    visits = list_visits(data, since_s, pause_s, most, rng)
    users = np.where(rng.random(len(visits)) < ANONYMOUS, -1, data.reader[visits])
    at_s = data.at_s[visits]
    bounds = data.starts()
    shown: list[_Visit] = []
    for first in range(0, len(visits), 250):
        block = slice(first, first + 250)
        histories = cut_histories(data, users[block], at_s[block])
        for row, personal in enumerate(engine.score(histories)):
            liked = list_soon(data, bounds, visits[first + row])
            words = shop.choose_words(liked.tolist(), rng)
            if not words:
                continue
            weight = PERSONAL_WEIGHT if histories.lengths[row] else PRIOR_WEIGHT
            page = shop.search(words, personal, weight)
            shown.append(_Visit(first + row, page, liked, rng.random(len(page.items))))
    return ShownSearches(users, at_s, shown)
