"""Verifies user tokens: HS256 only, with a message for each of seven faults.

PyJWT verifies the signature. The checks on top of it are ours: no header that could choose another algorithm, one
spelling for each token, exact messages, and exactly one type for every claim that Kiosk acts on. Every doubtful token
is refused.

Source: RFC 7515 section 5.2, RFC 7519 section 4.1, `docs/decisions/0011-strict-reader-tokens.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import jwt
import orjson
from jwt.algorithms import HMACAlgorithm

from cluster.errors import Unauthenticated, messages
from deployments.edge.http.credentials import UserToken

USER_TYPES = frozenset({"anonymous", "registered", "free", "subscriber", "paid", "internal"})

_LONGEST = 8192
"Characters of a token; longer ones are refused before decoding."
_LONGEST_CACHED = 1024
"""Characters of a token whose claims are cached. Claims take up to 16 times the memory of the token, so the bound keeps
the cache of a process below 20 MB."""
_LATEST = 2**53
"Largest valid time; times up to it are exact in every JSON library."
_LONGEST_ID = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEEWAY_S = 300
"Seconds by which the clock that wrote `iat` may be ahead."
_USUAL_HEADERS = frozenset({"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9"})
"""`{"alg":"HS256","typ":"JWT"}` in both orders, as almost every library writes it."""


class _KioskHMAC(HMACAlgorithm):
    """HMAC with SHA-256 for keys that Kiosk generated: they are neither short nor certificates."""

    def prepare_key(self, key: str | bytes) -> bytes:
        return key if isinstance(key, bytes) else key.encode()

    def check_key_length(self, key: bytes) -> str | None:
        return None


def _open_verifier() -> jwt.PyJWS:
    # Empty, and then HS256 alone: a token that names `none` or RS256 meets no verifier.
    verifier = jwt.PyJWS(algorithms=[])
    verifier.register_algorithm("HS256", _KioskHMAC(HMACAlgorithm.SHA256))
    return verifier


_VERIFIER = _open_verifier()


def verify_token(token: str, secrets: Iterable[bytes], *, now_s: float, max_age_s: int = 0) -> UserToken:
    """Verify a token and return the user it names.

    `max_age_s` limits the age of a token without `exp`, which must have `iat`; 0: no limit.

    Errors:
        Unauthenticated: with the message of the fault
    Cost: 35 microseconds for a new token, 3 for a short one of the 1,024 verified last.
    """
    if len(token) > _LONGEST or not token.isascii():
        raise _invalid()
    # The signature is cached and not the times: an expired token fails although it is in the cache.
    read = _read_cached if len(token) <= _LONGEST_CACHED else _read_verified
    # A copy: whoever changes the claims must not change the cached ones.
    claims = dict(read(token, tuple(secrets)))
    _check_times(claims, now_s, max_age_s)
    return UserToken(_user_from_claims(claims), _type_of(claims), claims)


def _read_verified(token: str, secrets: tuple[bytes, ...]) -> dict[str, Any]:
    """Return the claims of a valid token."""
    head, dot, signature = token.rpartition(".")
    header, middle, payload = head.partition(".")
    if not dot or not middle or "." in payload or not header or not payload:
        raise _invalid()
    if header not in _USUAL_HEADERS:
        _check_header(header)
    return _parse_object(_verify_signature(token, signature, secrets), payload)


_read_cached = lru_cache(1024)(_read_verified)
"Failures are not cached, and other secrets are another cache entry."


def check_same_user(token: UserToken, user_id: str, user_type: str = "") -> None:
    """Check that the user in a body is the token's user.

    Errors:
        Unauthenticated: `Token does not match ...`
    """
    if user_id and token.user_id and user_id != token.user_id:
        raise Unauthenticated(messages.TOKEN_OTHER_USER)
    if user_type and token.user_type and user_type != token.user_type:
        raise Unauthenticated(messages.TOKEN_OTHER_TYPE)


def _invalid() -> Unauthenticated:
    return Unauthenticated(messages.TOKEN_INVALID)


def _check_header(segment: str) -> None:
    try:
        # This decoder accepts several spellings; `_parse_object` compares with the only valid one.
        raw = binascii.a2b_base64(segment.replace("-", "+").replace("_", "/") + "=" * (-len(segment) % 4))
    except ValueError as error:
        raise _invalid() from error
    header = _parse_object(raw, segment)
    kind = header.pop("typ", "JWT")
    # No `kid`, `jku`, `jwk` or `crit`: the key is known from the request (decision 11).
    if header != {"alg": "HS256"} or not isinstance(kind, str) or kind.upper() != "JWT":
        raise _invalid()


def _verify_signature(token: str, signature: str, secrets: Iterable[bytes]) -> bytes:
    """Return the bytes of the claims. It tries all secrets, so the time does not disclose which one signed."""
    claims: bytes | None = None
    for secret in secrets:
        try:
            verified = _VERIFIER.decode_complete(token, secret, algorithms=["HS256"])
        except jwt.PyJWTError:
            continue
        # only this spelling of the bytes is valid, without padding
        if _encode(verified["signature"]) == signature:
            claims = verified["payload"]
    if claims is None:
        raise _invalid()
    return claims


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _parse_object(raw: bytes, segment: str) -> dict[str, Any]:
    """Parse the bytes of one segment, which must be in canonical form, to a JSON object without repeated names."""
    if _encode(raw) != segment:
        raise _invalid()
    try:
        orjson.loads(raw)
        # The strict parser refuses NaN, overflow, bad UTF-8 and deep nesting; the second one finds repeated names.
        value = json.loads(raw, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise _invalid() from error
    if not isinstance(value, dict):
        raise _invalid()
    return value


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is repeated")
    return value


def _check_times(claims: dict[str, Any], now_s: float, max_age_s: int) -> None:
    expires = _time(claims, "exp")
    if expires is None and max_age_s:
        issued = _time(claims, "iat")
        if issued is None or issued > now_s + _LEEWAY_S:
            raise _invalid()
        expires = issued + max_age_s
    # Without leeway: a token must not be accepted on or after `exp` (RFC 7519, 4.1.4).
    if expires is not None and now_s >= expires:
        raise Unauthenticated(f"JWT token expired (exp={expires})")
    begins = _time(claims, "nbf")
    if begins is not None and now_s < begins:
        raise Unauthenticated(messages.TOKEN_NOT_YET)


def _time(claims: dict[str, Any], name: str) -> int | None:
    if name not in claims:
        return None
    value = claims[name]
    # `True` is an int in Python; common libraries write no text, fraction or null here.
    if type(value) is not int or not -_LATEST <= value <= _LATEST:
        raise _invalid()
    return value


def _user_from_claims(claims: dict[str, Any]) -> str:
    for name in ("user_id", "sub"):
        value = claims.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or _CONTROL.search(value):
            raise _invalid()
        return value
    return ""


def _type_of(claims: dict[str, Any]) -> str:
    value = claims.get("user_type")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _invalid()
    if value not in USER_TYPES:
        raise Unauthenticated(f"Invalid JWT token: unknown user_type {value[:100]}")
    return value
