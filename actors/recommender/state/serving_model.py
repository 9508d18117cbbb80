"""One engine's snapshot, laid over the catalog: what was learned speaks in items, everything else in rows.

Products the snapshot does not know are left to the live parts; products that are gone have no row. What the snapshot
knows already is not counted again by the live parts: `fresh` says which share of a product's votes came since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.model import AddingModel, CommonModel, Model, QuickModel
from actors.models.popularity import Counted
from actors.models.registry import Learned, is_ours
from actors.models.user_history import Past, scale_of, scale_of_all
from actors.recommender.ranking.user_profile import Steps
from actors.recommender.state.events import EVENT_WEIGHTS, written_ms
from actors.recommender.state.score_components import Said, SaidOfAll
from actors.recommender.state.slot_map import Layout
from actors.recommender.state.trending import DAY_MS, DecayedCounts
from actors.retrieval.autocomplete.snapshot_format import COMPLETIONS, SavedTexts
from actors.retrieval.snapshot_format import SEARCH, SavedProducts
from actors.vectors.types import Codes, Floats, Mask, Rows, Scores, room_for

_ENOUGH_LIVE = 0.5
_CONTENT = 0.7
"What a product is like counts for so much of what people did with it."
_FEW = 100
"Up to so many names are looked up one by one."


Quick = Callable[[Past], tuple[npt.NDArray[np.integer], Scores]]
Add = Callable[[Scores, Past], int]


@dataclass(frozen=True, slots=True)
class Voice:
    """One part of the blend that speaks to a single reader."""

    name: str
    model: Model
    weight: float
    quick: Quick | None
    "How to ask it about one reader, when there is a quick way."
    add: Add | None
    "The same for one that has much to say."
    is_ours: bool
    "Were its arrays looked at before it serves? Of what others answer nothing is known."


class Champion:
    """What serves an engine beside the live parts."""

    def __init__(self, learned: Learned, product_ids: Sequence[str]) -> None:
        facts = learned.snapshot.manifest.facts
        self.version = learned.snapshot.version
        self.learned = learned
        kept = learned.snapshot.parts.get(COMPLETIONS)
        self.completions = None if kept is None else SavedTexts.load(self.version, kept, product_ids)
        "Titles and other fields, indexed when the snapshot was made; none in older ones."
        searched = learned.snapshot.parts.get(SEARCH)
        self.search = None if searched is None else SavedProducts.load(self.version, searched)
        "All texts of products, indexed likewise."
        self.newest_ms = int(float(facts["data"]["newest_s"]) * 1000)
        offset = facts.get("offsets", {}).get("interaction", "")
        self.learned_until_ms = written_ms(offset) if offset else self.newest_ms
        "Events after this moment are news to it."
        self.returns = _returns(facts)
        "Do its readers take the same again, or something that they only looked at before?"
        self.taken_once = _taken_once(facts)
        "Event types after which a product is not shown again, where products of other events are."
        self.fresh: Scores = np.zeros(0, np.float32)
        self.silenced: dict[str, str] = {}
        "Parts that failed when they were asked, and how."
        self._factors: Mapping[str, float] = facts["recipe"].get("events", {}).get("weights", {})
        self._item_count = len(learned.snapshot.items)
        self._items: Codes = np.full(0, -1, np.int32)
        self._slot_of: Rows = np.zeros(0, np.int64)
        self._row_of: Rows = np.full(self._item_count, -1, np.int64)
        self.layout = Layout(self._item_count, self._slot_of, self._row_of)
        "Where its items and all other products stand in what it says."
        self._baskets = None if learned.baskets is None else _voice("learned:baskets", learned.baskets, 1.0)
        self._covered = 0
        self._before: Floats = np.zeros(0)
        self._voices = [
            _voice(f"learned:{part.name}", part.model, part.weight)
            for part in learned.blend.parts
            if part.weight and not isinstance(part.model, CommonModel)
        ]
        self._weight = sum(voice.weight for voice in self._voices)
        self.cover(product_ids)

    # --- rows and items -------------------------------------------------------------------------------------

    def cover(self, product_ids: Sequence[str]) -> None:
        """Find the items of rows that were added since the last time.

        Cost:
            30 ms for 100,000 rows, nothing when there are none
        """
        count = len(product_ids)
        if count <= self._covered:
            return
        names, added = self.learned.snapshot.items, product_ids[self._covered : count]
        few = len(added) <= _FEW
        codes = np.array([names.code(name) for name in added] if few else names.codes(added), np.int64)
        self._items = room_for(self._items, count, -1)
        self._items[self._covered : count] = codes
        unknown = np.flatnonzero(codes < 0)
        slots = self.layout.count + len(unknown)
        codes[unknown] = np.arange(self.layout.count, slots)
        self._slot_of, self._row_of = room_for(self._slot_of, count), room_for(self._row_of, slots, -1)
        self._slot_of[self._covered : count] = codes
        self._row_of[codes] = np.arange(self._covered, count)
        self.layout = Layout(slots, self._slot_of[:count], self._row_of[:slots])
        self._covered = count

    def items_of(self, count: int) -> Codes:
        """Give the items of the first `count` rows, -1 where the snapshot knows none."""
        return self._items[:count]

    def note_before(self, votes: Floats, since: Floats) -> None:
        """Remember how many votes of each row the snapshot had seen when it was made.

        Shapes:
            votes, since: float64 [n], all of them and those after `learned_until_ms`
        """
        self._before = np.where(self._known(len(votes)), np.maximum(votes - since, 0.0), 0.0)

    def refresh(self, votes: Floats) -> None:
        """Work out anew which share of each row's votes is news."""
        count = len(votes)
        self._before = room_for(self._before, count)
        before = self._before[:count]
        fresh = 1.0 - before / np.maximum(votes, 1e-9)
        self.fresh = np.where(before > 0, np.clip(fresh, 0.0, 1.0), 1.0).astype(np.float32)

    # --- what it says ---------------------------------------------------------------------------------------

    def past_of(self, steps: Steps, now_ms: int) -> Past:
        """Read a reader's events as the snapshot knows them; nothing happens later than now."""
        items = self._items
        rows, at_s = np.array(steps.rows, np.int64), np.array(steps.at_ms, np.float64) / 1000.0
        now_s = max(now_ms / 1000.0, float(at_s.max(initial=0.0)))
        codes = np.full(len(rows), -1, np.int64)
        inside = rows < len(items)
        codes[inside] = items[rows[inside]]
        weights = steps.weights
        if self._factors:
            weights = [
                weight * self._factor(kind) for weight, kind in zip(steps.weights, steps.kinds, strict=True)
            ]
        return Past.of(codes, at_s, weights, now_s)

    def says(self, past: Past) -> Iterator[Said | SaidOfAll]:
        """Say how good products are for a reader, part by part."""
        if len(past):
            for voice in self._voices:
                yield from self._asked(voice, past)

    def says_of_new(self, past: Past, features: Any) -> Scores | None:
        """Say how good products it does not know are for a reader, by their features; None when it can't tell.

        Shapes:
            features: CSR float32 [k, features]
            returns: float32 [k], fresh
        """
        content = self.learned.content
        if content is None or features is None or not len(past):
            return None
        return content.score_past(past, features) * np.float32(_CONTENT * self._weight)

    def says_alike(self, past: Past) -> Iterator[Said | SaidOfAll]:
        """Say what goes with given products, by the parts that know pairs or sessions."""
        for voice in self._voices:
            if voice.quick is not None and len(past):
                yield from self._asked(voice, past)

    def says_of_baskets(self, past: Past) -> Said | SaidOfAll | None:
        """Say what is bought with given products; None when that was not learned or nothing is known."""
        if self._baskets is None or not len(past):
            return None
        told = self._spoken(self._baskets, past)
        return told if told.many else None

    def crowd(
        self, counts: DecayedCounts, offered: Mask, now_ms: int
    ) -> Iterator[tuple[str, float, float, Floats]]:
        """Give the parts that say the same to everybody: name, weights for known and for new readers, values by row.

        Votes are counted live as well, so what fades in days is taken from there, as soon as enough is counted.
        """
        count = len(offered)
        for part in self.learned.blend.parts:
            if isinstance(part.model, CommonModel) and (part.weight or part.weight_new):
                told = self._told_to_all(f"learned:{part.name}", part.model)
                if told is None:
                    continue
                values = self.by_row(told, count)
                if isinstance(part.model, Counted) and part.model.half_life_days in counts.half_lives_days:
                    values = self._with_live(part.model, values, counts, now_ms)
                yield f"learned:{part.name}", part.weight, part.weight_new, values

    def by_row(self, values: npt.NDArray[np.floating], count: int) -> Floats:
        """Lay values of items out by row; 0 where the snapshot knows nothing."""
        items = self._items[:count]
        found: Floats = np.zeros(count)
        if len(values):
            # through a plain array: a memmap makes every step of this an object of its own
            found[: len(items)] = np.where(items >= 0, np.take(np.asarray(values), items, mode="clip"), 0.0)
        return found

    # --- inside ---------------------------------------------------------------------------------------------

    def _asked(self, voice: Voice, past: Past) -> Iterator[Said | SaidOfAll]:
        """Ask one part; a model of somebody else that fails is not asked again, and the others go on."""
        if voice.name in self.silenced:
            return
        try:
            told = self._spoken(voice, past)
        except Exception as error:  # noqa: BLE001
            self.silenced[voice.name] = repr(error)
            return
        yield told

    def _told_to_all(self, name: str, model: CommonModel) -> Scores | None:
        """Ask a part that says the same to everybody; None from one of somebody else that fails."""
        if is_ours(model):
            return model.common()
        if name in self.silenced:
            return None
        try:
            values = model.common()
            _check(values, (self._item_count,))
        except Exception as error:  # noqa: BLE001
            self.silenced[name] = repr(error)
            return None
        return values

    def _spoken(self, voice: Voice, past: Past) -> Said | SaidOfAll:
        count = self._item_count
        if voice.quick is not None and voice.add is None:
            items, values = voice.quick(past)
            if not voice.is_ours:
                _check(values, (len(items),))
                _check_items(items, count)
            factor = voice.weight * scale_of(items, values, count)
            return Said(voice.name, items, values * np.float32(factor))
        total, many = np.zeros(self.layout.count, np.float32), count
        if voice.add is not None:
            many = voice.add(total, past)
        else:
            total[:count] = _of_all(voice, past, count)
        if not voice.is_ours:
            _check(total, total.shape)
        total *= np.float32(voice.weight * scale_of_all(total, count))
        return SaidOfAll(voice.name, total, many)

    def _with_live(self, model: Counted, learned: Floats, counts: DecayedCounts, now_ms: int) -> Floats:
        days = model.half_life_days or 1.0
        then = np.exp2(-max(now_ms - self.newest_ms, 0) / (days * DAY_MS))
        past = learned ** (1.0 / model.power) * then
        live = counts.at(days, len(learned), now_ms)
        # live counts usually hold the past as well; where they do not (it was learned elsewhere), both count
        votes = live if live.sum() >= _ENOUGH_LIVE * past.sum() else live + past
        raised: Floats = votes**model.power
        return raised

    def _known(self, count: int) -> Mask:
        known: Mask = np.zeros(count, np.bool_)
        items = self._items[:count]
        known[: len(items)] = items >= 0
        return known

    def _factor(self, kind: str) -> float:
        return self._factors[kind] / EVENT_WEIGHTS[kind] if kind in self._factors else 1.0


