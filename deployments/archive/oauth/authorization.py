"""The page on which a user allows or denies a client the use of the archive.

    GET                        without a session: sign-in form; else: client, its rights, Allow, Deny
    POST decision=sign-in      right: back to GET;  wrong: the form again
    POST decision=allow        a code, to the client's address
    POST decision=deny         access_denied, to the client's address
    POST decision=switch       signed out, back to GET

GET changes nothing. Every form contains the signed authorization request, with an expiry, bound to the browser and to
the user. So the user allows exactly the request that the page showed.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.addresses.ssrf_guard import find_host
from cluster.records.account import Account, Code, new_grant_id
from deployments.archive.oauth.addresses import AUTHORIZE_PATH, CLIENTS_PATH
from deployments.archive.oauth.authorization_request import (
    AuthorizationDeclined,
    AuthorizationRequest,
    InvalidClientRequest,
    read_authorization_request,
)
from deployments.archive.oauth.client_identity.clients import OAuthClient, short_id
from deployments.archive.oauth.client_identity.document_clients import InvalidDocument
from deployments.archive.oauth.forms import Parameters, read_form, read_query
from deployments.archive.oauth.pages import OAuthPages, redirect
from deployments.archive.oauth.redirects import describe_target, is_loopback_target
from deployments.archive.oauth.replies import OAuthError
from deployments.archive.oauth.services import CODE_LIFE_S, OAuthServices
from deployments.archive.oauth.signin import ConnectingClient, SignInPage
from deployments.edge.access.signing import sha256
from deployments.sign_in.password_checks import is_same_origin_form
from deployments.sign_in.sessions import Session

CANT_ANSWER = "This request can’t be answered"
NOT_OPEN = "This archive is not open to you"
NOT_A_MEMBER = "The account {username} has no access to this archive. Ask its publisher."
LONGEST_GOAL = 8_000
"Maximum characters of a request that waits in a form until its person is signed in."

_log = structlog.get_logger()


class _SignInNeeded(Exception):
    """Only a signed-in person lets the server fetch the document of this client."""


class AuthorizationPage:
    """Asks the user for consent."""

    def __init__(self, services: OAuthServices, pages: OAuthPages, sign_in: SignInPage) -> None:
        self._services = services
        self._pages = pages
        self._sign_in = sign_in

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "page", self._services.limits.pages)
        if request.method == "POST":
            return await self._decide(request)
        parameters = read_query(request)
        origin = self._services.origin(request)
        try:
            authorization, client = await read_authorization_request(
                parameters,
                partial(self._find_client, request),
                origin,
                lambda archive_id: self._services.find_title(archive_id) is not None,
            )
        # Never a redirect: with an address that nobody registered it would be an open one (RFC 6749,
        # 4.1.2.1).
        except (InvalidClientRequest, InvalidDocument) as fault:
            return self._pages.show_error(CANT_ANSWER, fault.reason)
        except AuthorizationDeclined as declined:
            return await self._redirect_error(request, declined)
        except _SignInNeeded:
            return self._sign_in_first(request, parameters)
        account = await self._sign_in.account(request)
        if account is None:
            values = _form_values(authorization, client, None)
            connecting = self._connecting(client, authorization)
            goal = authorization.authorization_url()
            return self._sign_in.show(request, values, goal=goal, action=AUTHORIZE_PATH, client=connecting)
        return self._consent(request, authorization, client, account)

    async def _redirect_error(self, request: Request, declined: AuthorizationDeclined) -> Response:
        """Redirect an error to the client's address; ask for a click if the redirect could mislead the user.

        Any client can register a website. A redirect without a click would let an attacker misuse the trust in our
        origin. A
        loopback address leads to the user's own programs.

        Source: RFC 9700 section 4.11.2
        """
        if is_loopback_target(declined.location) or await self._sign_in.account(request) is not None:
            return redirect(declined.location, 302)
        return self._pages.show(
            "declined",
            client_name=declined.client_name,
            target=describe_target(declined.location),
            location=declined.location,
            reason=declined.reason,
        )

    def _consent(
        self, request: Request, authorization: AuthorizationRequest, client: OAuthClient, account: Account
    ) -> Response:
        if not self._services.may_use(authorization.archive_id, account):
            return self._pages.show_error(NOT_OPEN, NOT_A_MEMBER.format(username=account.username), 403)
        return self._sign_in.show_bound(
            request,
            "consent",
            _form_values(authorization, client, account),
            action=AUTHORIZE_PATH,
            username=account.username,
            clients_path=CLIENTS_PATH,
            **asdict(self._connecting(client, authorization)),
        )

    def _connecting(self, client: OAuthClient, authorization: AuthorizationRequest) -> ConnectingClient:
        title = self._services.find_title(authorization.archive_id) or ""
        return ConnectingClient.from_client(client, authorization.redirect_uri, title)

    async def _decide(self, request: Request) -> Response:
        form = await read_form(request, self._services.limits.body_s)
        if not is_same_origin_form(request, self._services.origin(request)):
            return self._strange()
        values, in_time = self._sign_in.read_form(request, form)
        # The list of clients has forms under the same key; those have neither of these values.
        if values is None or not {"asked", "goal"} & values.keys():
            return self._strange()
        decision = form.once("decision")
        if "goal" in values:
            return await self._decide_before_fetch(request, form, values, decision if in_time else None)
        authorization = AuthorizationRequest(**values["asked"])
        client = await self._shown_client(authorization, values)
        if client is None or not in_time or decision not in ("sign-in", "allow", "deny", "switch"):
            # Show the consent page again, with a fresh form.
            return redirect(authorization.authorization_url())
        if decision == "deny":
            return redirect(
                authorization.redirect_url(error="access_denied", error_description="the person declined")
            )
        if decision == "switch":
            response = redirect(authorization.authorization_url())
            await self._sign_in.sign_out(request, response)
            return response
        if decision == "sign-in":
            return await self._sign_in.attempt(
                request,
                form,
                values,
                goal=authorization.authorization_url(),
                action=AUTHORIZE_PATH,
                client=self._connecting(client, authorization),
            )
        session = await self._sign_in.session(request)
        if (
            session is None
            # Somebody else may have signed in since the page was shown: they have to see it themselves.
            or session.account.user_id != values["user_id"]
            or not self._services.may_use(authorization.archive_id, session.account)
        ):
            return redirect(authorization.authorization_url())
        return redirect(authorization.redirect_url(code=await self._issue(authorization, client, session)))

    async def _find_client(self, request: Request, client_id: str) -> OAuthClient | None:
        """Return a registered client, or that of a metadata document.

        Errors:
            InvalidDocument: the document can't be used
            _SignInNeeded: the document must be fetched, and nobody is signed in
        """
        documents = self._services.documents
        if not documents.is_document(client_id):
            return await self._services.clients.find(client_id)
        if client := documents.find_pinned(client_id):
            return client
        account = await self._sign_in.account(request)
        if account is None:
            raise _SignInNeeded
        return await documents.find(client_id, user_id=account.user_id, origin=self._services.origin(request))

    def _sign_in_first(self, request: Request, parameters: Parameters) -> Response:
        """Show the sign-in form. Nothing about the client is known, so nothing is sent to its redirect address."""
        goal = f"{AUTHORIZE_PATH}?{parameters.encode()}"
        if parameters.doubled or len(goal) > LONGEST_GOAL:
            return self._pages.show_error(
                CANT_ANSWER, "The application repeats a parameter, or sends too much."
            )
        host = find_host(parameters.get("client_id") or "")
        values = {"user_id": "", "goal": goal, "host": host}
        client = ConnectingClient.from_host(host)
        return self._sign_in.show(request, values, goal=goal, action=AUTHORIZE_PATH, client=client)

    async def _decide_before_fetch(
        self, request: Request, form: Parameters, values: dict[str, Any], decision: str | None
    ) -> Response:
        if decision == "deny":
            return self._pages.show_error("Nothing was connected", "You canceled the sign-in.", 200)
        if decision != "sign-in":
            # The goal is signed, and `_sign_in_first` built it from the path of this page.
            return redirect(values["goal"])
        client = ConnectingClient.from_host(values["host"])
        return await self._sign_in.attempt(
            request, form, values, goal=values["goal"], action=AUTHORIZE_PATH, client=client
        )

    async def _shown_client(
        self, authorization: AuthorizationRequest, values: dict[str, Any]
    ) -> OAuthClient | None:
        """Return the client that the page showed; that of a document is in the form, so nothing is fetched again."""
        client_id = authorization.client_id
        if not self._services.documents.is_document(client_id):
            client = await self._services.clients.find(client_id)
            # The client may have taken the address out of its registration since.
            return client if client is not None and client.allows(authorization.redirect_uri) else None
        return OAuthClient(client_id, fingerprints=frozenset(), **values["document"])

    async def _issue(self, authorization: AuthorizationRequest, client: OAuthClient, session: Session) -> str:
        account = session.account
        text = self._services.signing.random()
        now_ms = self._services.clock.now_ms()
        code = Code(
            grant_id=new_grant_id(),
            client_id=client.client_id,
            client_name=client.shown_name,
            redirect_uri=authorization.redirect_uri,
            client_keys=client.keys,
            challenge=authorization.challenge,
            resource=authorization.resource,
            user_id=account.user_id,
            username=account.username,
            sign_in=session.way,
            created_at=now_ms,
            expires_at=now_ms + CODE_LIFE_S * 1000,
        )
        # Hashed, so that a copy of the store redeems no code; a random text needs no slow hash.
        await self._services.grants.put_code(sha256(text), code)
        _log.info("client_allowed", user_id=account.user_id, client=short_id(client.client_id))
        return text

    def _strange(self) -> Response:
        return self._pages.show_error(
            "This form can’t be used",
            "It was not shown in this browser, or cookies are blocked. Go back to your application and connect again.",
            403,
        )


def _form_values(
    authorization: AuthorizationRequest, client: OAuthClient, account: Account | None
) -> dict[str, Any]:
    values = {"asked": authorization.to_dict(), "user_id": account.user_id if account else ""}
    return {**values, "document": client.form_facts()} if client.host else values


def render_error_page(pages: OAuthPages, refused: OAuthError) -> Response:
    """Return a page with an error."""
    heading = "Too many requests" if refused.status == 429 else CANT_ANSWER
    text = refused.description[:1].upper() + refused.description[1:] + "."
    return pages.show_error(heading, text, refused.status, retry_after_s=refused.retry_after_s)
