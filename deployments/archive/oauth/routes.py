"""All paths of OAuth, including every address real clients probe for metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.errors import HouseError, TooMany
from deployments.archive.oauth.addresses import (
    AUTHORIZE_PATH,
    CLIENTS_PATH,
    ISSUER_PATH,
    MCP_PATH,
    REGISTER_PATH,
    RESOURCE_METADATA_PATH,
    REVOKE_PATH,
    SERVER_METADATA_PATH,
    TOKEN_PATH,
)
from deployments.archive.oauth.authorization import Authorize, as_page
from deployments.archive.oauth.connected_clients import Connected
from deployments.archive.oauth.credentials import CHALLENGE, uses_basic
from deployments.archive.oauth.metadata import Metadata
from deployments.archive.oauth.pages import Pages
from deployments.archive.oauth.registration import Register
from deployments.archive.oauth.registration_management import Manage
from deployments.archive.oauth.replies import Refused, is_preflight, preflight, refusal, wrong_method
from deployments.archive.oauth.revocation import Revoke
from deployments.archive.oauth.services import OAuthMeans
from deployments.archive.oauth.sessions import Sessions
from deployments.archive.oauth.signin import SignIn
from deployments.archive.oauth.token import Token
from deployments.edge.body import Gone

Answering = Callable[[Request], Awaitable[Response]]
READ = ("GET", "HEAD")
WRITE = ("POST",)
MANAGE = ("GET", "PUT", "DELETE")

NEEDS_HTTPS = (
    "A password would travel in the clear here. Whoever runs this archive sets KIOSK_PUBLIC_URL to its https address, "
    "behind a proxy that speaks TLS; or KIOSK_PLAIN_SIGN_IN=true where the network is safe by other means."
)

_log = structlog.get_logger()


def oauth_routes(means: OAuthMeans) -> list[BaseRoute]:
    """Make the routes; they answer every method themselves.

    `openid-configuration` is missing on purpose: where it is found clients insist on the rest of OpenID.
    """
    pages = Pages(means.title)
    sessions = Sessions(means.accounts, means.signing, means.clock)
    sign_in = SignIn(means, pages, sessions)
    resource, server = Metadata(means, "resource"), Metadata(means, "server")
    programs: list[tuple[str, Answering, tuple[str, ...]]] = [
        (RESOURCE_METADATA_PATH + MCP_PATH, resource, READ),
        (RESOURCE_METADATA_PATH + MCP_PATH + "/", resource, READ),
        (RESOURCE_METADATA_PATH, resource, READ),
        (SERVER_METADATA_PATH + ISSUER_PATH, server, READ),
        (SERVER_METADATA_PATH, server, READ),
        (REGISTER_PATH, Register(means), WRITE),
        (REGISTER_PATH + "/{client_id}", Manage(means), MANAGE),
        (TOKEN_PATH, Token(means), WRITE),
        (REVOKE_PATH, Revoke(means), WRITE),
    ]
    people: list[tuple[str, Answering]] = [
        (AUTHORIZE_PATH, Authorize(means, pages, sessions, sign_in)),
        (CLIENTS_PATH, Connected(means, pages, sessions, sign_in)),
    ]
    return [
        *(Route(path, endpoint=_ForPrograms(answering, methods)) for path, answering, methods in programs),
        *(Route(path, endpoint=_ForPeople(answering, pages, means)) for path, answering in people),
    ]


class _Endpoint:
    """An object, so that the framework calls it as an ASGI application and leaves methods to it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        try:
            response = await self.answer(request)
        except Gone:
            return
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        raise NotImplementedError


class _ForPrograms(_Endpoint):
    """Errors as JSON, open to every origin."""

    def __init__(self, answering: Answering, methods: tuple[str, ...]) -> None:
        self._answering = answering
        self._methods = methods

    async def answer(self, request: Request) -> Response:
        """Answer, whatever happens."""
        if is_preflight(request.method, request.headers):
            return preflight(", ".join(self._methods))
        if request.method not in self._methods:
            return wrong_method(", ".join(self._methods))
        try:
            return await self._answering(request)
        except Refused as refused:
            _log.debug("oauth_refused", error=refused.error, status=refused.status)
            unproven = refused.status == 401 and uses_basic(request)
            return refusal(refused, CHALLENGE if unproven else None)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            return refusal(_told(error))


class _ForPeople(_Endpoint):
    """Errors as pages."""

    def __init__(self, answering: Answering, pages: Pages, means: OAuthMeans) -> None:
        self._answering = answering
        self._pages = pages
        self._means = means

    async def answer(self, request: Request) -> Response:
        """Answer, whatever happens."""
        if request.method not in (*READ, *WRITE):
            response = self._pages.stop("This request can’t be answered", "There is only a page here.", 405)
            response.headers["allow"] = "GET, HEAD, POST"
            return response
        if not self._means.addresses.may_sign_in(request.headers.get("host", "")):
            return self._pages.stop("Sign-in needs https", NEEDS_HTTPS, 403)
        try:
            return await self._answering(request)
        except Refused as refused:
            return as_page(self._pages, refused)
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            return as_page(self._pages, _told(error))


def _told(error: Exception) -> Refused:
    if isinstance(error, HouseError) and error.code == "unavailable":
        wait_s = int(error.facts.get("retry_after_s", 1))
        return Refused("temporarily_unavailable", "the service is busy; try again in a moment", 503, wait_s)
    if isinstance(error, TooMany):
        wait_s = int(error.facts.get("retry_after_s", 1))
        return Refused("temporarily_unavailable", error.message, 429, wait_s)
    _log.error("oauth_failed", exc_info=error)
    return Refused("server_error", "something went wrong", 500)