def _voice(name: str, model: Model, weight: float) -> Voice:
    # asked once: whether an object follows a protocol costs more than its answer
    quick = model.quick if isinstance(model, QuickModel) else None
    add = model.add_to if isinstance(model, AddingModel) else None
    return Voice(name, model, weight, quick, add, is_ours(model))


def _of_all(voice: Voice, past: Past, count: int) -> Scores:
    values: Scores = voice.model.score(past.histories(count))[0]
    if not voice.is_ours:
        _check(values, (count,))
    return values


def _check(values: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    """See that a model of somebody else answers with numbers, one an item: a single NaN would spoil every list.

    Errors:
        ValueError: it does not
    """
    if np.shape(values) != shape or not np.isfinite(values).all():
        raise ValueError(f"its answer is no finite numbers of the shape {shape}")


def _check_items(items: npt.NDArray[np.integer], count: int) -> None:
    """See that a model of somebody else speaks of items there are.

    Errors:
        ValueError: it does not
    """
    if len(items) and not 0 <= items.min() <= items.max() < count:
        raise ValueError(f"it speaks of items that are not among its {count}")


def _returns(facts: Mapping[str, Any]) -> bool:
    """Tell whether seen products were found worth showing again."""
    recipe = facts["recipe"]
    weighty = any(part["learner"] == "repeats" and part["weight"] for part in facts["parts"])
    return weighty or recipe.get("validation", {}).get("seen") in ("allowed", "other_kinds")


def _taken_once(facts: Mapping[str, Any]) -> frozenset[str]:
    """Read which event types end the interest in a product."""
    validation = facts["recipe"].get("validation", {})
    return frozenset(validation.get("kinds", ()) if validation.get("seen") == "other_kinds" else ())
