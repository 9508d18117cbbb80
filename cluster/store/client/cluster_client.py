"""Implement the Redis Cluster client of the request path: one multiplexed client for each master.

slot map   by redis-py; read at the first command, when a slot moved, and while a master is away
MOVED      the command goes to the master that the reply names, and the map is read anew
ASK        the same, once, behind ASKING on the same connection
TRYAGAIN   keys of one command are with two masters while their slot moves: again until the deadline
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import structlog

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.store.client.address import Address, ServerAddress
from cluster.store.client.discovery import ClusterMap
from cluster.store.client.error_replies import SlotMigrating, SlotMoved
from cluster.store.client.multiplexed_client import MultiplexedClient
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import HOT_S, SLOW_S
from cluster.store.client.routing import group_by_slot, join_cursor, slot_of, slot_of_key, split_cursor
from cluster.store.client.script import Script

T = TypeVar("T")

MOST_HOPS = 5
"Masters that one command may be sent to in turn."
REFRESH_S = 0.5
AGAIN_S = 0.05

_log = structlog.get_logger()


class ClusterClient:
    """`RedisClient` of a Redis Cluster."""

    def __init__(
        self, address: Address, *, clock: Clock, meter: Meter, hot_s: float = HOT_S, slow_s: float = SLOW_S
    ) -> None:
        self._address = address
        self._clock = clock
        self._meter = meter
        self._hot_s = hot_s
        self._slow_s = slow_s
        self._map = ClusterMap(address)
        self._slots: list[ServerAddress | None] = []
        self._masters: dict[ServerAddress, MultiplexedClient] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def is_away(self) -> bool:
        """Return whether some master does not answer."""
        return any(master.is_away for master in self._masters.values())

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Return a coroutine that sends a short command and returns its reply."""
        return self._follow(slot_of(command), lambda master: master.execute(*command), command, self._hot_s)

    def execute_slow(self, *command: Argument) -> Awaitable[Any]:
        """Return a coroutine that sends a command with a large argument or reply and returns its reply."""
        if command[0] == "SCAN":
            return self._scan(command)
        return self._follow(
            slot_of(command), lambda master: master.execute_slow(*command), command, self._slow_s
        )

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        hot: bool = False,
        is_bulk: bool = False,
    ) -> Any:
        """Run a script at the master of its keys and return its reply."""
        # All keys of a script share a hash tag, so the first one determines the slot.
        slot = slot_of_key(keys[0]) if keys else None
        # EVAL, because the target of an ASK may never have loaded the script.
        full = ("EVAL", script.text, len(keys), *keys, *args)
        within_s = self._hot_s if hot else self._slow_s
        return await self._follow(
            slot, lambda master: master.run(script, keys, args, hot=hot, is_bulk=is_bulk), full, within_s
        )

    async def wait(self, *command: Argument, block_ms: int) -> Any:
        """Send a command that blocks on a separate connection, and return its reply."""
        within_s = block_ms / 1000 + self._slow_s
        return await self._follow(
            slot_of(command), lambda master: master.wait(*command, block_ms=block_ms), command, within_s
        )

    async def execute_everywhere(self, *command: Argument) -> list[Any]:
        """Send a command without keys to every master and return the replies."""
        masters = await self._list_masters()
        return list(await asyncio.gather(*(master.execute_slow(*command) for master in masters)))

    def group(self, names: Sequence[str]) -> list[list[str]]:
        return group_by_slot(names)

    async def ready(self, within_s: float = 2.0) -> bool:
        """Wait for the slot map and the first connections; return False when a master does not answer yet."""
        try:
            masters = await run_within(self._list_masters(), within_s)
        except (KioskError, asyncio.TimeoutError):
            return False
        return all(await asyncio.gather(*(master.ready(within_s) for master in masters)))

    async def close(self) -> None:
        """Close every connection and wait until the sockets are gone."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await asyncio.gather(*(master.close() for master in self._masters.values()), *self._leaving)

    async def _follow(
        self,
        slot: int | None,
        send: Callable[[MultiplexedClient], Awaitable[T]],
        full: tuple[Argument, ...],
        within_s: float,
    ) -> T:
        """Send to the master of a slot, and follow its redirections; `full` is the form that any server
        understands.
        """
        master = await self._master_of(slot)
        until = asyncio.get_running_loop().time() + within_s
        hops = 0
        while True:
            try:
                return await send(master)
            except SlotMoved as moved:
                hops += 1
                # Two masters that each name the other would send a command around for ever.
                if hops >= MOST_HOPS:
                    raise
                master = self._master_at(_endpoint(moved, master, self._masters))
                if moved.facts["asking"]:
                    send = _asking(full)
                else:
                    # MOVED is final, so the map is old. ASK holds for one command, and the map stays right.
                    self._refresh_soon()
            except SlotMigrating:
                # The caller's deadline counts from its first attempt, not from each one.
                if asyncio.get_running_loop().time() + AGAIN_S > until:
                    raise
                await asyncio.sleep(AGAIN_S)
            except Unavailable as error:
                # Raised all the same: only the caller knows whether its command may be repeated.
                if "clusterdown" in error.message:
                    self._refresh_soon()
                raise

    async def _scan(self, command: tuple[Argument, ...]) -> list[Any]:
        masters = await self._list_masters()
        number, cursor = split_cursor(command[1])
        # The cursor belongs to a master that is gone. Going on elsewhere would skip keys without a word.
        if number >= len(masters):
            raise Unavailable(
                "the masters of the store changed during a walk through its keys", retry_after_s=1
            )
        master_cursor, names = await masters[number].execute_slow("SCAN", cursor, *command[2:])
        return [join_cursor(number, master_cursor, len(masters)), names]

    async def _list_masters(self) -> list[MultiplexedClient]:
        await self._learn()
        # Sorted, because a cursor of SCAN names a master by its number in this list.
        places = sorted({place for place in self._slots if place is not None}, key=str)
        return [self._master_at(place) for place in places]

    async def _master_of(self, slot: int | None) -> MultiplexedClient:
        await self._learn()
        place = self._slots[slot] if slot is not None else next(filter(None, self._slots), None)
        if place is None:
            self._refresh_soon()
            raise Unavailable("no server of the store has these keys at the moment", retry_after_s=1)
        return self._master_at(place)

    def _master_at(self, place: ServerAddress) -> MultiplexedClient:
        client = self._masters.get(place)
        if client is None:

            async def locate() -> ServerAddress:
                return place

            client = self._masters[place] = MultiplexedClient(
                self._address,
                locate,
                clock=self._clock,
                meter=self._meter,
                hot_s=self._hot_s,
                slow_s=self._slow_s,
                # A master that stops answering may have a successor, which only a new map names.
                on_away=self._refresh_soon,
            )
        return client

    async def _learn(self) -> None:
        """Wait for the first slot map."""
        if not self._slots:
            if self._closed:
                raise Unavailable("the store is closed", retry_after_s=1)
            # One reading serves all who wait.
            self._refresh_soon()
            assert self._reading is not None
            # `wait`, not `wait_for`: a caller that gives up must not cancel the reading of all others.
            await asyncio.wait([self._reading], timeout=self._slow_s)
            if not self._slots:
                raise Unavailable("the store's cluster can't be reached", retry_after_s=1)

    def _refresh_soon(self) -> None:
        if not self._closed and (self._reading is None or self._reading.done()):
            self._reading = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        """Read the slot map, and repeat this later if one of its masters is unreachable."""
        try:
            self._take(await self._map.read())
        except KioskError as error:
            _log.warning("slots_not_read", reason=error.facts.get("reason", error.message))
        # A failover takes seconds: this map may still name the dead master.
        if self.is_away:
            asyncio.get_running_loop().call_later(REFRESH_S, self._refresh_soon)

    def _take(self, slots: list[ServerAddress | None]) -> None:
        self._slots = slots
        used = set(slots)
        for place in [place for place in self._masters if place not in used]:
            # Running commands get their replies or fail; new ones use other connections.
            gone = self._masters.pop(place)
            # Its breaker will not close any more, so nobody else would reset the gauge.
            if gone.is_away:
                self._meter.gauge("kiosk_store_away", float(self.is_away))
            task = asyncio.get_running_loop().create_task(gone.close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)


def _asking(full: tuple[Argument, ...]) -> Callable[[MultiplexedClient], Awaitable[Any]]:
    return lambda master: master.ask(*full)


def _endpoint(
    moved: SlotMoved, sender: MultiplexedClient, masters: dict[ServerAddress, MultiplexedClient]
) -> ServerAddress:
    """Return the target of a redirection; without a host it is the host of the server that replied."""
    host = moved.facts["host"]
    if not host:
        host = next((place.host for place, client in masters.items() if client is sender), "")
    return ServerAddress(host=host, port=moved.facts["port"])
