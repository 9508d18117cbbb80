"""Answers that HAProxy gives itself, in the shape of the interface. Standard library only."""

from __future__ import annotations

import json

BUSY = "The service is busy or restarting. Please retry."
"Also said by the doors when a part is away (deployments/edge/errors.py)."
TIMEOUT = "Request timeout."
MALFORMED = "Malformed request."
NO_KEY = "invalid api key."
TOO_MANY = "Too many requests."
OVERLOADED = "The service is overloaded. Please retry."
TWO_KEYS = "X-API-KEY was sent more than once."
NO_UPGRADE = "This service speaks no websockets."
FAULT = "Something went wrong. Please contact the product team."
_RETRY = 'hdr Retry-After "1" '
_CHALLENGE = (
    'hdr WWW-Authenticate "ApiKey realm=\\"kiosk\\", error_description=\\"no key was sent; send it in the header '
    'X-API-KEY or as the query parameter api_key\\"" '
)
_MORE = {401: _CHALLENGE, 429: _RETRY, 502: _RETRY, 503: _RETRY}
"Status -> headers that only it has."


def _body(message: str) -> str:
    return json.dumps({"message": message}, separators=(",", ":"))


def http_error(status: int, message: str) -> str:
    """Write the line that gives one status its body."""
    return (
        f"http-error status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def return_now(status: int, message: str) -> str:
    """Write the action that answers a request at once."""
    return (
        f"http-request return status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def _headers(status: int) -> str:
    more = _MORE.get(status, "")
    return (
        f'{more}hdr X-Request-Id "%[uuid()]" hdr Access-Control-Allow-Origin "*" '
        'hdr Access-Control-Expose-Headers "X-Request-Id, Retry-After, WWW-Authenticate"'
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "\\$")
    return f'"{escaped}"'
