"""All sessions of all readers, in the order they happened."""

from __future__ import annotations

from typing import Any

from jobs.playground.preferences import Thing, Town, Weights, tastes_of, town
from jobs.playground.seeded_random import Dice
from jobs.playground.session_recorder import Diary
from jobs.playground.users import Reader, readers

_DAY_MS = 86_400_000
_HOT_DAYS = 3
_LONGEST_SESSION_MS = 45 * 60_000
_HOURS = (7, 8, 12, 13, 17, 18, 19, 20, 21, 22)


def interactions(now_ms: int) -> list[dict[str, Any]]:
    """Write down everything that happened before `now_ms`, oldest first."""
    place = town()
    entries: list[tuple[int, str, int, dict[str, Any]]] = []
    for reader in readers(now_ms):
        for at, (at_ms, entry) in enumerate(_life(reader, place, now_ms)):
            entries.append((at_ms, reader.user_id, at, entry))
    entries.sort(key=lambda entry: entry[:3])
    return [entry for *_, entry in entries]


def _life(reader: Reader, place: Town, now_ms: int) -> list[tuple[int, dict[str, Any]]]:
    """All sessions of one reader, oldest first: anonymous ones, the one of signing in, and the rest."""
    dice = Dice("life", reader.user_id)
    count = dice.whole(*reader.story.sessions)
    starts = sorted(_start(dice, reader.story.days, now_ms) for _ in range(count))
    before = dice.whole(1, 2) if reader.visitor_id else -1
    tastes = tastes_of(reader.story, reader.user_id, place)
    written: list[tuple[int, dict[str, Any]]] = []
    for number, started_ms in enumerate(starts):
        ids = {"user_id": reader.user_id}
        if number < before:
            ids = {"anonymous_id": reader.visitor_id}
        elif number == before:
            ids["anonymous_id"] = reader.visitor_id
        diary = Diary(reader, ids, started_ms, dice)
        if dice.chance(reader.story.reading):
            _with_the_newspaper(diary, reader, place, tastes.news, dice)
        else:
            lately = now_ms - started_ms < _HOT_DAYS * _DAY_MS
            _in_the_shop(diary, reader, place, tastes.lately if lately else tastes.shop, dice)
        written += [entry for entry in diary.entries if entry[0] < now_ms]
    return written


def _start(dice: Dice, days: int, now_ms: int) -> int:
    """Draw when a session starts: lately rather than long ago, when people are awake."""
    share = dice.share()
    day = int(share * share * days) + 1
    midnight_ms = (now_ms // _DAY_MS - day) * _DAY_MS
    started_ms = midnight_ms + dice.pick(_HOURS) * 3_600_000 + dice.whole(0, 3_599_999)
    if day == 1 and dice.chance(0.5):  # the last hours must not be empty
        started_ms = now_ms - _LONGEST_SESSION_MS - dice.whole(0, 10 * 3_600_000)
    return min(started_ms, now_ms - _LONGEST_SESSION_MS)


# --- the newspaper ---------------------------------------------------------------------------------------------


def _with_the_newspaper(diary: Diary, reader: Reader, place: Town, weights: Weights, dice: Dice) -> None:
    wanted = _searched(diary, reader, dice, place, article=True)
    if wanted is None:
        diary.home()
        wanted = dice.weighted(place.news, weights)
        if dice.chance(0.3):
            diary.browse(("News", *wanted.paths[0][:1]))
    seen: set[str] = set()
    for _ in range(dice.whole(1, 3)):
        if wanted.id not in seen:
            seen.add(wanted.id)
            _read(diary, wanted, dice)
        same = [thing for thing in place.news if thing.paths[0] == wanted.paths[0] and thing.id not in seen]
        wanted = dice.pick(same) if same and dice.chance(0.45) else dice.weighted(place.news, weights)


def _read(diary: Diary, article: Thing, dice: Dice) -> None:
    if dice.chance(0.5):
        diary.click(article)
    diary.read(article)
    if dice.chance(0.12):
        diary.act(dice.weighted(("like", "share", "bookmark", "dislike"), (4, 3, 3, 1)), article)


# --- the shop --------------------------------------------------------------------------------------------------


def _in_the_shop(diary: Diary, reader: Reader, place: Town, weights: Weights, dice: Dice) -> None:
    wanted = _searched(diary, reader, dice, place, article=False)
    if wanted is None:
        diary.home()
        wanted = dice.weighted(place.shop, weights)
        if dice.chance(0.35):
            diary.browse(wanted.paths[0][: dice.whole(1, 2)])
    if dice.chance(0.3):
        diary.glance([wanted, *(dice.weighted(place.shop, weights) for _ in range(3))])
    cart: list[tuple[Thing, int]] = []
    seen: set[str] = set()
    for _ in range(dice.whole(1, 4)):
        if wanted.id not in seen:
            seen.add(wanted.id)
            _look(diary, wanted, dice, cart, reader.story.buying)
        wanted = _next(wanted, place, weights, dice)
    _end(diary, cart, dice)


def _searched(diary: Diary, reader: Reader, dice: Dice, place: Town, *, article: bool) -> Thing | None:
    """Start with a search, sometimes; return what was found."""
    searches = [(words, place.by_id[thing_id]) for words, thing_id in reader.story.searches]
    found = [(words, thing) for words, thing in searches if thing.article == article]
    if not found or not dice.chance(0.3):
        return None
    words, thing = dice.pick(found)
    diary.search(words)
    diary.click(thing)
    return thing


def _next(thing: Thing, place: Town, weights: Weights, dice: Dice) -> Thing:
    """Go on to something that belongs to it, stands beside it, or attracts for its own sake."""
    if thing.related and dice.chance(0.5):
        return place.by_id[dice.pick(thing.related)]
    beside = [other for other in place.shop if other.paths[0] == thing.paths[0] and other.id != thing.id]
    if beside and dice.chance(0.3):
        return dice.pick(beside)
    return dice.weighted(place.shop, weights)


def _look(diary: Diary, thing: Thing, dice: Dice, cart: list[tuple[Thing, int]], buying: float) -> None:
    bored = dice.chance(0.08)
    diary.view(thing, bored=bored)
    if bored:
        return
    if dice.chance(0.06):
        diary.act(dice.weighted(("add_to_collection", "like", "share"), (5, 3, 1)), thing)
    if dice.chance(buying):
        quantity = dice.weighted((1, 2, 3), (8, 2, 1))
        diary.take(thing, quantity)
        if dice.chance(0.07):
            diary.act("remove_from_cart", thing)
        else:
            cart.append((thing, quantity))


def _end(diary: Diary, cart: list[tuple[Thing, int]], dice: Dice) -> None:
    """Check out, perhaps; a rating or a refund comes days later."""
    if not cart or not dice.chance(0.75):
        return
    diary.pay(cart)
    if dice.chance(0.3):
        diary.later(dice.whole(3, 9) * 86_400 + dice.whole(0, 30_000))
        diary.rate(dice.pick(cart)[0])
    elif dice.chance(0.04):
        diary.later(dice.whole(4, 12) * 86_400)
        diary.act("refund", dice.pick(cart)[0])
