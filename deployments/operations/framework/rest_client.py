"""Calls of the REST API by use cases: an answer, or the error that the API described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.errors import (
    Conflict,
    Fault,
    Forbidden,
    Invalid,
    KioskError,
    NotFound,
    TooLarge,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unprocessable,
)
from deployments.operations.framework.services import ApiCaller

_ERRORS: Mapping[int, type[KioskError]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: TooMany,
    503: Unavailable,
}
_LONGEST_MESSAGE = 500


async def call_api(
    api: ApiCaller, app_id: str, method: str, path: str, body: Mapping[str, Any] | None = None
) -> Any:
    """Return the parsed answer of a call that succeeded.

    Errors:
        KioskError: the API refused; the class follows from the status, the message is the API's
    """
    status, answer = await api.call(app_id, method, path, body)
    if status < 400:
        return answer
    raise error_from_answer(status, answer)


def error_from_answer(status: int, answer: Any) -> KioskError:
    """Return the error that an answer of the API describes."""
    detail = answer.get("detail") if isinstance(answer, dict) else None
    message = _read_message(answer) or f"the API answered with status {status}"
    kind = _ERRORS.get(status, Fault)
    if kind in (TooMany, Unavailable):
        return kind(message, retry_after_s=1, told=True)
    if kind is Unprocessable and isinstance(detail, list):
        return Unprocessable(message, detail=detail)
    return kind(message)


def _read_message(answer: Any) -> str:
    if not isinstance(answer, dict):
        return ""
    detail = answer.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        place = ".".join(str(part) for part in detail[0].get("loc", ()) if part != "body")
        text = str(detail[0].get("msg", ""))
        return f"{place}: {text}"[:_LONGEST_MESSAGE] if place else text[:_LONGEST_MESSAGE]
    refused = answer.get("data") if answer.get("errors") else None
    if isinstance(refused, list) and refused:  # an upload names the invalid fields there
        return "; ".join(map(str, refused))[:_LONGEST_MESSAGE]
    return str(answer.get("message", ""))[:_LONGEST_MESSAGE]
