"""Requests to the hosts of publishers: one at a time for each host, with pauses, and never where robots may not go.

Every request goes to a checked address of a public host (`cluster.external_fetcher`). Redirects are followed here, so
that each of them is checked like the first address.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timezone
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

from cluster.addresses.ssrf_guard import find_address_fault, find_host
from cluster.clock import Clock
from cluster.errors import Invalid
from cluster.external_fetcher import DocumentError, ExternalFetcher, FetchedResponse, FetchRules
from jobs.articles.feed_documents import LARGEST_DOCUMENT, decompress_body
from jobs.feeds.robots import MOST_BYTES, NOTHING, RobotsRules, parse_robots

RULES = FetchRules(
    within_s=20.0,
    most_bytes=LARGEST_DOCUMENT,
    most_received=LARGEST_DOCUMENT + (1 << 20),
    most_at_once=8,  # more than polls run at once: a look-up that hangs counts until it ends
    most_per_person=1,
    chunk=65_536,
)
PAUSE_S = 1.0
"Least time between two requests to one host."
MOST_HOPS = 5
ROBOTS_LIFE_S = 3_600.0
"How long rules of a host hold; RFC 9309 allows a day at most."
MOST_HOSTS = 1_000
"Hosts that are remembered; the one used longest ago goes first."
MOST_FAILURES = 3
"Failures of a host in a row after which it rests for the app that met them."
REST_S = 600.0
MOST_RETRY_S = 7 * 86_400.0
_MOVED_FOR_EVER = (301, 308)
_MOVED = (301, 302, 303, 307, 308)
_LATER = (429, 503)


class FetchError(Exception):
    """A document can't be fetched; `reason` is a whole sentence without its full stop."""

    def __init__(self, reason: str, *, is_lasting: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_lasting = is_lasting
        "Whether another try soon is pointless, although the host works."


class HostResting(FetchError):
    """The host asks not to be asked for a while, or fails again and again."""

    def __init__(self, reason: str, wait_s: float, host: str = "") -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.host = host
        "Name and port of a host that asks for the rest; empty: it fails."


class FetchPause(Exception):
    """The next request would end after the deadline of the caller."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A response, behind all redirects."""

    address: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    moved_to: str = ""
    "The address, where every redirect was one for ever; empty without a redirect."


@dataclass(slots=True)
class _Host:
    """What is known of one host."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_s: float = 0.0
    rests_until_s: float = 0.0
    "Until then the host asked for no request."
    reason: str = ""
    failures: Counter[str] = field(default_factory=Counter)
    "App -> failures in a row: slow pages of one app say little about those of another."
    app_rests: dict[str, tuple[float, str]] = field(default_factory=dict)
    "App -> until when it asks the host for nothing, and why."
    robots: RobotsRules = NOTHING
    robots_until_s: float = float("-inf")


class PoliteFetcher:
    """Fetches documents of publishers."""

    def __init__(
        self,
        client: ExternalFetcher,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._clock = clock
        self._sleep = sleep
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    async def get(
        self,
        address: str,
        *,
        person: str,
        until_s: float,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> FetchedPage:
        """Return the response at an address, behind at most five redirects.

        `person` is on whose behalf, as `app/feed`; `until_s` is the deadline of the caller by the monotonic
        clock. Only a response with status 200 has a body.

        Errors:
            FetchError: a redirect, the robots' rules or the host do not allow it, or the host fails
            FetchPause: the pause before the request would end after the deadline
        """
        first = address
        is_moved = True
        for _ in range(MOST_HOPS + 1):
            host = self._host(address)
            # One request at a time for each host, so that pauses between them hold.
            async with host.lock:
                response = await self._request(host, address, person, until_s, method, headers or {})
            if response.status not in _MOVED:
                moved_to = address if is_moved and address != first else ""
                return FetchedPage(address, response.status, response.headers, response.body, moved_to)
            # One temporary redirect makes the whole way temporary.
            is_moved = is_moved and response.status in _MOVED_FOR_EVER
            address = _follow(address, response.headers.get("location", ""))
        raise FetchError(f"{find_host(first)} redirects more than {MOST_HOPS} times", is_lasting=True)

    def restore_rest(self, name: str, wait_s: float) -> None:
        """Ask a host for nothing for so many seconds, as it asked an earlier process."""
        host = self._find_host(name)
        host.reason = host.reason or f"{name} asked for a pause"
        # The later end wins, as several feeds may share the host.
        host.rests_until_s = max(host.rests_until_s, self._clock.monotonic_s() + wait_s)

    def _host(self, address: str) -> _Host:
        fault = find_address_fault(address, needs_path=False)
        if fault:
            raise FetchError(f"the address {address[:200]!r} {fault}", is_lasting=True)
        return self._find_host(urlsplit(address).netloc.lower())

    def _find_host(self, name: str) -> _Host:
        host = self._hosts.setdefault(name, _Host())
        self._hosts.move_to_end(name)
        if len(self._hosts) > MOST_HOSTS:
            oldest = next(iter(self._hosts))
            # A host in use would lose its lock, and two requests would run at once.
            if not self._hosts[oldest].lock.locked():
                del self._hosts[oldest]
        return host

    async def _request(
        self, host: _Host, address: str, person: str, until_s: float, method: str, headers: Mapping[str, str]
    ) -> FetchedResponse:
        if self._clock.monotonic_s() >= host.robots_until_s:
            await self._read_robots(host, address, person, until_s)
        parts = urlsplit(address)
        if not host.robots.allows((parts.path or "/") + (f"?{parts.query}" if parts.query else "")):
            raise FetchError(f"{find_host(address)} does not allow robots at this address", is_lasting=True)
        return await self._send(host, address, person, until_s, method, headers)

    async def _read_robots(self, host: _Host, address: str, person: str, until_s: float) -> None:
        """Read the rules of a host again.

        A file that is absent allows everything, a host that fails nothing (RFC 9309, section 2.3.1).
        """
        parts = urlsplit(address)
        place = f"https://{parts.netloc}/robots.txt"
        for _ in range(MOST_HOPS + 1):
            response = await self._send(host, place, person, until_s, "GET", {})
            if response.status not in _MOVED:
                break
            place = _follow(place, response.headers.get("location", ""))
        # A file that can't be reached forbids everything, a missing one nothing (RFC 9309, 2.3.1).
        if response.status >= 500:
            raise FetchError(f"{parts.netloc} answers {response.status} for its robots.txt")
        text = ""
        if response.status == 200:
            try:
                text = decompress_body(response.body, response.headers, LARGEST_DOCUMENT)[:MOST_BYTES].decode(
                    "utf-8", "replace"
                )
            except Invalid as error:
                raise FetchError(
                    f"{parts.netloc} has a robots.txt that can't be read: {error.message}"
                ) from error
        host.robots = parse_robots(text)
        host.robots_until_s = self._clock.monotonic_s() + ROBOTS_LIFE_S

    async def _send(
        self, host: _Host, address: str, person: str, until_s: float, method: str, headers: Mapping[str, str]
    ) -> FetchedResponse:
        """Send one request when the host may get the next one."""
        now_s = self._clock.monotonic_s()
        app_id = person.partition("/")[0]
        name = urlsplit(address).netloc.lower()
        if now_s < host.rests_until_s:
            raise HostResting(host.reason, host.rests_until_s - now_s, name)
        rests_until_s, reason = host.app_rests.get(app_id, (0.0, ""))
        if now_s < rests_until_s:
            raise HostResting(reason, rests_until_s - now_s)
        if now_s > until_s:
            # each redirect, each robots.txt and each wait for the host takes its time
            raise FetchError(f"{find_host(address)} takes too long")
        wait_s = host.next_s - now_s
        if wait_s > 0:
            if now_s + wait_s > until_s:
                raise FetchPause(wait_s)
            await self._sleep(wait_s)
        try:
            response = await self._client.send(
                address,
                person=person,
                method=method,
                headers={"Accept-Encoding": "gzip, identity", **headers},
            )
        except DocumentError as error:
            # a feed of one app may list pages that are too large at the host of another app's feed
            host.failures[app_id] += error.is_outage
            reason = f"{find_host(address)} {error.reason}"
            if host.failures[app_id] >= MOST_FAILURES:
                del host.failures[app_id]
                host.app_rests[app_id] = (self._clock.monotonic_s() + REST_S, reason)
            raise FetchError(reason) from error
        finally:
            # Also after a failure: the pause protects the host.
            host.next_s = self._clock.monotonic_s() + max(PAUSE_S, host.robots.delay_s)
        host.failures.pop(app_id, None)
        host.app_rests.pop(app_id, None)
        if response.status in _LATER:
            wait_s = read_retry_after(response.headers.get("retry-after", ""), self._clock.now_ms())
            host.reason = f"{find_host(address)} answers {response.status}"
            host.rests_until_s = self._clock.monotonic_s() + wait_s
            raise HostResting(host.reason, wait_s, name)
        return response


def read_retry_after(text: str, now_ms: int) -> float:
    """Return the seconds of a `Retry-After`, as a number or a date; a minute without one, and a week at most."""
    if text.isascii() and text.isdecimal():
        return min(float(text[:12]), MOST_RETRY_S)
    try:
        at = parsedate_to_datetime(text)
        wait_s = (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() - now_ms / 1000
    except (ValueError, TypeError, OverflowError, IndexError):
        return 60.0
    return min(max(wait_s, 1.0), MOST_RETRY_S)


def read_validators(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the ETag and the date of modification of a response, empty where no request can carry them."""
    etag = headers.get("etag", "")
    modified = headers.get("last-modified", "")
    return etag[:500] if etag.isascii() else "", modified[:100] if modified.isascii() else ""


def format_conditions(etag: str, modified: str) -> dict[str, str]:
    """Return the headers of a request for a document that changed since then."""
    headers = {"If-None-Match": etag} if etag else {}
    return {**headers, "If-Modified-Since": modified} if modified else headers


def _follow(address: str, location: str) -> str:
    """Return the address of a redirect.

    Errors:
        FetchError: it names none
    """
    try:
        target = urljoin(address, location.encode("latin-1").decode("utf-8", "replace")) if location else ""
    except ValueError:
        target = ""
    if not target:
        raise FetchError(f"{find_host(address)} redirects to no address", is_lasting=True)
    return target.partition("#")[0]
