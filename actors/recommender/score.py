"""How good each product is for a reader: one number per row, the same on every endpoint.

    score = base        what the crowd does: the same for everybody, made with the standing
          + learned     what the engine's snapshot says of the reader's history
          + live        what goes with the reader's products since, and likeness to their vector where neither knows
          + new         what a product without events inherits from products like it

Every part is scaled to spread 1 before it is weighted (z-scores), which is enough for blending. `said_of` lists
the parts; `score_all`, `score_rows` and `explain_rows` are views of that list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.learned.past import scale_of
from actors.recommender.champion import Champion
from actors.recommender.holdings import Holdings, Standing, Start
from actors.recommender.ranking import Ranking
from actors.recommender.taste import Steps, Taste
from actors.recommender.together import Neighbours
from actors.vectors.types import Codes, Mask, Rows, Scores, Vector

NEW = "new:content"

_MOST_TOGETHER = 40
_SOFTNESS = 4.0
_DAMPING = 0.25
_HARDLY = 0.02
_MOSTLY = 0.5
"From here likeness is worked out for all products, not only for those that many deal with."
_ENOUGH = 50
_OLD = 1e-3
_ALIKE = 0.2
"Share of likeness where products are known by what people did with them."


@dataclass(frozen=True, slots=True)
class Said:
    """What one part says of some rows; rows may repeat and add up, of all others it says nothing.

    Shapes:
        rows: int [m], -1 for products that are not there any more; values: float32 [m], scaled and weighted
    """

    name: str
    rows: npt.NDArray[np.integer]
    values: Scores


@dataclass(frozen=True, slots=True)
class Likeness:
    """What likeness to a vector says of every row: worked out for the rows that are asked for."""

    name: str
    vector: Vector
    factor: float
    mean: float

    def of(self, rows: Rows, holdings: Holdings) -> Scores:
        """Say it of some rows."""
        like: Scores = holdings.index.take(rows) @ self.vector
        return (like - np.float32(self.mean)) * np.float32(self.factor)

    def of_all(self, count: int, holdings: Holdings) -> Scores:
        """Say it of the first `count` rows."""
        like: Scores = holdings.index.scores(self.vector)[:count]
        like -= np.float32(self.mean)
        like *= np.float32(self.factor)
        return like


Part = Said | Likeness


def score_all(taste: Taste, holdings: Holdings, standing: Standing, *, start: Start | None = None) -> Ranking:
    """Score every row; `start` is what a reader begins with instead of what all do.

    Cost:
        100,000 products, 30 events: 0.3 ms with a snapshot, 2 ms without
    """
    start = start or start_of(taste, standing)
    if not taste.known:
        return Ranking(start.scores.copy(), start.front)
    return added_up(said_of(taste, holdings, standing), holdings, standing, start)


def start_of(taste: Taste, standing: Standing) -> Start:
    """Give what a reader's scores start from."""
    return standing.start if taste.known else standing.start_new


def added_up(
    parts: Sequence[Part], holdings: Holdings, standing: Standing, start: Start, share: float = 1.0
) -> Ranking:
    """Add parts to a share of what scores start from."""
    own, touched = _own(parts, standing)
    scores = start.scores + own if share == 1.0 else start.scores * np.float32(share) + own
    dense = [part for part in parts if isinstance(part, Likeness)]
    for part in dense:
        scores += part.of_all(len(scores), holdings)
    front = start.front if share == 1.0 else start.front.times(share)
    return Ranking(scores, None if dense else front, touched)


def score_rows(rows: Sequence[int] | Rows, taste: Taste, holdings: Holdings, standing: Standing) -> Scores:
    """Score some rows by the reader's taste alone: what `score_all` adds to their start.

    Shapes:
        rows: int [m], as a list or int64; returns: float32 [m]
    """
    chosen = np.asarray(rows, np.int64)
    if not taste.known:
        return np.zeros(len(chosen), np.float32)
    parts = said_of(taste, holdings, standing)
    own = _sum(parts, standing)[0]
    total: Scores = own[chosen] + standing.newcomers.inherited_by(chosen, own)
    for part in parts:
        if isinstance(part, Likeness):
            total += part.of(chosen, holdings)
    return total


