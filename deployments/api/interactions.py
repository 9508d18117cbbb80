"""Interactions: the short road. One script appends and pushes; no task, no intake.

Source: reference 5.3, 7; decisions I7, I8
"""

from __future__ import annotations

import hashlib
import hmac

from cluster.clock import Clock, from_ms
from cluster.errors import messages
from cluster.records.accepted import AcceptedInteractions
from cluster.records.deletes import parse_interaction_delete
from cluster.records.upload import parse_upload
from cluster.store.ports import BrowserWriter, InteractionStore
from deployments.api.browser_writes import WriterCheck
from deployments.api.records import is_dry_run
from deployments.edge.arrival import Arrival
from deployments.edge.envelope import Reply, told


class Interactions:
    """Endpoints 1 and 2, and the alias of 2."""

    def __init__(self, store: InteractionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def read_upload(self, request: Arrival) -> tuple[AcceptedInteractions, BrowserWriter | None, int]:
        """Validate interactions; those without any id get a default visitor's id."""
        now_ms = self._clock.now_ms()
        check = WriterCheck(request)
        accepted = parse_upload(
            "interaction",
            request.body,
            now_ms=now_ms,
            service_id_aliases=request.credential.app.settings.service_id_aliases,
            default_anonymous_id=lambda: default_anonymous_id(request, now_ms),
            token_user_id=request.token.user_id if request.token is not None else "",
            check=check,
        )
        return accepted, check.writer(now_ms), check.checkouts

    async def upload(self, request: Arrival) -> Reply:
        """Append the interactions; they count in the next recommendation.

        Errors:
            TooMany: a browser sends more than it may
        """
        accepted: AcceptedInteractions
        accepted, writer, checkouts = request.parsed
        if checkouts:
            most = request.credential.app.settings.checkouts_per_address
            request.gate.limits.spend_daily(request.credential, "checkout", request.ip, checkouts, most)
        if accepted.count and not is_dry_run(request):
            links = [(user_id, visitor_id, b"") for user_id, visitor_id in accepted.links]
            await self._store.append(request.app_id, accepted.payload, [*accepted.recents, *links], writer)
        return told(messages.SUCCESS)

    def read_erase(self, request: Arrival) -> list[str]:
        """Validate whose interactions to erase; the alias wraps the ids in `data`."""
        return parse_interaction_delete(request.body)

    async def erase(self, request: Arrival) -> Reply:
        """Erase all interactions of these users and of visitors linked to them, at once."""
        user_ids: list[str] = request.parsed
        if user_ids:
            await self._store.erase(request.app_id, user_ids)
        return told(messages.SUCCESS)


def default_anonymous_id(request: Arrival, now_ms: int) -> str:
    """Name a visitor who named nobody: `SHA1("<api key>:<ip>:<user agent>:<date>")`.

    With `keyed_visitor_ids` it is HMAC-SHA1 of the same text under the secret key, because a neighbour behind the
    same address knows everything in it and could read the visitor's history by it.

    Source: reference 5.3.1. SHA-1 is the interface's choice; without the secret key it names and protects nothing.
    """
    day = from_ms(now_ms).date().isoformat()
    credential = request.credential
    text = f"{credential.text}:{request.ip}:{request.user_agent}:{day}".encode("utf-8", "surrogatepass")
    if credential.app.settings.keyed_visitor_ids and credential.secrets:
        return hmac.digest(credential.secrets[0], text, "sha1").hex()
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()
