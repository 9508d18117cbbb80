"""The error tree, and `Refusal`, the form in which an expected "no" travels between processes.

    KioskError                 code, message, and keyword facts; picklable by construction
      Invalid                  invalid body, path or parameter             -> 400, 413, 422
        Malformed              not JSON at all                              -> 400
        TooLarge               the body is over its limit                   -> 413
        Unprocessable          JSON, but not valid by the schema            -> 422; fact `detail`
          FilterSyntax         a filter that does not parse                 -> 422; facts kind, position
        ReadOnly               a write to the playground                    -> 400
        InvalidSetting         an invalid variable KIOSK_...               -> no request; exit code 2
      Unauthenticated          key, user hash or token                      -> 401
      Forbidden                wrong kind of key, or a robot                -> 403
      NotFound                 record, engine, task, field, thread          -> 404
      Conflict                 the same Idempotency-Key is still in flight  -> 409
      TooMany                  over a rate or a bound; fact retry_after_s   -> 429
      Unavailable              a part is down or starts; fact retry_after_s -> 503
        ColumnsNotReady        columns are to be built first               -> 503
        NewerRelease           only a newer release can read it            -> 503
      Fault                    internal: damaged file, broken invariant     -> 500

A `KioskError` never defines a constructor: pickling works only because all facts are keywords
(an exception with two positional constructor arguments arrives as a nameless one across a Ray hop).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class KioskError(Exception):
    """An error with a stable `code`, a sentence for the client and keyword facts."""

    code = "house_error"

    def __init__(self, message: str = "", **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)

    def __str__(self) -> str:
        return self.message


def _rebuild(kind: type[KioskError], message: str, facts: dict[str, Any]) -> KioskError:
    return kind(message, **facts)


class Invalid(KioskError):
    code = "invalid"


class Malformed(Invalid):
    code = "malformed"


class TooLarge(Invalid):
    code = "too_large"


class Unprocessable(Invalid):
    """`facts["detail"]` is a list of `{loc, msg, type}`."""

    code = "unprocessable"


class FilterSyntax(Unprocessable):
    """A filter text that does not parse. Facts: `kind` (str), `position` (int, 0-based character)."""

    code = "filter_syntax"


class ReadOnly(Invalid):
    code = "read_only"


class InvalidSetting(Invalid):
    """A setting of the wrong type or out of its bounds; the message names the variable."""

    code = "invalid_setting"


class Unauthenticated(KioskError):
    code = "unauthenticated"


class Forbidden(KioskError):
    code = "forbidden"


class NotFound(KioskError):
    code = "not_found"


class Conflict(KioskError):
    code = "conflict"


class TooMany(KioskError):
    """Over a rate limit, or over a bound on concurrent work. Fact: `retry_after_s` (int, seconds)."""

    code = "too_many"


class Unavailable(KioskError):
    """A part is down, or not ready yet; the client should retry.

    Facts: `retry_after_s` (int, seconds); `unsent` if the store got nothing of the command, so that another process may
    repeat it; `late` if the store did not answer by the deadline, so that a read may be repeated.
    """

    code = "unavailable"


class ColumnsNotReady(Unavailable):
    """An answer would take long; fact `keys` names the columns to build first. Never leaves its process."""

    code = "unready"


class NewerRelease(Unavailable):
    """A newer release wrote a record or a message that this release can't read; another replica may be able to."""

    code = "newer_release"


class Fault(KioskError):
    code = "fault"


_CLASSES: dict[str, type[KioskError]] = {
    kind.code: kind
    for kind in (
        Invalid,
        Malformed,
        TooLarge,
        Unprocessable,
        FilterSyntax,
        ReadOnly,
        InvalidSetting,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        TooMany,
        Unavailable,
        ColumnsNotReady,
        NewerRelease,
        Fault,
    )
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An expected "no" as a value: returned across a hop, never raised across it."""

    code: str
    message: str
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: KioskError) -> Refusal:
        return cls(error.code, error.message, dict(error.facts))

    def error(self) -> KioskError:
        """Return the value as an error of the same class."""
        return _CLASSES.get(self.code, Fault)(self.message, **self.facts)


class messages:
    """The sentences that the REST interface prescribes word for word; nowhere else in the code.

    They are listed in `docs/reference/errors.md`.
    """

    SUCCESS = "success"
    DELETED = "deleted"
    NOT_FOUND = "not found"
    NO_SUCH_INDEX = "no such index"
    ENGINE_NOT_FOUND = "engine is not found"
    FIELD_NOT_FOUND = "field is not found"
    INVALID_KEY = "invalid api key."
    SECRET_ONLY = "Publishable key is not allowed for this endpoint; use the secret key"
    ROBOT = (
        "Request is denied due to bot blocking. Please only access this API from a real browser "
        "or use Secret API Key instead."
    )
    SECRET_IN_BROWSER = "Secret key is not allowed in a browser; use the publishable key"
    HASH_REQUIRED = "user_hash is required."
    HASH_INVALID = "user_hash is invalid."
    TOKEN_INVALID = "Invalid JWT token"
    TOKEN_ENDED = "Invalid JWT token: ended"
    TOKEN_NOT_YET = "JWT token not yet valid"
    TOKEN_OTHER_USER = "Token does not match the user"
    TOKEN_OTHER_TYPE = "Token does not match the user_type"
    USER_REQUIRED = "Authenticated user_id is required"
    MALFORMED = "Malformed request."
    PLAYGROUND = "This is the playground environment, which is read-only."
    TIMEOUT = "Request timeout."
    TOO_MANY = "Too many requests."
    OVERLOADED = "The service is overloaded. Please retry."
    FAULT = "Something went wrong. Please contact the product team."
    UPLOAD_REJECTED = (
        "None of the records are inserted, because at least one of them contain schema errors. "
        "Please see `data` field for details."
    )
    INTERACTIONS_REJECTED = (
        "None of the records were inserted because at least one of them contained schema errors. "
        "Please see the `data` field for details."
    )
    EXPERIMENT_KEY = "api_key is invalid. Please check your api_key in the dashboard."
    EXPERIMENT_SCHEMA = 'Request schema error. See "data.errors" for details'
    EXPERIMENT_NOT_FOUND = "Experiment is not found. Please check your experiment_id_or_slug."
    VARIANT_NOT_FOUND = "Variant is not found. Please check your variant_name."
