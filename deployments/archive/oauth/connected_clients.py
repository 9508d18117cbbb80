"""The page on which users see and revoke the clients that they allowed."""

from __future__ import annotations

from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.clock import iso_ms
from cluster.records.account import Account
from deployments.archive.oauth.addresses import CLIENTS_PATH, archive_of
from deployments.archive.oauth.client_identity.clients import document_host
from deployments.archive.oauth.forms import read_form
from deployments.archive.oauth.pages import OAuthPages, redirect
from deployments.archive.oauth.services import OAuthServices
from deployments.archive.oauth.signin import SignInPage
from deployments.sign_in.password_checks import is_same_origin_form

_log = structlog.get_logger()


class ConnectedClientsPage:
    """Lists the grants of a user."""

    def __init__(self, services: OAuthServices, pages: OAuthPages, sign_in: SignInPage) -> None:
        self._services = services
        self._pages = pages
        self._sign_in = sign_in

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "page", self._services.limits.pages)
        if request.method == "POST":
            return await self._change(request)
        account = await self._sign_in.account(request)
        if account is None:
            return self._sign_in.show(request, {"user_id": ""}, goal=CLIENTS_PATH, action=CLIENTS_PATH)
        return await self._list(request, account)

    async def _list(self, request: Request, account: Account) -> Response:
        user_grants = await self._services.grants.of_user(account.user_id)
        shown: list[dict[str, Any]] = [
            {
                "grant_id": active.grant.grant_id,
                "name": active.grant.client_name,
                "host": document_host(active.grant.client_id),
                "target": active.grant.target,
                "archive": self._archive_title(archive_of(active.grant.resource)),
                "since": iso_ms(active.grant.created_at)[:10],
                "used": iso_ms(active.used_at)[:16].replace("T", " "),
            }
            for active in user_grants
        ]
        return self._sign_in.show_bound(
            request,
            "clients",
            {"user_id": account.user_id},
            action=CLIENTS_PATH,
            username=account.username,
            clients=shown,
        )

    def _archive_title(self, archive_id: str) -> str:
        """Return the title of a named archive; its id after it was closed, and nothing for the default one."""
        return (self._services.find_title(archive_id) or archive_id) if archive_id else ""

    async def _change(self, request: Request) -> Response:
        form = await read_form(request, self._services.limits.body_s)
        values, in_time = self._sign_in.read_form(request, form)
        # The consent page has forms under the same key; those have one of these values.
        if (
            values is None
            or {"asked", "goal"} & values.keys()
            or not is_same_origin_form(request, self._services.origin(request))
        ):
            return self._pages.show_error(
                "This form can’t be used", "It was not shown in this browser, or cookies are blocked.", 403
            )
        decision = form.once("decision")
        if not in_time:
            return redirect(CLIENTS_PATH)
        if decision == "sign-in":
            return await self._sign_in.attempt(request, form, values, goal=CLIENTS_PATH, action=CLIENTS_PATH)
        response = redirect(CLIENTS_PATH)
        account = await self._sign_in.account(request)
        # Somebody else may have signed in in this browser since the page was shown.
        if account is not None and account.user_id == values["user_id"]:
            if decision == "switch":
                await self._sign_in.sign_out(request, response)
            elif decision == "end":
                await self._end(account, form.once("grant") or "")
        return response

    async def _end(self, account: Account, grant_id: str) -> None:
        grant = await self._services.grants.grant(grant_id)
        # The id comes from the form and may be that of another person's grant.
        if grant is not None and grant.user_id == account.user_id:
            await self._services.grants.revoke(grant_id, now_ms=self._services.clock.now_ms())
            _log.info("grant_ended", grant=grant_id, by="person")
