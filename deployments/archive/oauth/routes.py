"""All paths of OAuth, with every address at which known clients look for metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.errors import KioskError, TooMany
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
    mcp_path,
)
from deployments.archive.oauth.authorization import AuthorizationPage, render_error_page
from deployments.archive.oauth.client_authentication import CHALLENGE, is_basic
from deployments.archive.oauth.client_identity.registration import RegistrationEndpoint
from deployments.archive.oauth.client_identity.registration_management import RegistrationManagement
from deployments.archive.oauth.connected_clients import ConnectedClientsPage
from deployments.archive.oauth.metadata import MetadataEndpoint
from deployments.archive.oauth.pages import OAuthPages
from deployments.archive.oauth.replies import OAuthError, is_preflight, preflight, render_error, wrong_method
from deployments.archive.oauth.services import OAuthServices
from deployments.archive.oauth.signin import SignInPage
from deployments.archive.oauth.token import RevocationEndpoint, TokenEndpoint
from deployments.edge.http.request_log import ClientDisconnected, ResponseEndpoint

Answering = Callable[[Request], Awaitable[Response]]
READ = ("GET", "HEAD")
WRITE = ("POST",)
MANAGE = ("GET", "PUT", "DELETE")

NEEDS_HTTPS = (
    "A password would travel in the clear here. Whoever runs this archive sets KIOSK_PUBLIC_URL to its https address, "
    "behind a proxy that speaks TLS; or KIOSK_PLAIN_SIGN_IN=true where the network is safe by other means."
)

_log = structlog.get_logger()


def build_oauth_routes(services: OAuthServices) -> list[BaseRoute]:
    """Return the routes; they answer every method themselves.

    `openid-configuration` is missing on purpose: clients that find it also require the rest of OpenID.
    """
    pages = OAuthPages(services.title)
    sign_in = SignInPage(services, pages)
    resource = MetadataEndpoint(services, "resource")
    server = MetadataEndpoint(services, "server")
    programs: list[tuple[str, Answering, tuple[str, ...]]] = [
        (RESOURCE_METADATA_PATH + MCP_PATH, resource, READ),
        (RESOURCE_METADATA_PATH + MCP_PATH + "/", resource, READ),
        (RESOURCE_METADATA_PATH + mcp_path("{archive}"), resource, READ),
        # Some clients strip the path of the resource.
        (RESOURCE_METADATA_PATH, resource, READ),
        (SERVER_METADATA_PATH + ISSUER_PATH, server, READ),
        # Clients of MCP 2025-03-26 look at the root only.
        (SERVER_METADATA_PATH, server, READ),
        (REGISTER_PATH, RegistrationEndpoint(services), WRITE),
        (REGISTER_PATH + "/{client_id}", RegistrationManagement(services), MANAGE),
        (TOKEN_PATH, TokenEndpoint(services), WRITE),
        (REVOKE_PATH, RevocationEndpoint(services), WRITE),
    ]
    people: list[tuple[str, Answering]] = [
        (AUTHORIZE_PATH, AuthorizationPage(services, pages, sign_in)),
        (CLIENTS_PATH, ConnectedClientsPage(services, pages, sign_in)),
    ]
    return [
        *(
            Route(path, endpoint=ResponseEndpoint(_JsonEndpoint(answering, methods).answer))
            for path, answering, methods in programs
        ),
        *(
            Route(path, endpoint=ResponseEndpoint(_PageEndpoint(answering, pages, services).answer))
            for path, answering in people
        ),
    ]


class _JsonEndpoint:
    """An endpoint whose errors are JSON, for every origin."""

    def __init__(self, answering: Answering, methods: tuple[str, ...]) -> None:
        self._answering = answering
        self._methods = methods

    async def answer(self, request: Request) -> Response:
        """Answer the request; every exception becomes a reply."""
        if is_preflight(request.method, request.headers):
            return preflight(", ".join(self._methods))
        if request.method not in self._methods:
            return wrong_method(", ".join(self._methods))
        try:
            return await self._answering(request)
        except OAuthError as refused:
            _log.debug("oauth_refused", error=refused.error, status=refused.status)
            # RFC 6749, 5.2 demands the challenge only where the client used the header.
            unproven = refused.status == 401 and is_basic(request)
            return render_error(refused, CHALLENGE if unproven else None)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            return render_error(_oauth_error_from(error))


class _PageEndpoint:
    """An endpoint whose errors are pages."""

    def __init__(self, answering: Answering, pages: OAuthPages, services: OAuthServices) -> None:
        self._answering = answering
        self._pages = pages
        self._services = services

    async def answer(self, request: Request) -> Response:
        """Answer the request; every exception becomes a page."""
        if request.method not in (*READ, *WRITE):
            response = self._pages.show_error(
                "This request can’t be answered", "There is only a page here.", 405
            )
            response.headers["allow"] = "GET, HEAD, POST"
            return response
        if not self._services.addresses.may_sign_in(request.headers.get("host", "")):
            return self._pages.show_error("Sign-in needs https", NEEDS_HTTPS, 403)
        try:
            return await self._answering(request)
        except OAuthError as refused:
            return render_error_page(self._pages, refused)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the edge's last layer: everything becomes a reply
            return render_error_page(self._pages, _oauth_error_from(error))


def _oauth_error_from(error: Exception) -> OAuthError:
    if isinstance(error, KioskError) and error.code == "unavailable":
        wait_s = int(error.facts.get("retry_after_s", 1))
        return OAuthError(
            "temporarily_unavailable", "the service is busy; try again in a moment", 503, wait_s
        )
    if isinstance(error, TooMany):
        wait_s = int(error.facts.get("retry_after_s", 1))
        return OAuthError("temporarily_unavailable", error.message, 429, wait_s)
    _log.error("oauth_failed", exc_info=error)
    return OAuthError("server_error", "something went wrong", 500)
