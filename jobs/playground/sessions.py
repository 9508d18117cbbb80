"""All sessions of all users, in order of time."""

from __future__ import annotations

from typing import Any

from cluster.clock import iso_ms
from jobs.playground.preferences import SampleCatalog, SampleItem, Weights, build_catalog, build_preferences
from jobs.playground.seeded_random import SeededRandom
from jobs.playground.users import SampleUser, build_users


class SessionRecorder:
    """One session: a clock that advances with every action, and the recorded interactions."""

    def __init__(self, user: SampleUser, ids: dict[str, str], started_ms: int, dice: SeededRandom) -> None:
        self.entries: list[tuple[int, dict[str, Any]]] = []
        self._user = user
        self._ids = ids
        self._at_ms = started_ms
        self._dice = dice

    def choose_variant(self, thing: SampleItem) -> tuple[str, float]:
        """Return id and price of the variant that this user always chooses."""
        # Of its own seed: the choice is the same in every session of the user.
        at = SeededRandom("variant", self._user.user_id, len(thing.product_ids)).randint(
            0, len(thing.product_ids) - 1
        )
        return thing.product_ids[at], thing.prices[at]

    def view_home(self) -> None:
        self._write("home_page_view", 6, duration=self._draw_duration(3, 25))

    def browse(self, path: tuple[str, ...]) -> None:
        self._write("category_page_view", 8, category=list(path), duration=self._draw_duration(4, 40))

    def search(self, keywords: str) -> None:
        self._write("search", 7, search={"keywords": keywords, "filters": {}})

    def show_list(self, things: list[SampleItem]) -> None:
        self._write("impression", 2, product_ids=[self.choose_variant(thing)[0] for thing in things])

    def click(self, thing: SampleItem) -> None:
        self._write("click", 2, product_ids=[self.choose_variant(thing)[0]])

    def view(self, thing: SampleItem, *, bored: bool = False) -> None:
        """Record a view of a product; a user without interest leaves within five seconds."""
        duration = self._draw_duration(1, 4) if bored else self._draw_duration(8, 150)
        context = {"page": {"url": thing.url}, "locale": self._user.place.locale}
        self._write(
            "product_detail_page_view",
            duration,
            product_ids=[self.choose_variant(thing)[0]],
            duration=duration,
            context=context,
        )
        if not bored and self._dice.is_chosen(0.15):
            self._write("product_image_view", 5, product_ids=[self.choose_variant(thing)[0]])

    def read(self, thing: SampleItem) -> None:
        duration = self._draw_duration(25, 210)
        context = {"page": {"url": thing.url}, "locale": self._user.place.locale}
        self._write("read", duration, product_ids=[thing.id], duration=duration, context=context)

    def act(self, kind: str, thing: SampleItem) -> None:
        """Record an action without a value: like, dislike, share, bookmark, ..."""
        self._write(kind, 4, product_ids=[self.choose_variant(thing)[0]])

    def rate(self, thing: SampleItem) -> None:
        """Record a rating of a product, near its mean rating."""
        shift = self._dice.choice((-1.0, -0.5, 0.0, 0.0, 0.5))
        # Half stars, as people rate.
        rating = min(5.0, max(1.0, round((thing.rating + shift) * 2) / 2))
        self._write("rate", 12, product_ids=[self.choose_variant(thing)[0]], rating=rating)

    def add_to_cart(self, thing: SampleItem, quantity: int) -> None:
        self._write("add_to_cart", 9, product_ids=[self.choose_variant(thing)[0]], quantities=[quantity])

    def check_out(self, cart: list[tuple[SampleItem, int]]) -> None:
        bought = [(*self.choose_variant(thing), quantity) for thing, quantity in cart]
        revenue = round(sum(price * quantity for _, price, quantity in bought), 2)
        self._write(
            "checkout",
            40,
            product_ids=[product_id for product_id, _, _ in bought],
            quantities=[quantity for _, _, quantity in bought],
            revenue=revenue,
        )

    def advance(self, seconds: float) -> None:
        self._at_ms += int(seconds * 1000)

    @property
    def at_ms(self) -> int:
        return self._at_ms

    def _draw_duration(self, low: int, high: int) -> float:
        """Return a random duration; short ones are more frequent."""
        share = self._dice.random()
        return round(low + (high - low) * share * share, 1)

    def _write(self, kind: str, takes_s: float, **fields: Any) -> None:
        entry = {"type": kind, **self._ids, "timestamp": iso_ms(self._at_ms), **fields}
        self.entries.append((self._at_ms, entry))
        self.advance(takes_s + 0.001 + self._dice.random())


