"""Authentication of the client at the token and revocation endpoints.

Source: RFC 6749, sections 2.3.1 and 5.2.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_plus

from starlette.requests import Request

from cluster.records.account import Code, Grant
from deployments.archive.oauth.addresses import TOKEN_PATH, issuer_of
from deployments.archive.oauth.client_identity.assertions import (
    ASSERTION_TYPE,
    read_subject,
    verify_assertion,
)
from deployments.archive.oauth.client_identity.clients import OAuthClient, is_secret_of
from deployments.archive.oauth.forms import Parameters
from deployments.archive.oauth.replies import OAuthError
from deployments.archive.oauth.services import OAuthServices
from deployments.edge.access.signing import sha256

CHALLENGE = {"www-authenticate": 'Basic realm="archive"'}


async def authenticate_client(
    request: Request, form: Parameters, services: OAuthServices, purpose: str
) -> OAuthClient:
    """Authenticate the client of a request and return it.

    `purpose` is the grant type, or `revocation`: it names the parameter with the code or token of the request.

    Errors:
        OAuthError: `invalid_client`: the request names no client, an unregistered client, or lacks the client's secret
    """
    client_id = form.once("client_id")
    secret = form.once("client_secret")
    basic = _basic(request)
    if basic is not None:
        # A request may use one method of authentication (RFC 6749, 2.3).
        if client_id not in (None, basic[0]):
            raise _unknown("the body names another client than the header")
        client_id, secret = basic
    assertion = form.once("client_assertion") or ""
    # `client_id` is optional beside an assertion, whose subject names the client (RFC 7521, 4.2).
    if client_id is None and assertion and services.documents.is_on:
        client_id = read_subject(assertion)
    if client_id and services.documents.is_document(client_id):
        bound = await _find_bound(form, services, purpose)
        if bound is not None and bound.client_id == client_id and bound.client_keys:
            await _check_assertion(request, form, services, bound)
        # Without its code or token a request of this client is refused later, whoever sent it.
        return OAuthClient(client_id, "", "none", frozenset())
    client = await services.clients.find(client_id) if client_id else None
    if client is None:
        raise _unknown("this client is not registered; register it again")
    if client.method != "none" and not is_secret_of(services.signing, client, secret or ""):
        raise _unknown("the client's secret is missing or wrong")
    return client


async def _find_bound(form: Parameters, services: OAuthServices, purpose: str) -> Code | Grant | None:
    """Return what the code or token of a request is bound to; it holds the keys of a client that signs."""
    if purpose == "authorization_code":
        text = form.get("code")
        return await services.grants.code(sha256(text)) if text else None
    token = form.get("refresh_token" if purpose == "refresh_token" else "token") or ""
    grant_id = services.signing.grant_of_refresh(token)
    if purpose == "revocation":
        grant_id = grant_id or services.access_tokens.grant_of(token)
    return await services.grants.grant(grant_id) if grant_id else None


async def _check_assertion(
    request: Request, form: Parameters, services: OAuthServices, bound: Code | Grant
) -> None:
    """Check that the client of a code or grant signed this request, with an assertion that was not used before."""
    if form.once("client_assertion_type") != ASSERTION_TYPE:
        raise _unknown(f"client_assertion_type is {ASSERTION_TYPE}")
    origin = services.origin(request)
    now_ms = services.clock.now_ms()
    # RFC 7523, 3 suggests the token endpoint, and newer clients name the issuer.
    audiences = (issuer_of(origin), origin + TOKEN_PATH)
    text = form.once("client_assertion") or ""
    assertion = verify_assertion(text, bound.client_id, bound.client_keys, audiences, now_ms / 1000)
    # With the client, because a `jti` need only be unique among the assertions of one client.
    digest = sha256(f"{bound.client_id} {assertion.jti}")
    if not await services.grants.take_assertion(digest, life_ms=assertion.life_s * 1000):
        raise _unknown("the assertion was used before; sign a new one with another jti")


def is_basic(request: Request) -> bool:
    """Return whether the client authenticates by a header."""
    # The name of a scheme has no fixed case (RFC 9110, 11.1).
    return request.headers.get("authorization", "")[:6].lower() == "basic "


def _basic(request: Request) -> tuple[str, str] | None:
    if not is_basic(request):
        return None
    try:
        # `validate`, because Python otherwise skips foreign characters.
        text = base64.b64decode(request.headers["authorization"][6:].strip(), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise _unknown("the Authorization header can't be read") from error
    name, _, secret = text.partition(":")
    # Both parts are form-encoded before base64 (RFC 6749, 2.3.1). Ours need no escapes, as some clients leave
    # them out.
    return unquote_plus(name), unquote_plus(secret)


def _unknown(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, 401)
