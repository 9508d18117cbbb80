"""Link the visitor to the user on every endpoint that takes both ids, as `POST /v1/interactions` does.

    token names a user           any key; a publishable key proves the visitor as `verify_identity` requires
    `user_hash` proves a user    publishable key

The reply does not wait for the link, and a failed link does not fail the request. A process writes each pair at most
once a while, and only if the store lacks it. The limits on new visitors are those of interactions
(`append_browser.lua`).

The rules for users are in `docs/concepts/identities.md`, section "Visitor and user: linking".
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import structlog

from cluster.errors import KioskError, Unauthenticated
from cluster.meter import Meter
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.data.interactions import InteractionStore
from deployments.api.http.browser_writes import build_browser_write_limits
from deployments.edge.access.identity_proof import ClaimedIdentity, verify_identity
from deployments.edge.http.request import ApiRequest

LINKED_FOR_S = 900.0
"Seconds for which a process assumes that a pair it wrote is still linked."

_MOST_PAIRS = 10_000
_MOST_WRITES = 100
_NO_EVENTS = b"[]"


class IdentityLinkWriter:
    """Writes links in the background, within limits."""

    def __init__(self, store: InteractionStore, meter: Meter) -> None:
        self._store = store
        self._meter = meter
        self._linked: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()
        self._writes: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    def record(self, request: ApiRequest) -> None:
        """Link the ids of an answered request that names a visitor, if it also names a user who is proven.

        Cost:
            one look-up for a known pair
        """
        claimed = ClaimedIdentity.from_body(request.payload)
        token = request.token
        user_id = token.user_id if token is not None else ""
        if not user_id and claimed.user_hash and not request.credential.is_secret:
            user_id = claimed.user_id
        visitor_id = claimed.anonymous_id
        if not user_id or not visitor_id:
            return
        now_s = request.clock.monotonic_s()
        cached = self._linked.get((request.app_id, visitor_id))
        if cached is not None and cached[0] == user_id and now_s < cached[1]:
            return
        if (
            request.credential.app.read_only
            or request.gate.why_no_writes()
            or not _has_valid_proof(request, claimed)
        ):
            return
        # Dropped and not queued: the next request with this pair tries again.
        if len(self._writes) >= _MOST_WRITES:
            self._meter.count("kiosk_identity_links_missed_total")
            return
        # Before the write, so that concurrent requests with this pair start no second one.
        self._cache_pair(request.app_id, visitor_id, user_id, now_s + LINKED_FOR_S)
        limits = None
        if not request.credential.is_secret:
            limits = build_browser_write_limits(request, request.clock.now_ms(), frozenset({user_id}))
        task = asyncio.get_running_loop().create_task(self._link(request.app_id, user_id, visitor_id, limits))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def wait_for_writes(self) -> None:
        """Wait for the links that are being written."""
        while self._writes:
            await asyncio.wait(self._writes)

    async def _link(
        self, app_id: str, user_id: str, visitor_id: str, limits: BrowserWriteLimits | None
    ) -> None:
        try:
            linked = await self._store.links(app_id, [visitor_id])
            if linked.get(visitor_id) != user_id:
                await self._store.append(app_id, _NO_EVENTS, [(user_id, visitor_id, b"")], limits)
                self._meter.count("kiosk_identity_links_total")
        except KioskError as error:
            # the next request with this pair retries
            self._linked.pop((app_id, visitor_id), None)
            self._meter.count("kiosk_identity_links_missed_total")
            self._log.info("identity_link_missed", app=app_id, reason=error.message)
        except Exception:  # noqa: BLE001 - nobody waits for this task
            self._linked.pop((app_id, visitor_id), None)
            self._meter.count("kiosk_identity_links_missed_total")
            self._log.exception("identity_link_failed", app=app_id)

    def _cache_pair(self, app_id: str, visitor_id: str, user_id: str, until_s: float) -> None:
        self._linked[app_id, visitor_id] = user_id, until_s
        self._linked.move_to_end((app_id, visitor_id))
        if len(self._linked) > _MOST_PAIRS:
            self._linked.popitem(last=False)


def _has_valid_proof(request: ApiRequest, claimed: ClaimedIdentity) -> bool:
    """Verify the proofs of a publishable key; endpoints that use one id only may not have done so."""
    if request.credential.is_secret:
        return True
    try:
        verify_identity(request, claimed)
    except Unauthenticated:
        return False
    return True
