"""The one table: class of error and family of endpoint to status and body.

    family        422 body                                        everything else
    message       {detail: [...]}                                 {message}
    detail        {detail: [...]}                                 {message}
    upload        {errors: true, message, data: [str]}            {message}
    experiments   {message, data: {errors: [...]}}, also for 400  {message}

Any exception that is not a `KioskError` is an internal error: it is logged once with the request id, and the reply
has a fixed sentence without details.

The replies are listed in `docs/reference/errors.md`.
"""

from __future__ import annotations

from typing import Any, Literal

import structlog

from cluster import errors
from cluster.errors import KioskError, messages
from deployments.edge.http.replies import Header, Reply, dumps

Family = Literal["message", "detail", "upload", "experiments"]

BUSY = "The service is busy or restarting. Please retry."
UNSENT_STATUS = 501
"""Status of a write that this replica could not begin, because its connection to Redis is away, and of a read for which
Redis did not answer in time. Only HAProxy sees it, and sends the request again (`cluster/local/haproxy_config.py`)."""
METHOD_NOT_ALLOWED = "method not allowed"
_ANSWERED_EVERYWHERE = ("HEAD", "OPTIONS")
_HELP: Header = (b"link", b'</docs>; rel="help"')

_log = structlog.get_logger()

_STATUS: tuple[tuple[type[KioskError], int], ...] = (
    (errors.Malformed, 400),
    (errors.TooLarge, 413),
    (errors.Unprocessable, 422),
    (errors.ReadOnly, 400),
    (errors.Invalid, 400),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.TooMany, 429),
    (errors.Unavailable, 503),
)
"The first match wins, so a subclass precedes its parent."


def reply_from_error(error: BaseException, family: Family, *, request_id: str) -> Reply:
    """Return the reply for an exception."""
    if isinstance(error, KioskError):
        for kind, status in _STATUS:
            if isinstance(error, kind):
                return _expected(error, status, family)
    return _fault(error, request_id)


def status_from_error(error: KioskError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def method_not_allowed_reply(allowed: tuple[str, ...]) -> Reply:
    """Return the reply for a path that exists with other methods only."""
    allow: Header = (b"allow", ", ".join(allowed).encode())
    right = " or ".join(name for name in allowed if name not in _ANSWERED_EVERYWHERE)
    return Reply(405, dumps({"message": f"{METHOD_NOT_ALLOWED}; use {right} on this path"}), (allow,))


def unknown_path_reply(meant: str = "") -> Reply:
    """Return the reply for an unknown path, with a link to /docs; `meant` is a path that exists."""
    hint = f": there is no such path; did you mean {meant}?" if meant else ""
    return Reply(404, dumps({"message": messages.NOT_FOUND + hint}), (_HELP,))


def timeout_reply() -> Reply:
    """Return the reply for an upload or delete that took too long."""
    return Reply(400, dumps({"message": messages.TIMEOUT}))


def list_faults(error: KioskError) -> list[dict[str, Any]]:
    """Return the errors of a request as `{loc, msg, type}`."""
    detail = error.facts.get("detail")
    return detail if detail else [{"loc": ["body"], "msg": error.message, "type": "value_error"}]


def _expected(error: KioskError, status: int, family: Family) -> Reply:
    if family == "experiments" and status in (400, 422) and not isinstance(error, errors.ReadOnly):
        body = {"message": messages.EXPERIMENT_SCHEMA, "data": {"errors": list_faults(error)}}
        return Reply(422, dumps(body))
    if status == 422:
        if family == "upload":
            return Reply(422, dumps(_upload(error)))
        return Reply(422, dumps({"detail": list_faults(error)}))
    return Reply(status, dumps(_message(error, status, family)), build_error_headers(error, status))


def _message(error: KioskError, status: int, family: Family) -> dict[str, Any]:
    if status == 503 and not error.facts.get("told"):
        # The log names the unavailable service; clients need not know it.
        return {"message": BUSY}
    if family == "experiments" and error.message == messages.INVALID_KEY:
        return {"message": messages.EXPERIMENT_KEY}
    if isinstance(error, errors.Malformed) and error.facts.get("detail"):
        return {"message": error.message, "detail": list_faults(error)}
    if error.facts.get("status_code"):
        return {"status_code": status, "message": error.message}
    return {"message": error.message}


def _upload(error: KioskError) -> dict[str, Any]:
    """Build the body of a refused upload; clients iterate `data`, so it is always a list of sentences."""
    sentences = error.facts.get("messages")
    if sentences is None:
        sentences = [_sentence(entry) for entry in list_faults(error)]
    more = {"details": error.facts["details"]} if error.facts.get("details") else {}
    return {
        "errors": True,
        "message": error.message or messages.UPLOAD_REJECTED,
        "data": list(sentences),
        **more,
    }


def _sentence(entry: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in entry["loc"] if part != "body") or "data"
    return f"{place} is invalid. {entry['msg']}"


def build_error_headers(error: KioskError, status: int) -> tuple[Header, ...]:
    """Return the headers of an error's answer: when to try again, or the scheme of a missing key."""
    if status == 401 and "key_fault" in error.facts:
        # The body is fixed by the interface; a 401 names its scheme anyway (RFC 9110, 11.6.1).
        text = f'ApiKey realm="kiosk", error_description="{error.facts["key_fault"]}"'
        return ((b"www-authenticate", text.encode()),)
    if status not in (429, 503):
        return ()
    wait_s = max(1, int(error.facts.get("retry_after_s", 1)))
    return ((b"retry-after", str(wait_s).encode()),)


def _fault(error: BaseException, request_id: str) -> Reply:
    # The message of an unexpected error may contain a record or a key, so only class and place are logged.
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = f"{frame.tb_frame.f_globals.get('__name__')}:{frame.tb_lineno}" if frame else ""
    reason = error.message if isinstance(error, KioskError) else ""
    _log.error("request_failed", request_id=request_id, kind=type(error).__name__, place=place, reason=reason)
    return Reply(500, dumps({"message": messages.FAULT}))
