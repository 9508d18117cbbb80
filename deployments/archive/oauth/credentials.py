"""Authentication of the client at the token and revocation endpoints.

Source: RFC 6749, sections 2.3.1 and 5.2.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import unquote_plus

from starlette.requests import Request

from deployments.archive.oauth.clients import OAuthClient, is_secret_of
from deployments.archive.oauth.forms import Parameters
from deployments.archive.oauth.replies import OAuthError
from deployments.archive.oauth.services import OAuthServices

CHALLENGE = {"www-authenticate": 'Basic realm="archive"'}


async def authenticate_client(request: Request, form: Parameters, services: OAuthServices) -> OAuthClient:
    """Authenticate the client of a request and return it.

    Errors:
        OAuthError: `invalid_client`: the request names no client, an unregistered client, or lacks the client's secret
        Unavailable: the store is unavailable
    """
    client_id, secret = form.once("client_id"), form.once("client_secret")
    basic = _basic(request)
    if basic is not None:
        if client_id not in (None, basic[0]):
            raise _unknown("the body names another client than the header")
        client_id, secret = basic
    if client_id and services.documents.is_document(client_id):
        # Nothing is fetched here: the code or token holds the id of the client that a person allowed.
        return OAuthClient(client_id, "", "none", frozenset())
    client = await services.clients.find(client_id) if client_id else None
    if client is None:
        raise _unknown("this client is not registered; register it again")
    if client.method != "none" and not is_secret_of(services.signing, client, secret or ""):
        raise _unknown("the client's secret is missing or wrong")
    return client


def is_basic(request: Request) -> bool:
    """Return whether the client authenticates by a header."""
    return request.headers.get("authorization", "")[:6].lower() == "basic "


def _basic(request: Request) -> tuple[str, str] | None:
    if not is_basic(request):
        return None
    try:
        text = base64.b64decode(request.headers["authorization"][6:].strip(), validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise _unknown("the Authorization header can't be read") from error
    name, _, secret = text.partition(":")
    return unquote_plus(name), unquote_plus(secret)


def _unknown(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, 401)
