"""The endpoints that append and erase interactions, without a task or the intake queue.

An app may accept other names of `service_id` (`service_id_aliases`). `dry_run=1` checks and writes nothing.
Published in `docs/reference/rest.md`, section Interactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from cluster.clock import Clock
from cluster.errors import messages
from cluster.records.validation.accepted_uploads import AcceptedInteractions
from cluster.records.validation.deletes import parse_interaction_delete
from cluster.records.validation.upload import parse_upload
from cluster.store.app_quotas import StorageBounds
from cluster.store.data.append_plan import BrowserWriteLimits
from cluster.store.stores import Stores
from deployments.api.http.browser_writes import BrowserWriteCheck
from deployments.api.http.user_identity import default_anonymous_id
from deployments.api.resources.records import is_dry_run, mark_dry_run
from deployments.edge.http.replies import Reply, message_reply, plain_reply
from deployments.edge.http.request import ApiRequest

MOST_WARNINGS = 20
MOST_CHECKED = 100
"Interactions of one upload whose products are compared with the catalog in memory."
MOST_LOOKED_UP = 500
"Products that a dry run looks up."
_SHOWN = 100
AHEAD = "the time is more than a day ahead; recommendations count it as now"
UNNAMED = (
    "%d interactions name neither user_id nor anonymous_id; all of them count for one visitor, this server"
)


class InteractionsResource:
    """The endpoints that upload and erase interactions."""

    def __init__(
        self,
        stores: Stores,
        clock: Clock,
        find_unknown: Callable[[str, Iterable[str]], Sequence[str]],
    ) -> None:
        self._find_unknown = find_unknown
        self._store = stores.interactions
        self._records = stores.records
        self._clock = clock
        self._storage = StorageBounds(stores.usage, clock)

    def parse_upload(
        self, request: ApiRequest
    ) -> tuple[AcceptedInteractions, BrowserWriteLimits | None, int]:
        """Validate interactions; an event without any id gets the default visitor id."""
        now_ms = self._clock.now_ms()
        check = BrowserWriteCheck(request)
        accepted = parse_upload(
            "interaction",
            request.body,
            now_ms=now_ms,
            service_id_aliases=request.credential.app.settings.service_id_aliases,
            default_anonymous_id=lambda: default_anonymous_id(request, now_ms),
            token_user_id=request.token.user_id if request.token is not None else "",
            check=check,
        )
        return accepted, check.build_limits(now_ms), check.checkouts

    async def upload(self, request: ApiRequest) -> Reply:
        """Append the interactions; the next recommendation uses them.

        Errors:
            TooMany: a browser sends more than it may
            Forbidden: the app reached its bound on storage
        """
        credential = request.credential
        if not self._storage.has_valid_check(credential.app, request.started_s):
            await self._storage.check(credential.app)
        accepted: AcceptedInteractions
        accepted, limits, checkouts = request.parsed
        if checkouts:
            most = credential.app.settings.checkouts_per_address
            # Before anything is written: an upload is refused as a whole.
            request.gate.limits.spend_daily(credential, "checkout", request.ip, checkouts, most)
        warnings = [_warning(at, "timestamp", AHEAD) for at in accepted.ahead[:MOST_WARNINGS]]
        # A browser without an id is one visitor, but all users of a server would be one, too.
        if accepted.unnamed and credential.is_secret:
            warnings.append(_warning(None, "user_id", UNNAMED % accepted.unnamed))
        if is_dry_run(request):
            warnings += await self._missing(request, accepted)
            return mark_dry_run(_upload_reply(request, accepted, warnings))
        if 0 < accepted.count <= MOST_CHECKED:
            # engines of this process know the products, so the store is not read
            unknown = self._find_unknown(credential.app.app_id, accepted.product_ids)
            if unknown:
                warnings += _unknown_warnings(accepted, unknown)
        if accepted.count:
            links = [(user_id, visitor_id, b"") for user_id, visitor_id in accepted.links]
            await self._store.append(
                credential.app.app_id, accepted.payload, [*accepted.recents, *links], limits
            )
        return _upload_reply(request, accepted, warnings)

    async def _missing(self, request: ApiRequest, accepted: AcceptedInteractions) -> list[dict[str, Any]]:
        """Return warnings on interactions with missing products; for dry runs only, because it reads the store."""
        product_ids = list(accepted.product_ids)[:MOST_LOOKED_UP]
        records = await self._records.get_many(request.app_id, "product", product_ids)
        lost = [product_id for product_id, record in zip(product_ids, records, strict=True) if record is None]
        return _unknown_warnings(accepted, lost)

    def parse_erase(self, request: ApiRequest) -> list[str]:
        """Validate the ids whose interactions to erase; the alias wraps the ids in `data`."""
        return parse_interaction_delete(request.body)

    async def erase(self, request: ApiRequest) -> Reply:
        """Erase all interactions of these users and of visitors linked to them, at once."""
        user_ids: list[str] = request.parsed
        if user_ids:
            await self._store.erase(request.app_id, user_ids)
        return message_reply(messages.SUCCESS)


def _unknown_warnings(accepted: AcceptedInteractions, product_ids: Sequence[str]) -> list[dict[str, Any]]:
    return [
        _warning(
            accepted.product_ids[product_id], "product_ids", f"no product has the id {product_id[:_SHOWN]}"
        )
        for product_id in product_ids
    ]


def _warning(index: int | None, field: str, message: str) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {**place, "field": field, "message": message}


def _upload_reply(
    request: ApiRequest, accepted: AcceptedInteractions, warnings: list[dict[str, Any]]
) -> Reply:
    """Return the reply to an upload; the specification fixes the body of a successful one."""
    content = {"message": messages.SUCCESS, "warnings": warnings[:MOST_WARNINGS]} if warnings else None
    reply = message_reply(messages.SUCCESS) if content is None else plain_reply(content)
    if accepted.unnamed and request.credential.is_secret:
        return replace(reply, headers=((b"x-kiosk-warning", (UNNAMED % accepted.unnamed).encode()),))
    return reply