def explain_rows(
    rows: Sequence[int],
    taste: Taste,
    holdings: Holdings,
    standing: Standing,
    *,
    start: Start | None = None,
) -> list[dict[str, float]]:
    """Take the scores of some rows apart: name of a part -> what it adds. Parts that add nothing are left out.

    Names: `live:trend`, `live:popular`, `live:newest`, `live:together`, `live:content`, `learned:<part of the
    recipe>`, `learned:cohort`, `new:content`. The values of a row sum to its score, as `score_all` gives it.
    """
    chosen = np.asarray(rows, np.int64)
    named = [(name, values[chosen]) for name, values in holdings.crowd_parts(standing, taste.known)]
    if start is not None:
        told = start.scores[chosen] - start_of(taste, standing).scores[chosen]
        named.append(("learned:cohort", np.where(standing.offered[chosen], told, 0)))
    parts = said_of(taste, holdings, standing) if taste.known else []
    for part in parts:
        alone = (
            part.of(chosen, holdings) if isinstance(part, Likeness) else _scattered(part, standing)[chosen]
        )
        named.append((part.name, alone))
    if parts and len(standing.newcomers):
        named.append((NEW, _scattered(_inherited(_sum(parts, standing)[0], standing), standing)[chosen]))
    found: list[dict[str, float]] = [{} for _ in rows]
    for name, values in named:
        for told_of, value in zip(found, values.tolist(), strict=True):
            if value:
                told_of[name] = told_of.get(name, 0.0) + value
    return found


def sources_of(explained: Mapping[str, float], least: float = 0.05) -> list[str]:
    """Name the parts that brought a product into the list, the strongest first.

    A part counts when it speaks for the product with at least a share of all that does.
    """
    total = sum(value for value in explained.values() if value > 0)
    speaking = [(value, name) for name, value in explained.items() if value > 0 and value >= least * total]
    return [name for _, name in sorted(speaking, key=lambda told: (-told[0], told[1]))]


def said_of(taste: Taste, holdings: Holdings, standing: Standing) -> list[Part]:
    """List what every part says to a reader, whoever is popular."""
    champion, blend = holdings.champion, holdings.blend
    parts: list[Part] = []
    unknown = 1.0
    if champion is not None:
        past = champion.past_of(taste.steps, standing.crowd.at_ms)
        parts += [Said(*told) for told in champion.says(past)]
        unknown = _share(taste, champion.items_of(len(standing)))
    if taste.vector is not None and blend.content * unknown > _HARDLY:
        parts.append(_likeness(taste.vector, standing, blend.content * unknown, unknown < _MOSTLY))
    if len(taste.rows) and blend.together:
        parts.append(
            _together("live:together", taste, holdings.overlay.together, standing, blend.together, champion)
        )
    return parts


def said_alike(like: Taste, holdings: Holdings, standing: Standing, steps: Steps | None = None) -> list[Part]:
    """List what every part says of products that go with given ones; `steps` is the session they came up in."""
    champion, blend = holdings.champion, holdings.blend
    parts: list[Part] = []
    unknown = 1.0
    if champion is not None:
        past = champion.past_of(steps or like.steps, standing.crowd.at_ms)
        parts += [Said(*told) for told in champion.says_alike(past)]
        unknown = _share(like, champion.items_of(len(standing)))
    if like.vector is not None:
        weight = blend.content * max(unknown, _ALIKE)
        parts.append(_likeness(like.vector, standing, weight, unknown < _MOSTLY and _say_enough(parts)))
    parts.append(
        _together("live:together", like, holdings.overlay.together, standing, blend.together, champion)
    )
    return parts


def said_of_baskets(like: Taste, holdings: Holdings, standing: Standing) -> list[Part]:
    """List what every part says of products that are bought with given ones; nothing when no basket held them."""
    champion, overlay = holdings.champion, holdings.overlay
    parts: list[Part] = []
    if champion is not None:
        told = champion.says_of_baskets(champion.past_of(like.steps, standing.crowd.at_ms))
        parts += [Said(*told)] if told else []
    if overlay.baskets.knows(like.rows):
        parts.append(_together("live:baskets", like, overlay.baskets, standing, 1.0, champion, damped=True))
    if parts and like.vector is not None:
        weight = holdings.blend.content * _ALIKE
        parts.append(_likeness(like.vector, standing, weight, champion is not None and _say_enough(parts)))
    return parts


