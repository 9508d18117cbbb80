"""Parameters of queries and forms: each at most once, empty values count as absent, bytes stay unchanged.

Source: RFC 6749, sections 3.1 and 3.2; RFC 7636 appendix C.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request

from cluster.errors import KioskError
from deployments.archive.oauth.replies import OAuthError
from deployments.edge.http.body_pace import BodyPace
from deployments.edge.http.request import DeadlineExceeded
from deployments.edge.http.request_log import ClientDisconnected

MOST_BYTES = 20_000
MOST_FIELDS = 60
FORM = "application/x-www-form-urlencoded"


class Parameters:
    """Parameters by name."""

    def __init__(self, text: str) -> None:
        try:
            # `state` goes back byte for byte, also where it is not UTF-8 (RFC 6749, 4.1.2).
            pairs = parse_qsl(
                text, keep_blank_values=True, errors="surrogateescape", max_num_fields=MOST_FIELDS
            )
        except ValueError as error:
            raise OAuthError("invalid_request", "too many parameters") from error
        self._values: dict[str, str] = {}
        self.doubled: set[str] = set()
        "Names of parameters that the request repeats."
        for name, value in pairs:
            if name in self._values:
                self.doubled.add(name)
            self._values.setdefault(name, value)

    def get(self, name: str) -> str | None:
        """Return the value of a parameter; None if it is absent or empty."""
        return self._values.get(name) or None

    def once(self, name: str) -> str | None:
        """Return the value of a parameter that a request must not repeat.

        Errors:
            OAuthError: the request repeats it
        """
        if name in self.doubled:
            raise OAuthError("invalid_request", f"{name} stands there more than once")
        return self.get(name)

    def encode(self) -> str:
        """Return the parameters as a query, each with its first value."""
        return urlencode(self._values, quote_via=quote, safe="", errors="surrogateescape")


def read_query(request: Request) -> Parameters:
    """Return the parameters of the query."""
    return Parameters(request.scope.get("query_string", b"").decode("utf-8", "surrogateescape"))


async def read_small_body(request: Request, within_s: float) -> bytes:
    """Return a small request body.

    Errors:
        OAuthError: the body is too large, too slow, or compressed
    """
    try:
        return await BodyPace(within_s).read(request, MOST_BYTES)
    except ClientDisconnected:
        raise
    except DeadlineExceeded as error:
        raise OAuthError("invalid_request", "the body did not arrive in time", 408) from error
    except KioskError as error:
        too_large = error.code == "too_large"
        text = f"the body is larger than {MOST_BYTES} bytes" if too_large else error.message
        raise OAuthError("invalid_request", text, 413 if too_large else 400) from error


async def read_form(request: Request, within_s: float) -> Parameters:
    """Return the parameters of a form.

    Errors:
        OAuthError: the body is not a form, or is too large
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise OAuthError("invalid_request", f"the body has to be {FORM}")
    body = await read_small_body(request, within_s)
    return Parameters(body.decode("utf-8", "surrogateescape"))
