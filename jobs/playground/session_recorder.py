"""Recording of one user's session as interactions in the upload format."""

from __future__ import annotations

from typing import Any

from cluster.clock import iso_ms
from jobs.playground.preferences import SampleItem
from jobs.playground.seeded_random import SeededRandom
from jobs.playground.users import SampleUser


class SessionRecorder:
    """One session: a clock that moves on with everything that is done, and the pages it fills."""

    def __init__(self, reader: SampleUser, ids: dict[str, str], started_ms: int, dice: SeededRandom) -> None:
        self.entries: list[tuple[int, dict[str, Any]]] = []
        self._reader = reader
        self._ids = ids
        self._at_ms = started_ms
        self._dice = dice

    def choose_variant(self, thing: SampleItem) -> tuple[str, float]:
        """Choose the variant this user always chooses; return its id and price."""
        at = SeededRandom("variant", self._reader.user_id, len(thing.product_ids)).randint(
            0, len(thing.product_ids) - 1
        )
        return thing.product_ids[at], thing.prices[at]

    def view_home(self) -> None:
        """Open the home page."""
        self._write("home_page_view", 6, duration=self._draw_duration(3, 25))

    def browse(self, path: tuple[str, ...]) -> None:
        """Open a category page."""
        self._write("category_page_view", 8, category=list(path), duration=self._draw_duration(4, 40))

    def search(self, keywords: str) -> None:
        """Type something into the search box."""
        self._write("search", 7, search={"keywords": keywords, "filters": {}})

    def show_list(self, things: list[SampleItem]) -> None:
        """Be shown a row of things."""
        self._write("impression", 2, product_ids=[self.choose_variant(thing)[0] for thing in things])

    def click(self, thing: SampleItem) -> None:
        """Click on something in a list."""
        self._write("click", 2, product_ids=[self.choose_variant(thing)[0]])

    def view(self, thing: SampleItem, *, bored: bool = False) -> None:
        """Look at a product; a bored user leaves within five seconds."""
        duration = self._draw_duration(1, 4) if bored else self._draw_duration(8, 150)
        context = {"page": {"url": thing.url}, "locale": self._reader.place.locale}
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
        """Read an article."""
        duration = self._draw_duration(25, 210)
        context = {"page": {"url": thing.url}, "locale": self._reader.place.locale}
        self._write("read", duration, product_ids=[thing.id], duration=duration, context=context)

    def act(self, kind: str, thing: SampleItem) -> None:
        """Do one of the actions without a measure: like, dislike, share, bookmark, ..."""
        self._write(kind, 4, product_ids=[self.choose_variant(thing)[0]])

    def rate(self, thing: SampleItem) -> None:
        """Judge a product, near to what others think of it."""
        shift = self._dice.choice((-1.0, -0.5, 0.0, 0.0, 0.5))
        rating = min(5.0, max(1.0, round((thing.rating + shift) * 2) / 2))
        self._write("rate", 12, product_ids=[self.choose_variant(thing)[0]], rating=rating)

    def add_to_cart(self, thing: SampleItem, quantity: int) -> None:
        """Put a product into the cart."""
        self._write("add_to_cart", 9, product_ids=[self.choose_variant(thing)[0]], quantities=[quantity])

    def check_out(self, cart: list[tuple[SampleItem, int]]) -> None:
        """Check out."""
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
        """Let time pass."""
        self._at_ms += int(seconds * 1000)

    @property
    def at_ms(self) -> int:
        """Where the clock of the session stands."""
        return self._at_ms

    def _draw_duration(self, low: int, high: int) -> float:
        """Draw a duration; short ones are commoner."""
        share = self._dice.random()
        return round(low + (high - low) * share * share, 1)

    def _write(self, kind: str, takes_s: float, **fields: Any) -> None:
        entry = {"type": kind, **self._ids, "timestamp": iso_ms(self._at_ms), **fields}
        self.entries.append((self._at_ms, entry))
        self.advance(takes_s + 0.001 + self._dice.random())