_DAY_MS = 86_400_000
_HOT_DAYS = 3
_LONGEST_SESSION_MS = 45 * 60_000
_HOURS = (7, 8, 12, 13, 17, 18, 19, 20, 21, 22)


def build_interactions(now_ms: int) -> list[dict[str, Any]]:
    """Return all interactions before `now_ms`, oldest first."""
    place = build_catalog()
    entries: list[tuple[int, str, int, dict[str, Any]]] = []
    for user in build_users(now_ms):
        for at, (at_ms, entry) in enumerate(_user_sessions(user, place, now_ms)):
            entries.append((at_ms, user.user_id, at, entry))
    entries.sort(key=lambda entry: entry[:3])
    return [entry for *_, entry in entries]


def _user_sessions(user: SampleUser, place: SampleCatalog, now_ms: int) -> list[tuple[int, dict[str, Any]]]:
    """Return all sessions of one user, oldest first: the anonymous ones, the one with the sign-in, and the rest."""
    dice = SeededRandom("life", user.user_id)
    count = dice.randint(*user.story.sessions)
    starts = sorted(_draw_start(dice, user.story.days, now_ms) for _ in range(count))
    before = dice.randint(1, 2) if user.visitor_id else -1
    tastes = build_preferences(user.story, user.user_id, place)
    written: list[tuple[int, dict[str, Any]]] = []
    for number, started_ms in enumerate(starts):
        ids = {"user_id": user.user_id}
        if number < before:
            ids = {"anonymous_id": user.visitor_id}
        elif number == before:
            ids["anonymous_id"] = user.visitor_id
        diary = SessionRecorder(user, ids, started_ms, dice)
        if dice.is_chosen(user.story.reading):
            _news_session(diary, user, place, tastes.news, dice)
        else:
            lately = now_ms - started_ms < _HOT_DAYS * _DAY_MS
            _shop_session(diary, user, place, tastes.lately if lately else tastes.shop, dice)
        written += [entry for entry in diary.entries if entry[0] < now_ms]
    return written


