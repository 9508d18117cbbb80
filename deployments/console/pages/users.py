"""The users of an app: find, explain, erase, export."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.renderer import file_response
from deployments.console.request import ConsoleRequest, path_of

USERS = "/apps/{app_id}/readers"
USER = USERS + "/one"
ROWS = 25
_ACCOUNT = ("name", "profile_image", "description", "created_at", "updated_at")


async def show_users(request: ConsoleRequest) -> Response:
    """List users by the beginning of their ids."""
    prefix = request.query.get("prefix", "")
    after = request.query.get("after", "")
    chosen = {
        "prefix": prefix,
        **{name: request.query.get(name, "").strip() for name in ("contains", "text")},
    }
    exact = bool(request.query.get("exact"))
    page = await request.perform("users.search", **chosen, exact=exact, after=after, limit=ROWS)
    chosen |= {"exact": "on"} if exact else {}
    address = path_of(USERS, app_id=request.app_id)
    older = f"{address}?{urlencode({**chosen, 'after': page['next']})}" if page["next"] else ""
    return request.page(
        "users/readers.html",
        users=page["users"],
        total=page["total"],
        active=page["active"],
        older=older,
        newer=f"{address}?{urlencode(chosen)}" if after else "",
        address=address,
    )


async def show_user(request: ConsoleRequest) -> Response:
    """Show what is known of one person."""
    who = _who(request.query)
    person = await request.perform("users.get", **who)
    address = path_of(USER, app_id=request.app_id)
    account = {name: (person["record"] or {}).get(name) for name in _ACCOUNT}
    return request.page(
        "users/reader.html",
        reader=person,
        account=account,
        who=who,
        name=next(iter(who.values()), ""),
        parts=urlencode(who),
        address=address,
        record=json.dumps(person["record"], ensure_ascii=False, indent=2),
    )


async def show_recommendations(request: ConsoleRequest) -> Response:
    """Show what a person would get next, with reasons."""
    answer = await request.perform("users.recommend", **_who(request.query), limit=10)
    return request.fragment("users/recommendations.html", answer=answer)


async def show_absence(request: ConsoleRequest) -> Response:
    """Show why a person does not get a product."""
    answer = await request.perform(
        "users.explain", **_who(request.query), product_id=request.query.get("product_id", "").strip()
    )
    return request.fragment("users/absence.html", answer=answer)


async def erase_user(request: ConsoleRequest) -> Response:
    """Order the erasure of a person."""
    erasure = await request.perform("users.erase", **_who(request.form))
    return request.redirect(USERS + "/erasures/{erasure_id}", "users.erasing", erasure_id=erasure.erasure_id)


async def end_tokens(request: ConsoleRequest) -> Response:
    """End the tokens that the app's server signed for a user."""
    who = _who(request.form)
    await request.perform("users.end_tokens", user_id=who.get("user_id", ""))
    return request.redirect(f"{USER}?{urlencode(who)}", "users.tokens_ended")


async def export_user(request: ConsoleRequest) -> Response:
    """Send everything that is known of a person as a file."""
    export = await request.perform("users.export", **_who(request.query))
    return file_response(export.to_lines(), "export.jsonl", "application/x-ndjson")


async def show_erasures(request: ConsoleRequest) -> Response:
    """List the newest receipts of erasures."""
    erasures = await request.perform("users.erasures")
    return request.page("users/erasures.html", erasures=[erasure.to_dict() for erasure in erasures])


async def show_erasure(request: ConsoleRequest) -> Response:
    """Show one receipt; it is read again until the erasure is done."""
    erasure = await request.perform("users.erasure", erasure_id=request.path["erasure_id"])
    values: dict[str, Any] = {"erasure": erasure.to_dict(), "address": request.raw.url.path}
    if request.is_htmx:
        return request.fragment("users/receipt.html", **values)
    return request.page("users/erasure.html", **values)


def _who(given: dict[str, str]) -> dict[str, str]:
    user_id = given.get("user_id", "").strip()
    anonymous_id = given.get("anonymous_id", "").strip()
    who = {"user_id": user_id, "anonymous_id": anonymous_id}
    return {name: value for name, value in who.items() if value}


PAGES = (
    Page(USERS, show_users, role="analyst"),
    Page(USER, show_user, role="analyst", example="-"),
    Page(USER + "/recommendations", show_recommendations, role="analyst", example="-"),
    Page(USER + "/absence", show_absence, role="analyst", example="-"),
    Page(USER + "/export", export_user, role="owner", example="-"),
    FormPage(USER + "/erase", erase_user, role="owner", shown_on=USERS),
    FormPage(USER + "/end-tokens", end_tokens, role="editor", shown_on=USERS),
    Page(USERS + "/erasures", show_erasures, role="analyst"),
    Page(USERS + "/erasures/{erasure_id}", show_erasure, role="analyst", example="-"),
)
NAVIGATION = (NavigationEntry("users.nav", USERS, role="analyst", icon="people"),)
