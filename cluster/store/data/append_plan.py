"""Planning one append: which interactions go to which recent lists, and which visitors are linked to which users.

A visitor (anonymous id) that arrives together with a user is linked to that user:

    not linked yet       the visitor's interactions so far are copied to the user's list
    linked to the user   nothing to do
    linked to another    the device changed hands: the link moves and the visitor's list starts empty, because
                         its entries belong to the former user

Later interactions of a linked visitor go to both lists. The plan reads the links before the script runs, and
the script checks that they are unchanged. So every key is named beforehand.

Every list has a lifetime, renewed with every push. For calls with hundreds of interactions the writer renews a
list only once an hour; a new list always gets its lifetime.

A publishable key is public, so its writes are bounded (`append_browser.lua`): an unverified user's list lives one
day until the user returns, an address adds a limited number of users a day, and one call displaces few events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cluster.clock import Clock
from cluster.ids import user_key_from_anonymous_id, user_key_from_id
from cluster.store import keys
from cluster.store.client.multiplexer import Argument


@dataclass(frozen=True, slots=True)
class BrowserWriteLimits:
    """A client that writes with a publishable key, and its limits."""

    address: str
    "Digest of the client's address."
    now_ms: int
    proven: frozenset[str] = frozenset()
    "User ids that the client proved; every other user is unverified."
    users_per_address: int = 1_000
    "Unverified users one address may add on a day, or keep longer than that."
    users_per_day: int = 100_000
    bytes_per_minute: int = 0
    "Of change-log entries, all browsers of the app together; 0: no bound."

    @property
    def day(self) -> int:
        """Return the day, in days since 1970."""
        return self.now_ms // 86_400_000


CAP = 200
"Interactions a recent list keeps."
LIFE_S = 400 * 24 * 3600
RENEWED_S = 3600.0
"A renewed list is not renewed again for this long; its lifetime after the last push may be shorter by as much."
MANY = 500
"Interactions of a call from which the renewed lists are remembered."
# Lists in memory at most; beyond it all are forgotten, which costs one more renewal of each.
_REMEMBERED = 100_000

YOUNG_S = 24 * 3600
"Lifetime of a list that an unverified user began, until the user returns."
RETURN_S = 30 * 60
"Age from which an event continues an unverified user's list as another session."
MOST_EVICTED = 20
"Interactions of one list that one call of a publishable key may displace."
MOST_VISITORS = 50
"Visitors that browsers may link to one user."
MOST_ADDRESSES = 50_000
"Client addresses that are counted separately on one day; all further ones count as one."
STRANGER_LIFE_S = 2 * 24 * 3600

Recent = tuple[str, str, bytes]
"user id or empty, anonymous id or empty, packed interaction; empty bytes link and push nothing"


class RenewedLists:
    """Remembers which lists large calls renewed within the last hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lists: set[str] = set()
        self._until_s = 0.0

    def lately(self) -> AbstractSet[str]:
        """Return the lists that need no renewal now."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._until_s or len(self._lists) > _REMEMBERED:
            self._lists = set()
            self._until_s = now_s + RENEWED_S
        return self._lists

    def record(self, plan: AppendPlan) -> None:
        """Remember the lists that an executed plan renewed."""
        self._lists.update(plan.renews)


class AppendPlan:
    """Keys and arguments of one run of `append_interactions`."""

    def __init__(
        self,
        app_id: str,
        payload: bytes,
        recents: Sequence[Recent],
        believed: Mapping[str, str],
        renewed: AbstractSet[str] = frozenset(),
        writer: BrowserWriteLimits | None = None,
    ) -> None:
        self._writer = writer
        self.renews: list[str] = []
        "Lists whose lifetime it renews."
        self._renewed = renewed
        self._app_id = app_id
        self._links: dict[str, str] = {}
        self._pushes: dict[str, list[bytes]] = {}
        self._steps: list[Argument] = []
        self._numbers: dict[str, int] = {}
        self.keys = [keys.change_log(app_id, "interaction"), keys.link(app_id)]
        if writer is not None:
            minute = writer.now_ms // 60_000
            self.keys += (keys.stranger(app_id, writer.day), keys.browser_bytes(app_id, minute))

        paired: dict[str, str] = {}
        # A dictionary keeps the order of arrival, which decides to whom a visitor is linked.
        visitors: dict[str, None] = {}
        for user_id, visitor, _ in recents:
            if visitor:
                visitors.setdefault(visitor)
                if user_id:
                    paired.setdefault(visitor, user_id)
        facts: list[Argument] = []
        for visitor in visitors:
            user_id = believed.get(visitor, "")
            # The usual visitor is linked to this user already: no step, and the script accepts either
            # belief.
            if user_id == paired.get(visitor):
                user_id = ""
            self._links[visitor] = user_id
            facts += (visitor, user_id, paired.get(visitor, ""))
        for visitor, user_id in paired.items():
            self._link(visitor, user_id)
        pushes = self._pushes
        for user_id, visitor, packed in recents:
            if visitor:
                self._add_recent(user_id, visitor, packed)
            elif user_id and packed:
                pushes.setdefault(user_key_from_id(user_id), []).append(packed)
        for user_key in list(pushes):
            self._flush(user_key)
        bounds: list[Argument] = []
        if writer is not None:
            bounds = [
                YOUNG_S,
                RETURN_S,
                MOST_EVICTED,
                writer.address,
                writer.users_per_address,
                writer.users_per_day,
                writer.bytes_per_minute,
                MOST_VISITORS,
                MOST_ADDRESSES,
                STRANGER_LIFE_S,
            ]
        self.args: list[Argument] = [payload, CAP, LIFE_S, *bounds, len(visitors), *facts, *self._steps]

    def _add_recent(self, user_id: str, visitor: str, packed: bytes) -> None:
        if user_id:
            self._link(visitor, user_id)
        if packed:
            self._pushes.setdefault(user_key_from_anonymous_id(visitor), []).append(packed)
        user_id = self._links[visitor]
        if user_id and packed:
            self._pushes.setdefault(user_key_from_id(user_id), []).append(packed)

    def _link(self, visitor: str, user_id: str) -> None:
        former = self._links[visitor]
        if former == user_id:
            return
        self._links[visitor] = user_id
        visitor_key = user_key_from_anonymous_id(visitor)
        user_key = user_key_from_id(user_id)
        # Before the link: events up to here belong to the former state of both lists.
        self._flush(visitor_key)
        self._flush(user_key)
        visitors = self._number(keys.linked(self._app_id, user_id))
        visitor_list = self._number(keys.recent(self._app_id, visitor_key))
        if former:
            formers = self._number(keys.linked(self._app_id, former))
            self._steps += ("move", visitor, user_id, visitor_list, visitors, formers)
        else:
            user_list = self._number(keys.recent(self._app_id, user_key))
            self._steps += ("link", visitor, user_id, visitor_list, user_list, visitors)
            if self._writer is not None:
                self._steps.append(self._is_proven(user_key))

    def _flush(self, user_key: str) -> None:
        # More than the list keeps would be pushed and trimmed in the same script.
        packed = self._pushes.pop(user_key, [])[-CAP:]
        if packed:
            name = keys.recent(self._app_id, user_key)
            if self._writer is not None:
                self._steps += ("push", self._number(name), self._is_proven(user_key), len(packed), *packed)
                return
            step = "add"
            if name not in self._renewed:
                step = "push"
                self.renews.append(name)
            self._steps += (step, self._number(name), len(packed), *packed)

    def _is_proven(self, user_key: str) -> str:
        proven = self._writer is not None and user_key[:2] == "u:" and user_key[2:] in self._writer.proven
        return "1" if proven else "0"

    def _number(self, key: str) -> int:
        """Return the key's position in KEYS, counted from 1 as in Lua."""
        if key not in self._numbers:
            self.keys.append(key)
            self._numbers[key] = len(self.keys)
        return self._numbers[key]


def merge_recent(lists: Sequence[list[bytes]]) -> list[bytes]:
    """Merge the lists of a user and a visitor into one, newest first; an interaction in both comes once.

    Cost: the usual case, a visitor whose list is part of the user's, is one set and no parsing.
    """
    if len(lists) == 1:
        return lists[0]
    merged = lists[0]
    for more in lists[1:]:
        merged_set = set(merged)
        # Equal bytes are one interaction: both lists were pushed from the same packed value.
        missing = [packed for packed in more if packed not in merged_set]
        if missing:
            merged = sorted(merged + missing, key=_at_ms, reverse=True) if merged else missing
    return merged


def _at_ms(packed: bytes) -> int:
    """Return the time in a packed interaction, `[type, [ids], at_ms, value]`, without parsing the rest."""
    try:
        # From the right, because ids of products may contain commas; time and value never do.
        return int(packed.rsplit(b",", 2)[1])
    except (IndexError, ValueError):
        return 0
