"""Clients that sign: the public keys of a document, and the assertions that a client signs with one of them.

Source: RFC 7523 sections 2.2 and 3, RFC 7521 section 4.2, RFC 7517.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey, import_key

from deployments.archive.oauth.replies import OAuthError

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384")
"Signatures of assertions; never `none`, and never by a shared secret."
MOST_KEYS = 4_000
"Largest public keys of a client, in characters of JSON: a form, a code and a grant carry them."
LONGEST_ASSERTION = 8_000
LONGEST_JTI = 255
MOST_LIFE_S = 3_600
"An assertion expires at most this long after it is used."
SKEW_S = 60
"Seconds by which the clock of a client may differ."

_MEMBERS = ("kty", "kid", "alg", "n", "e", "crv", "x", "y")
_CURVES = ("P-256", "P-384")
_RSA_BITS = range(2048, 4097)
_RSA_CHARACTERS = range(342, 684)
"Lengths of such a modulus in base64url, by which others are refused unread."
_ERRORS = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"Whatever the library raises for keys and tokens of strangers."


@dataclass(frozen=True, slots=True)
class Assertion:
    """A verified assertion, which counts once."""

    jti: str
    life_s: int
    "Seconds for which it would be accepted again."


def read_keys(key_set: object, algorithm: str = "") -> str:
    """Return the usable public keys of a key set as JSON: RSA of 2048 to 4096 bits, P-256 and P-384.

    `algorithm` is the only one with which the client signs; empty: each key says so, or any of `ALGORITHMS`.

    Errors:
        OAuthError: the value is no key set, holds no usable key, or too many
    """
    given = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(given, list):
        raise OAuthError("invalid_client_metadata", "the keys of the application are no key set")
    only = {"alg": algorithm} if algorithm else {}
    # Only members of public keys, so that nothing else of a document travels in forms and codes.
    keys = [
        {name: key[name] for name in _MEMBERS if isinstance(key.get(name), str)} | only
        for key in given
        if _is_usable(key) and (not algorithm or key.get("alg", algorithm) == algorithm)
    ]
    if not keys:
        raise OAuthError(
            "invalid_client_metadata", "the key set holds no public key that this server can use"
        )
    text = json.dumps(keys, separators=(",", ":"))
    if len(text) > MOST_KEYS:
        raise OAuthError("invalid_client_metadata", f"the public keys are longer than {MOST_KEYS} characters")
    return text


def _is_usable(key: object) -> bool:
    # Whoever reads a published private key ("d") can sign with it.
    if not isinstance(key, dict) or "d" in key or key.get("use", "sig") != "sig":
        return False
    if key.get("alg", ALGORITHMS[0]) not in ALGORITHMS:
        return False
    if key.get("kty") == "RSA" and len(str(key.get("n"))) not in _RSA_CHARACTERS:
        return False
    try:
        imported = import_key({name: key[name] for name in _MEMBERS if name in key})
        if isinstance(imported, RSAKey):
            return imported.public_key.key_size in _RSA_BITS
        return isinstance(imported, ECKey) and key.get("crv") in _CURVES
    except _ERRORS:
        return False


def read_subject(assertion: str) -> str | None:
    """Return the client that an assertion names; nothing is verified."""
    try:
        subject = json.loads(jws.extract_compact(assertion.encode()).payload)["sub"]
    except _ERRORS:
        return None
    return subject if isinstance(subject, str) else None


def verify_assertion(
    assertion: str, client_id: str, keys: str, audiences: Iterable[str], now_s: float
) -> Assertion:
    """Verify an assertion of a client with its public keys.

    Errors:
        OAuthError: `invalid_client`: no key of the client signed it, or a claim is wrong
    """
    claims = _verified_claims(assertion, json.loads(keys))
    if claims.get("iss") != client_id or claims.get("sub") != client_id:
        raise _refused("iss and sub of the assertion are the client_id")
    given = claims.get("aud")
    named = given if isinstance(given, list) else [given]
    if not any(audience in named for audience in audiences):
        raise _refused("aud of the assertion is the issuer or the token endpoint")
    expires = _time(claims, "exp", math.inf)
    # The upper bound limits how long the store must remember a used assertion.
    if not now_s - SKEW_S < expires <= now_s + MOST_LIFE_S:
        raise _refused(f"the assertion is expired, or expires later than in {MOST_LIFE_S} seconds")
    if max(_time(claims, "nbf", 0.0), _time(claims, "iat", 0.0)) > now_s + SKEW_S:
        raise _refused("the assertion is not valid yet")
    jti = claims.get("jti")
    if not isinstance(jti, str) or not 0 < len(jti) <= LONGEST_JTI:
        raise _refused(f"jti of the assertion is a text of 1 to {LONGEST_JTI} characters")
    # The store must remember it for as long as the checks above would accept it again.
    return Assertion(jti, math.ceil(expires + SKEW_S - now_s))


def _verified_claims(assertion: str, keys: list[dict[str, str]]) -> Mapping[str, Any]:
    if len(assertion) <= LONGEST_ASSERTION:
        for key in keys:
            # Never any algorithm that the token names: by HS256 the public key would be the secret.
            algorithms = [key["alg"]] if "alg" in key else ALGORITHMS
            try:
                claims: object = jwt.decode(assertion, import_key(dict(key)), algorithms=algorithms).claims
            except _ERRORS:
                continue
            if isinstance(claims, dict):
                return claims
    raise _refused("no key of the client signed the assertion")


def _time(claims: Mapping[str, Any], name: str, default: float) -> float:
    value = claims.get(name, default)
    # A bool is an int, and an int of any size is no float.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
    # A claim of another type becomes a time that the checks refuse.
    return float(value) if is_number else (default if name not in claims else math.inf)


def _refused(description: str) -> OAuthError:
    return OAuthError("invalid_client", description, 401)
