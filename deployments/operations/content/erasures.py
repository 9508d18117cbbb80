"""Use cases on everything that is known of a user or a visitor: erase it, export it, read receipts of erasures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import Field

from actors.intake.client import Erasures
from actors.intake.personal_data import PersonalDataReader
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid
from cluster.ids import new_request_id
from cluster.records.erasure import Erasure
from deployments.operations.content.users import OfUser
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.services import AdminServices

_WAYS = {"command line": "command", "console": "console"}
ENDED_TOKENS = "ended tokens"
"The place of an export that an erasure leaves, or else tokens of the erased person would be valid again."


class EraseUser(OfUser):
    """Whom to erase."""

    later: bool = Field(
        False, description="The append-only file of Redis is rewritten within the hour, not now."
    )


class OfErasure(OfApp):
    """One receipt."""

    erasure_id: str = Field(min_length=1, max_length=100)


@operation(
    "users.erase", "POST", "/apps/{app_id}/erasures", "owner", secret_fields={"anonymous_id", "user_id"}
)
async def erase_user(services: AdminServices, given: EraseUser) -> Erasure:
    """Erase a user or a visitor everywhere.

    The receipt tells what was where and what is left until when.

    Errors:
        NotFound: there is no such app
        Invalid: not exactly one of both ids is given
        Conflict: the visitor is linked to a user
    """
    await require_app(services.stores, given.app_id)
    try:
        return await Erasures(services.stores, services.clock).order(
            given.app_id,
            user_id=given.user_id,
            anonymous_id=given.anonymous_id,
            request_id=new_request_id(),
            by=_WAYS.get(services.principal.way, "api"),
            later=given.later,
        )
    except Conflict as error:
        # The message names the user that a visitor is linked to; the audit log must not.
        raise Conflict(error.message, audit_reason="this visitor is linked to a user") from None


@operation("users.erasure", "GET", "/apps/{app_id}/erasures/{erasure_id}", "analyst")
async def get_erasure(services: AdminServices, given: OfErasure) -> Erasure:
    """Show the receipt of an erasure."""
    await require_app(services.stores, given.app_id)
    return await Erasures(services.stores, services.clock).receipt(given.app_id, given.erasure_id)


@operation("users.erasures", "GET", "/apps/{app_id}/erasures", "analyst")
async def list_erasures(services: AdminServices, given: OfApp) -> list[Erasure]:
    """List the newest receipts of erasures.

    They name nobody.
    """
    await require_app(services.stores, given.app_id)
    return await Erasures(services.stores, services.clock).receipts(given.app_id)


@dataclass(frozen=True, slots=True)
class UserExport:
    """Everything that is known of a person: what the export is about, then one row for each thing."""

    about: dict[str, Any]
    rows: tuple[dict[str, Any], ...]

    def to_lines(self) -> bytes:
        """Return the export as JSON Lines."""
        return b"".join(orjson.dumps(row) + b"\n" for row in (self.about, *self.rows))


@operation(
    "users.export",
    "GET",
    "/apps/{app_id}/users/one/export",
    "owner",
    secret_fields={"anonymous_id", "user_id"},
    recorded=True,
)
async def export_user(services: AdminServices, given: OfUser) -> UserExport:
    """Export everything that is known of a user or a visitor.

    The places are those of receipts of erasures, and `ended tokens`: until when issued tokens of the user have ended.

    Errors:
        Invalid: not exactly one of both ids is given
    """
    if bool(given.user_id) == bool(given.anonymous_id):
        raise Invalid("name either a user (--user) or a visitor (--anonymous)")
    await require_app(services.stores, given.app_id)
    person = await services.stores.erasures.person(given.app_id, given.user_id, given.anonymous_id)
    files = None if services.config.data_dir is None else LocalPersonFiles(services.config.data_dir)
    items_of_places = await PersonalDataReader(services.stores, services.artifacts, files).read(person)
    items_of_places[ENDED_TOKENS] = await _list_token_ends(services, given)
    about = {
        "app_id": given.app_id,
        "user_id": given.user_id,
        "anonymous_ids": list(person.anonymous_ids),
        "exported_at": iso_ms(services.now_ms()),
        "places": {place: len(items) for place, items in items_of_places.items()},
    }
    rows = ({"place": place, "item": item} for place, items in items_of_places.items() for item in items)
    return UserExport(about, tuple(rows))


async def _list_token_ends(services: AdminServices, given: OfUser) -> list[dict[str, str]]:
    """Return until when tokens of a user have ended, as `users.end_tokens` does; a visitor has none."""
    if not given.user_id:
        return []
    until_ms = await services.stores.access.read_token_end(given.app_id, given.user_id)
    return [] if until_ms is None else [{"issued_until": iso_ms(until_ms)}]
