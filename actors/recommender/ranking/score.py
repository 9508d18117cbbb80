"""How good each product is for a reader: one number per row, the same on every endpoint.

    score = base        what the crowd does: the same for everybody, made with the standing
          + learned     what the engine's snapshot says of the reader's history
          + live        what goes with the reader's products since, and likeness to their vector where neither knows
          + new         what a product without events is worth by its features, or inherits from products like it

Every part is scaled to spread 1 before it is weighted (z-scores), which is enough for blending. `said_of` lists
the parts, `own_of` adds them up; everything else looks at that sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from actors.models.user_history import Past, scale_of
from actors.recommender.ranking.user_profile import Steps, Taste
from actors.recommender.state.cooccurrence import Neighbours
from actors.recommender.state.engine_state import CohortScores, Holdings, Standing
from actors.recommender.state.prior_scores import Start
from actors.recommender.state.score_components import Likeness, Own, Part, Said, added_up
from actors.recommender.state.serving_model import Champion
from actors.recommender.state.slot_map import Layout
from actors.vectors.types import Codes, Rows, Scores, Vector

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


def start_of(taste: Taste, standing: Standing) -> Start:
    """Give what a reader's scores start from."""
    return standing.start if taste.known else standing.start_new


def own_of(taste: Taste, holdings: Holdings, standing: Standing) -> Own:
    """Add up what is said to a reader: what a score adds to its start.

    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without
    """
    if not taste.known:
        return Own(layout_of(holdings, standing))
    return summed(said_of(taste, holdings, standing), holdings, standing)


def summed(parts: Sequence[Part], holdings: Holdings, standing: Standing) -> Own:
    """Add parts up, and let new products inherit unless a part speaks of them; the parts are not to be used again."""
    own = added_up(parts, layout_of(holdings, standing))
    new = standing.newcomers
    if len(new) and own.values is not None and not _speak_of_new(parts):
        own.values[new.slots] += new.inherited_own(own.values)
    return own


def layout_of(holdings: Holdings, standing: Standing) -> Layout:
    """Say where products stand in what is said."""
    return Layout(len(standing)) if holdings.champion is None else holdings.champion.layout


def explain_rows(
    rows: Sequence[int],
    taste: Taste,
    holdings: Holdings,
    standing: Standing,
    *,
    cohort: CohortScores | None = None,
    is_new: bool = False,
) -> list[dict[str, float]]:
    """Take the scores of some rows apart: name of a part -> what it adds. Parts that add nothing are left out.

    `is_new` says that the user has no history, whatever the session adds to the taste.

    Names: `live:trend`, `live:popular`, `live:newest`, `live:together`, `live:content`, `learned:<part of the
    recipe>`, `live:cohort`, `learned:cohort`, `new:content`. The values of a row sum to its score, as a `Ranking`
    gives it.
    """
    chosen = np.asarray(rows, np.int64)
    known = taste.known and not is_new
    named = [(name, values[chosen]) for name, values in holdings.crowd_parts(standing, known)]
    if cohort is not None:
        told = cohort.start.scores[chosen] - standing.start_new.scores[chosen]
        named.append((cohort.name, np.where(standing.offered[chosen], told, 0)))
    if taste.known:
        layout = layout_of(holdings, standing)
        parts = said_of(taste, holdings, standing)
        named += [(part.name, added_up([part], layout).of(chosen)) for part in parts]
        if not _speak_of_new(parts):
            named.append((NEW, _inherited(chosen, said_of(taste, holdings, standing), layout, standing)))
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
    champion, overlay, blend = holdings.champion, holdings.overlay, holdings.blend
    parts: list[Part] = []
    unknown = 1.0
    if champion is not None:
        past = champion.past_of(taste.steps, standing.crowd.at_ms)
        parts += champion.says(past)
        parts += _of_new(champion, past, standing)
        unknown = _share(taste, champion.items_of(len(standing)))
    if blend.content * unknown > _HARDLY and taste.vector is not None:
        weight = blend.content * unknown
        parts.append(_likeness(taste.vector, holdings, standing, weight, unknown < _MOSTLY))
    if len(taste.rows) and blend.together:
        parts.append(_together("live:together", taste, overlay.together, holdings, standing, blend.together))
    return parts


def said_alike(like: Taste, holdings: Holdings, standing: Standing, steps: Steps | None = None) -> list[Part]:
    """List what every part says of products that go with given ones; `steps` is the session they came up in."""
    champion, overlay, blend = holdings.champion, holdings.overlay, holdings.blend
    parts: list[Part] = []
    unknown = 1.0
    if champion is not None:
        past = champion.past_of(steps or like.steps, standing.crowd.at_ms)
        parts += champion.says_alike(past)
        parts += _of_new(champion, past, standing)
        unknown = _share(like, champion.items_of(len(standing)))
    if like.vector is not None:
        weight, quick = blend.content * max(unknown, _ALIKE), unknown < _MOSTLY and _say_enough(parts)
        parts.append(_likeness(like.vector, holdings, standing, weight, quick))
    parts.append(_together("live:together", like, overlay.together, holdings, standing, blend.together))
    return parts


def said_related(anchors: Sequence[int], holdings: Holdings, standing: Standing) -> list[Part]:
    """List what the `related_ids` of given products say; nothing when they name no product."""
    catalog, count = holdings.catalog, len(standing)
    named = {
        row for anchor in anchors[:_MOST_TOGETHER] for row in catalog.related_rows(anchor) if row < count
    }
    if not named or not holdings.blend.related:
        return []
    rows = np.array(sorted(named), np.int64)
    values = np.ones(len(rows), np.float32)
    values *= np.float32(holdings.blend.related * scale_of(rows, values, count))
    return [Said("live:related", layout_of(holdings, standing).slots(rows), values)]


