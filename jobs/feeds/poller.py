"""The polls of all feeds of an installation. A lease lets one poller work at a time.

Any process may die at any time. The state of each feed is in Redis, so another poller goes on after the lease has
expired, and an article that was taken before has the same id again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from urllib.parse import urlsplit

import structlog

from actors.hosting.job_lease import JobLease
from cluster.clock import Clock
from cluster.errors import KioskError, Unavailable
from cluster.records.archive.feed import Feed, FeedState, is_due, pause_after
from cluster.store.stores import Stores
from jobs.feeds.polite_fetcher import PoliteFetcher
from jobs.feeds.poll import MOST_VALIDATORS, FeedPoll, PollResult
from jobs.feeds.writer import ArticleWriter

LEASE = "feeds"
LEASE_MS = 10_000
LOOK_S = 3.0
"Pause between two looks at the feeds of all apps."
MOST_AT_ONCE = 4
"Polls at once, each of another host."


class FeedPoller:
    """Polls the feeds that are due."""

    def __init__(
        self, stores: Stores, fetcher: PoliteFetcher, clock: Clock, rng: random.Random, *, owner: str
    ) -> None:
        self._stores = stores
        self._fetcher = fetcher
        self._clock = clock
        self._rng = rng
        self._lease = JobLease(stores.leases, LEASE, owner, clock, ttl_ms=LEASE_MS)
        self._polls: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._hosts: dict[tuple[str, str], str] = {}
        self._claims: dict[tuple[str, str], str] = {}
        "App and name of an article -> the feed whose poll takes it just now."
        self._look_s = float("-inf")
        self._log = structlog.get_logger()

    async def run_once(self) -> int:
        """Begin the polls that are due; return their number, 0 without the lease.

        Call it every second: it renews the lease of the polls that run.

        Errors:
            Unavailable: the store does not answer; the polls that run go on until the lease has expired
        """
        self._drop_ended()
        try:
            is_owned = await self._lease.renew()
        # Without the lease another poller may begin, so running polls end.
        except Unavailable:
            await self.stop()
            raise
        if not is_owned:
            await self.stop()
            return 0
        now_s = self._clock.monotonic_s()
        if now_s - self._look_s < LOOK_S or len(self._polls) >= MOST_AT_ONCE:
            return 0
        self._look_s = now_s
        return await self._begin_due()

    @property
    def is_busy(self) -> bool:
        self._drop_ended()
        return bool(self._polls)

    async def wait(self) -> None:
        """Wait until the polls that run have ended."""
        await asyncio.gather(*self._polls.values())
        self._drop_ended()

    async def stop(self) -> None:
        """End the polls that run, where they are."""
        for task in self._polls.values():
            task.cancel()
        await asyncio.gather(*self._polls.values(), return_exceptions=True)
        self._polls.clear()

    async def release(self) -> None:
        """End the polls, and let another poller begin at once."""
        await self.stop()
        await self._lease.release()

    async def _begin_due(self) -> int:
        due = []
        book = await self._stores.access.read_all()
        for app_id in sorted(name for name, app in book.apps.items() if not app.read_only):
            feeds = await self._stores.feeds.all(app_id)
            states = await self._stores.feeds.states(app_id) if feeds else {}
            for feed in feeds:
                state = states.get(feed.name, FeedState())
                if state.rests_until > self._clock.now_ms():
                    self._fetcher.restore_rest(
                        state.resting_host, (state.rests_until - self._clock.now_ms()) / 1000
                    )
                if is_due(feed, state, self._clock.now_ms()):
                    due.append((state.next_at, feed))
        # The longest due first; `min` below keeps that order among equals.
        due.sort(key=lambda pair: pair[0])
        begun = 0
        while len(self._polls) < MOST_AT_ONCE:
            chosen = self._choose([feed for _, feed in due])
            if chosen is None:
                break
            key = chosen.app_id, chosen.name
            self._hosts[key] = urlsplit(chosen.address).netloc
            self._polls[key] = asyncio.create_task(self._poll(chosen))
            begun += 1
        return begun

    def _choose(self, due: Iterable[Feed]) -> Feed | None:
        """Return the feed to poll next: of the app with the fewest polls, the one due longest; None without any.

        Many slow feeds of one app would else delay those of the others for hours.
        """
        hosts = {self._hosts[key] for key in self._polls}
        running = Counter(app_id for app_id, _ in self._polls)
        free = [
            feed
            for feed in due
            if (feed.app_id, feed.name) not in self._polls and urlsplit(feed.address).netloc not in hosts
        ]
        return min(free, key=lambda feed: running[feed.app_id], default=None)

    def _drop_ended(self) -> None:
        for key in [key for key, task in self._polls.items() if task.done()]:
            task = self._polls.pop(key)
            del self._hosts[key]
            if not task.cancelled():
                task.result()  # raises what no poll expects

    async def _poll(self, feed: Feed) -> None:
        """Poll one feed and store the result; whatever it holds, the other feeds go on."""
        app_id = feed.app_id
        try:
            state = await self._stores.feeds.update_state(
                app_id, feed.name, lambda state: state.begin(self._clock.now_ms())
            )
            writer = ArticleWriter(self._stores, app_id, self._clock, lambda: self._lease.is_owned)
            poll = FeedPoll(
                feed, state, self._stores, self._fetcher, writer, self._clock, partial(self._claim, feed)
            )
            result = await self._run(feed, poll)
            if await self._stores.feeds.get(app_id, feed.name) is None:
                return  # removed meanwhile: its state is not written again
            jitter = self._rng.random()
            await self._stores.feeds.update_state(
                app_id, feed.name, lambda state: end_poll(feed, state, result, self._clock.now_ms(), jitter)
            )
        except KioskError as error:
            self._log.warning("feed_state_not_written", app=app_id, feed=feed.name, reason=error.message)
        finally:
            mine = [key for key, name in self._claims.items() if key[0] == app_id and name == feed.name]
            for key in mine:
                del self._claims[key]

    def _claim(self, feed: Feed, name: str) -> bool:
        """Claim an article for the poll of a feed; return False while another poll has it."""
        return self._claims.setdefault((feed.app_id, name), feed.name) == feed.name

    async def _run(self, feed: Feed, poll: FeedPoll) -> PollResult:
        try:
            result = await poll.run()
        except KioskError as error:
            result = PollResult(error=error.message)
        except Exception:  # noqa: BLE001 - whatever the documents of a host hold
            self._log.exception("feed_failed", app=feed.app_id, feed=feed.name)
            result = PollResult(error="the poll failed; the log has the reason")
        if result.error:
            # the reason may name an address with a secret in its query: only the state of the feed has it
            self._log.info("feed_not_polled", app=feed.app_id, feed=feed.name)
        return result


def end_poll(feed: Feed, state: FeedState, result: PollResult, now_ms: int, jitter: float) -> FeedState:
    """Return the state of a feed after a poll."""
    failures = state.failures + 1 if result.error else 0
    pause_ms = pause_after(feed, failures, jitter)
    if result.wait_s is not None:
        wait_ms = round(result.wait_s * 1000)
        # A host that asks for a rest after an error gets at least the usual pause too.
        pause_ms = max(pause_ms, wait_ms) if result.error else wait_ms
    # a poll that stopped has not seen the other documents
    is_whole = result.wait_s is None and not result.error
    validators = result.validators if is_whole else {**state.validators, **result.validators}
    has_changed = result.added or result.updated or result.removed
    return state.model_copy(
        update={
            "ended_at": now_ms,
            "next_at": now_ms + pause_ms,
            "unfinished": 0,
            "failures": failures,
            "result": "failed" if result.error else "changed" if has_changed else "unchanged",
            "error": result.error[:1_000],
            "moved_to": result.moved_to[:2_000],
            "resting_host": result.resting_host,
            "rests_until": now_ms + round((result.wait_s or 0) * 1000) if result.resting_host else 0,
            "has_more": result.wait_s is not None and not result.error,
            "reasons": tuple(result.reasons),
            "validators": dict(list(validators.items())[-MOST_VALIDATORS:]),
            **{name: getattr(result, name) for name in ("entries", "added", "updated", "removed", "refused")},
        }
    )