def shown_score(score: float) -> float:
    """Bring a score between 0 and 1 for `_personalization_score`, keeping far apart ones in order too."""
    return round(0.5 + 0.5 * score / (_SOFTNESS + abs(score)), 6)


def _together(
    name: str,
    taste: Taste,
    pairs: Neighbours,
    standing: Standing,
    weight: float,
    champion: Champion | None,
    *,
    damped: bool = False,
) -> Said:
    """Say what goes with the liked rows: up to 40 neighbourhoods.

    Beside a snapshot a pair counts as far as one of its products is news: the rest was learned already.

    Source:
        ranking notes, section 3: damping by frequency ** 0.25 keeps baskets from being all best sellers
    """
    count = len(standing)
    liked = taste.rows[:_MOST_TOGETHER]
    found, shares = pairs.of(liked)
    shares *= taste.weights[:_MOST_TOGETHER, None]
    said = (shares > 0) & (found < count)
    rows, values = found[said], shares[said].astype(np.float32)
    if damped:
        values /= (standing.popular[rows] + 0.01).astype(np.float32) ** np.float32(_DAMPING)
    if champion is None:
        return Said(name, rows, values * np.float32(weight * scale_of(rows, values, count)))
    fresh = champion.fresh
    own = np.where(liked < len(fresh), fresh[np.minimum(liked, len(fresh) - 1)], np.float32(1))
    news = np.maximum(np.broadcast_to(own[:, None], said.shape)[said], fresh[rows])
    told = news > _OLD
    if not told.any():
        return Said(name, rows[:0], values[:0])
    values *= news * np.float32(weight * scale_of(rows, values, count))
    return Said(name, rows[told], values[told])


def _likeness(vector: Vector, standing: Standing, weight: float, quick: bool) -> Part:
    """Say how like a vector products are; the quick way says it only of those that many deal with."""
    mean, spread = standing.spread(vector)
    known = standing.newcomers
    if quick and len(known.elders):
        like = known.vectors @ vector
        return Said("live:content", known.elders, (like - np.float32(mean)) * np.float32(weight / spread))
    return Likeness("live:content", vector, weight / spread, mean)


def _say_enough(parts: Sequence[Part]) -> bool:
    """Do the parts so far speak of enough products to fill a page?"""
    return sum(len(part.rows) for part in parts if isinstance(part, Said)) >= _ENOUGH


def _share(taste: Taste, items: Codes) -> float:
    """Tell how much of a taste the snapshot can't speak of: products it does not know, and what the session says."""
    if not len(taste.rows):
        return 1.0
    rows = np.minimum(taste.rows, len(items) - 1)
    unknown = (items[rows] < 0) | (taste.rows >= len(items))
    unknown[len(rows) - taste.given :] = True
    return float(taste.weights[unknown].sum() / taste.weights.sum())


def _own(parts: Sequence[Part], standing: Standing) -> tuple[Scores, list[npt.NDArray[np.integer]]]:
    """Add up what is said of rows, new products included, and list the rows."""
    own, touched = _sum(parts, standing)
    if len(standing.newcomers):
        inherited = _inherited(own, standing)
        own[inherited.rows] += inherited.values
        touched.append(inherited.rows)
    return own, touched


def _sum(parts: Sequence[Part], standing: Standing) -> tuple[Scores, list[npt.NDArray[np.integer]]]:
    own = np.zeros(len(standing), np.float32)
    touched = []
    for part in parts:
        if isinstance(part, Said):
            inside = _inside(part, len(own))
            np.add.at(own, inside.rows, inside.values)
            touched.append(inside.rows)
    return own, touched


def _inherited(own: Scores, standing: Standing) -> Said:
    """Let new products inherit what was said of those they are like."""
    newcomers = standing.newcomers
    return Said(NEW, newcomers.rows, newcomers.inherited(own))


def _scattered(part: Said, standing: Standing) -> Scores:
    return _sum([part], standing)[0]


def _inside(said: Said, count: int) -> Said:
    """Leave out rows that are not there or too young to be judged."""
    rows = said.rows
    if rows.min(initial=0) >= 0 and rows.max(initial=-1) < count:
        return said
    inside: Mask = (rows >= 0) & (rows < count)
    return Said(said.name, rows[inside], said.values[inside])