def said_of_baskets(like: Taste, holdings: Holdings, standing: Standing) -> list[Part]:
    """List what every part says of products that are bought with given ones; nothing when no basket held them."""
    champion, overlay = holdings.champion, holdings.overlay
    parts: list[Part] = []
    if champion is not None:
        told = champion.says_of_baskets(champion.past_of(like.steps, standing.crowd.at_ms))
        parts += [told] if told is not None else []
    if overlay.baskets.knows(like.rows):
        parts.append(_together("live:baskets", like, overlay.baskets, holdings, standing, 1.0, damped=True))
    if parts and like.vector is not None:
        weight, quick = holdings.blend.content * _ALIKE, champion is not None and _say_enough(parts)
        parts.append(_likeness(like.vector, holdings, standing, weight, quick))
    return parts


def shown_score(score: float) -> float:
    """Bring a score between 0 and 1 for `_personalization_score`, keeping far apart ones in order too."""
    return round(0.5 + 0.5 * score / (_SOFTNESS + abs(score)), 6)


def _together(
    name: str,
    taste: Taste,
    pairs: Neighbours,
    holdings: Holdings,
    standing: Standing,
    weight: float,
    *,
    damped: bool = False,
) -> Said:
    """Say what goes with the liked rows: up to 40 neighbourhoods.

    Beside a snapshot a pair counts as far as one of its products is news: the rest was learned already.

    Source:
        ranking notes, section 3: damping by frequency ** 0.25 keeps baskets from being all best sellers
    """
    champion, count = holdings.champion, len(standing)
    liked = taste.rows[:_MOST_TOGETHER]
    if champion is not None and not _is_news(champion, pairs, liked):
        return Said(name, liked[:0], np.zeros(0, np.float32))
    found, shares = pairs.of(liked)
    shares *= taste.weights[:_MOST_TOGETHER, None]
    said = (shares > 0) & (found < count)
    rows, values = found[said], shares[said].astype(np.float32)
    if damped:
        values /= (standing.popular[rows] + 0.01).astype(np.float32) ** np.float32(_DAMPING)
    scale = np.float32(weight * scale_of(rows, values, count))
    if champion is None:
        return Said(name, rows, values * scale)
    fresh = champion.fresh
    own = np.where(liked < len(fresh), fresh[np.minimum(liked, len(fresh) - 1)], np.float32(1))
    news = np.maximum(np.broadcast_to(own[:, None], said.shape)[said], fresh[rows])
    told = news > _OLD
    return Said(name, champion.layout.slots(rows[told]), (values * news * scale)[told])


def _is_news(champion: Champion, pairs: Neighbours, liked: Rows) -> bool:
    """Tell quickly whether anything about some rows or what goes with them is news to a snapshot; perhaps is yes."""
    fresh = champion.fresh
    return bool(
        fresh.take(liked, mode="clip").max(initial=0) > _OLD
        or fresh.take(pairs.named(liked), mode="clip").max(initial=0) > _OLD
    )


def _likeness(vector: Vector, holdings: Holdings, standing: Standing, weight: float, quick: bool) -> Part:
    """Say how like a vector products are; the quick way says it only of those that many deal with."""
    mean, spread = standing.spread(vector)
    known = standing.newcomers
    if quick and len(known.elders):
        like = known.vectors @ vector
        slots = layout_of(holdings, standing).slots(known.elders)
        return Said("live:content", slots, (like - np.float32(mean)) * np.float32(weight / spread))
    return Likeness("live:content", holdings.index, vector, weight / spread, mean)


def _inherited(rows: Rows, parts: Sequence[Part], layout: Layout, standing: Standing) -> Scores:
    """Say what some rows inherit of all parts; 0 for those that are not new."""
    found, values, new = np.zeros(len(rows), np.float32), added_up(parts, layout).values, standing.newcomers
    if values is not None and len(new):
        by_row = dict(zip(new.rows.tolist(), new.inherited_own(values).tolist(), strict=True))
        found[:] = [by_row.get(row, 0.0) for row in rows.tolist()]
    return found


def _of_new(champion: Champion, past: Past, standing: Standing) -> Iterator[Said]:
    """Say what the snapshot's features tell of new products; nothing when it has none."""
    new = standing.newcomers
    if len(new):
        values = champion.says_of_new(past, new.features)
        if values is not None:
            yield Said(NEW, new.slots, values * new.shares)


def _speak_of_new(parts: Iterable[Part]) -> bool:
    return any(part.name == NEW for part in parts)


def _say_enough(parts: Sequence[Part]) -> bool:
    """Do the parts so far speak of enough products to fill a page?"""
    return sum(part.many for part in parts if not isinstance(part, Likeness)) >= _ENOUGH


def _share(taste: Taste, items: Codes) -> float:
    """Tell how much of a taste the snapshot can't speak of: products it does not know, and what the session says."""
    if not len(taste.rows):
        return 1.0
    rows = np.minimum(taste.rows, len(items) - 1)
    unknown = (items[rows] < 0) | (taste.rows >= len(items))
    unknown[len(rows) - taste.given :] = True
    return float(taste.weights[unknown].sum() / taste.weights.sum())
