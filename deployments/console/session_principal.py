"""The session of the console as a way into `/v1/admin`, for scripts of its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request

from cluster.errors import Forbidden
from deployments.console import csrf
from deployments.console.services import ConsoleServices
from deployments.operations.framework.principal import Principal, principal_of
from deployments.sign_in.password_checks import is_same_origin_form


def find_session_principal(services: ConsoleServices) -> Callable[[Request], Awaitable[Principal | None]]:
    """Return a function that finds who is signed in; for a change it requires the token of a page in a header."""
    sessions = services.sign_in.sessions

    async def find(request: Request) -> Principal | None:
        # Where passwords must not travel in plain text, the cookie of a session must not open anything
        # either.
        if not services.addresses.may_sign_in(request.headers.get("host", "")):
            return None
        session = await sessions.find(request, secure=services.is_secure(request))
        if session is None:
            return None
        # Browsers may attach the cookie to requests that another site starts; the token is known to pages of
        # the console only.
        if request.method not in ("GET", "HEAD"):
            given = request.headers.get(csrf.HEADER, "")
            genuine = csrf.is_genuine(services.signing, session.session_id, given)
            if not genuine or not is_same_origin_form(request, services.origin(request)):
                raise Forbidden(
                    f"a change over a session needs the header {csrf.HEADER} of a page of the console"
                )
        return principal_of(session.account, "console", address=services.client_address(request))

    return find