def _draw_start(dice: SeededRandom, days: int, now_ms: int) -> int:
    """Return a random start of a session: recent times and daytime hours are more likely."""
    share = dice.random()
    day = int(share * share * days) + 1
    midnight_ms = (now_ms // _DAY_MS - day) * _DAY_MS
    started_ms = midnight_ms + dice.choice(_HOURS) * 3_600_000 + dice.randint(0, 3_599_999)
    if day == 1 and dice.is_chosen(0.5):  # the last hours must not be empty
        started_ms = now_ms - _LONGEST_SESSION_MS - dice.randint(0, 10 * 3_600_000)
    return min(started_ms, now_ms - _LONGEST_SESSION_MS)


def _news_session(
    diary: SessionRecorder, user: SampleUser, place: SampleCatalog, weights: Weights, dice: SeededRandom
) -> None:
    article = _search_for_item(diary, user, dice, place, article=True)
    if article is None:
        diary.view_home()
        article = dice.weighted_choice(place.news, weights)
        if dice.is_chosen(0.3):
            diary.browse(("News", *article.paths[0][:1]))
    seen: set[str] = set()
    for _ in range(dice.randint(1, 3)):
        if article.id not in seen:
            seen.add(article.id)
            _read_article(diary, article, dice)
        same = [thing for thing in place.news if thing.paths[0] == article.paths[0] and thing.id not in seen]
        article = (
            dice.choice(same) if same and dice.is_chosen(0.45) else dice.weighted_choice(place.news, weights)
        )


def _read_article(diary: SessionRecorder, article: SampleItem, dice: SeededRandom) -> None:
    if dice.is_chosen(0.5):
        diary.click(article)
    diary.read(article)
    if dice.is_chosen(0.12):
        diary.act(dice.weighted_choice(("like", "share", "bookmark", "dislike"), (4, 3, 3, 1)), article)


def _shop_session(
    diary: SessionRecorder, user: SampleUser, place: SampleCatalog, weights: Weights, dice: SeededRandom
) -> None:
    product = _search_for_item(diary, user, dice, place, article=False)
    if product is None:
        diary.view_home()
        product = dice.weighted_choice(place.shop, weights)
        if dice.is_chosen(0.35):
            diary.browse(product.paths[0][: dice.randint(1, 2)])
    if dice.is_chosen(0.3):
        diary.show_list([product, *(dice.weighted_choice(place.shop, weights) for _ in range(3))])
    cart: list[tuple[SampleItem, int]] = []
    seen: set[str] = set()
    for _ in range(dice.randint(1, 4)):
        if product.id not in seen:
            seen.add(product.id)
            _view_product(diary, product, dice, cart, user.story.buying)
        product = _choose_next(product, place, weights, dice)
    _finish_session(diary, cart, dice)


def _search_for_item(
    diary: SessionRecorder, user: SampleUser, dice: SeededRandom, place: SampleCatalog, *, article: bool
) -> SampleItem | None:
    """Start the session with a search in some cases; return the item that the search found."""
    searches = [(words, place.by_id[thing_id]) for words, thing_id in user.story.searches]
    matching = [(words, thing) for words, thing in searches if thing.article == article]
    if not matching or not dice.is_chosen(0.3):
        return None
    words, thing = dice.choice(matching)
    diary.search(words)
    diary.click(thing)
    return thing


def _choose_next(thing: SampleItem, place: SampleCatalog, weights: Weights, dice: SeededRandom) -> SampleItem:
    """Return the next item: a related one, one of the same category, or one that the user prefers."""
    if thing.related and dice.is_chosen(0.5):
        return place.by_id[dice.choice(thing.related)]
    beside = [other for other in place.shop if other.paths[0] == thing.paths[0] and other.id != thing.id]
    if beside and dice.is_chosen(0.3):
        return dice.choice(beside)
    return dice.weighted_choice(place.shop, weights)


def _view_product(
    diary: SessionRecorder,
    thing: SampleItem,
    dice: SeededRandom,
    cart: list[tuple[SampleItem, int]],
    buying: float,
) -> None:
    bored = dice.is_chosen(0.08)
    diary.view(thing, bored=bored)
    if bored:
        return
    if dice.is_chosen(0.06):
        diary.act(dice.weighted_choice(("add_to_collection", "like", "share"), (5, 3, 1)), thing)
    if dice.is_chosen(buying):
        quantity = dice.weighted_choice((1, 2, 3), (8, 2, 1))
        diary.add_to_cart(thing, quantity)
        if dice.is_chosen(0.07):
            diary.act("remove_from_cart", thing)
        else:
            cart.append((thing, quantity))


def _finish_session(diary: SessionRecorder, cart: list[tuple[SampleItem, int]], dice: SeededRandom) -> None:
    """End the session, in some cases with a checkout; a rating or a refund follows days later."""
    if not cart or not dice.is_chosen(0.75):
        return
    diary.check_out(cart)
    if dice.is_chosen(0.3):
        diary.advance(dice.randint(3, 9) * 86_400 + dice.randint(0, 30_000))
        diary.rate(dice.choice(cart)[0])
    elif dice.is_chosen(0.04):
        diary.advance(dice.randint(4, 12) * 86_400)
        diary.act("refund", dice.choice(cart)[0])
