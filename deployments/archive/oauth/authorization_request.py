"""The authorization request of a client: parsing and checks.

Until the server knows that the client registered the redirect address, it renders every error as a page. After that,
it sends every error to the client's redirect address.

Source: RFC 6749 section 4.1, RFC 7636 section 4.3, RFC 8707 section 2, RFC 9207.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlencode

from deployments.archive.oauth.addresses import AUTHORIZE_PATH, archive_of, issuer_of, resource_of
from deployments.archive.oauth.client_identity.clients import OAuthClient
from deployments.archive.oauth.forms import Parameters
from deployments.archive.oauth.pkce import is_challenge
from deployments.archive.oauth.redirects import add_answer
from deployments.archive.oauth.replies import OAuthError
from deployments.archive.oauth.token import is_same_resource

LONGEST_STATE = 3000
"Largest `state` in characters; platforms without sessions put all their data into it."
_AGAIN = "Go back to it and connect again; it then registers by itself."
ONCE = (
    "response_type",
    "response_mode",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
)


class InvalidClientRequest(Exception):
    """The client or its redirect address is unknown, so only the user gets the error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AuthorizationDeclined(Exception):
    """The client requested a grant that is not allowed; the error is sent to its redirect address."""

    def __init__(self, location: str, client_name: str, reason: str) -> None:
        super().__init__("declined")
        self.location = location
        self.client_name = client_name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request."""

    client_id: str
    redirect_uri: str
    state: str | None
    challenge: str
    resource: str
    base: str

    @property
    def archive_id(self) -> str:
        """App of the named archive that the client wants to use; empty for the default one."""
        return archive_of(self.resource)

    def redirect_url(self, **answer: str) -> str:
        return _redirect_url(self.redirect_uri, self.state, self.base, answer)

    def authorization_url(self) -> str:
        """Return the address of the same request at this server."""
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.state is not None:
            query["state"] = self.state
        return f"{AUTHORIZE_PATH}?{urlencode(query, quote_via=quote, safe='', errors='surrogateescape')}"

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON, for a form."""
        return asdict(self)


async def read_authorization_request(
    parameters: Parameters,
    find_client: Callable[[str], Awaitable[OAuthClient | None]],
    origin: str,
    is_archive: Callable[[str], bool] = lambda archive_id: not archive_id,
) -> tuple[AuthorizationRequest, OAuthClient]:
    """Check an authorization request and return it; `is_archive` tells whether an archive of this name exists.

    Errors:
        InvalidClientRequest: the client is unknown, or did not register the redirect address
        AuthorizationDeclined: the request is invalid for another reason
        Unavailable: the store is unavailable
    """
    try:
        client_id = parameters.once("client_id")
        redirect_uri = parameters.once("redirect_uri")
    except OAuthError as refused:
        raise InvalidClientRequest(refused.description) from refused
    client = await find_client(client_id) if client_id else None
    if client is None:
        raise InvalidClientRequest(f"The application is not registered here. {_AGAIN}")
    if redirect_uri is None or not client.allows(redirect_uri):
        raise InvalidClientRequest(
            f"The application wants the answer at an address it did not register. {_AGAIN}"
        )
    # A repeated parameter is returned with its first value.
    state = parameters.get("state")
    try:
        return _validate(parameters, client, redirect_uri, origin, is_archive), client
    except OAuthError as refused:
        answer = {"error": refused.error, "error_description": refused.description}
        location = _redirect_url(redirect_uri, state, origin, answer)
        raise AuthorizationDeclined(location, client.shown_name, refused.description) from refused


def _validate(
    parameters: Parameters,
    client: OAuthClient,
    redirect_uri: str,
    origin: str,
    is_archive: Callable[[str], bool],
) -> AuthorizationRequest:
    values = {name: parameters.once(name) for name in ONCE}
    if len(values["state"] or "") > LONGEST_STATE:
        raise OAuthError("invalid_request", f"state is longer than {LONGEST_STATE} characters")
    if values["response_type"] is None:
        raise OAuthError("invalid_request", "response_type is missing")
    if values["response_type"] != "code":
        raise OAuthError("unsupported_response_type", "response_type is code")
    if values["response_mode"] not in (None, "query"):
        raise OAuthError("invalid_request", "response_mode is query")
    challenge = values["code_challenge"]
    if challenge is None:
        raise OAuthError("invalid_request", "code_challenge is missing")
    # Without a method the challenge is the verifier itself (`plain`, RFC 7636, 4.3).
    if values["code_challenge_method"] != "S256":
        raise OAuthError("invalid_request", "code_challenge_method is S256")
    if not is_challenge(challenge):
        raise OAuthError("invalid_request", "code_challenge is not 43 characters of base64url")
    archive_id = archive_of((values["resource"] or "").removesuffix("/"))
    resource = resource_of(origin, archive_id)
    # Older clients name no resource; their token is for the default archive.
    if values["resource"] is not None and not (
        is_same_resource(values["resource"], resource) and is_archive(archive_id)
    ):
        raise OAuthError("invalid_target", "there is no such resource here")
    return AuthorizationRequest(client.client_id, redirect_uri, values["state"], challenge, resource, origin)


def _redirect_url(redirect_uri: str, state: str | None, origin: str, answer: dict[str, str]) -> str:
    # Errors carry `iss` too: a client notices by it that another server answered (RFC 9207, 2).
    more = {} if state is None else {"state": state}
    return add_answer(redirect_uri, {**answer, **more, "iss": issuer_of(origin)})
