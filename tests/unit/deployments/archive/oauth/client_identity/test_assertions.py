from __future__ import annotations

import json
import math
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from deployments.archive.oauth.client_identity.assertions import (
    Assertion,
    read_keys,
    read_subject,
    verify_assertion,
)
from deployments.archive.oauth.replies import OAuthError

CLIENT = "https://app.example.com/client.json"
ISSUER = "https://news.example.com/archive"
NOW_S = 1_800_000_000
RSA, SECOND = RSAKey.generate_key(2048), RSAKey.generate_key(2048)
EC = ECKey.generate_key("P-256")


def public(*keys: Any, **more: str) -> dict[str, Any]:
    return {"keys": [{**key.as_dict(private=False), **more} for key in keys]}


def signed(
    key: Any = RSA, algorithm: str = "RS256", header: dict[str, Any] | None = None, **claims: Any
) -> str:
    usual = {"iss": CLIENT, "sub": CLIENT, "aud": ISSUER, "exp": NOW_S + 300, "jti": "j", "iat": NOW_S}
    body = {name: value for name, value in {**usual, **claims}.items() if value is not None}
    return jwt.encode({"alg": algorithm, **(header or {})}, body, key, algorithms=[algorithm])


def verify(assertion: str, *keys: Any) -> Assertion:
    return verify_assertion(assertion, CLIENT, read_keys(public(*(keys or (RSA,)))), (ISSUER, "token"), NOW_S)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_signatures_of_rsa(algorithm: str) -> None:
    assert verify(signed(algorithm=algorithm)) == Assertion("j", 360)


def test_signatures_of_curves() -> None:
    assert verify(signed(EC, "ES256"), EC).jti == "j"
    larger = ECKey.generate_key("P-384")
    assert verify(signed(larger, "ES384"), larger).jti == "j"


def test_any_key_of_the_client_may_sign() -> None:
    assert verify(signed(SECOND), EC, RSA, SECOND).jti == "j"


@pytest.mark.parametrize("audience", [ISSUER, "token", [ISSUER], ["https://else.example", "token"]])
def test_audiences(audience: object) -> None:
    assert verify(signed(aud=audience)).jti == "j"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": None}, {"iss": CLIENT + "/"}, {"sub": None}, {"sub": "https://other.example.com/x"}, {"sub": 7},
        {"aud": None}, {"aud": ISSUER + "/"}, {"aud": []}, {"aud": ["https://else.example"]}, {"aud": 7}, {"aud": {}},
        {"aud": [[ISSUER]]},
        {"exp": None}, {"exp": NOW_S - 60}, {"exp": NOW_S + 3_601}, {"exp": "soon"}, {"exp": True}, {"exp": 10**400},
        {"exp": -math.inf}, {"nbf": NOW_S + 61}, {"nbf": "x"}, {"iat": NOW_S + 61},
        {"jti": None}, {"jti": ""}, {"jti": 7}, {"jti": "x" * 256},
    ],
)  # fmt: skip
def test_wrong_claims(claims: dict[str, Any]) -> None:
    with pytest.raises(OAuthError) as refused:
        verify(signed(**claims))
    assert (refused.value.error, refused.value.status) == ("invalid_client", 401)


def test_a_clock_may_differ_by_a_minute() -> None:
    assert verify(signed(exp=NOW_S - 59)).life_s == 1
    assert verify(signed(nbf=NOW_S + 60, iat=NOW_S + 60)).jti == "j"


def test_foreign_signatures() -> None:
    good = signed()
    head, body, signature = good.split(".")
    secret = OctKey.import_key(json.dumps(public(RSA)["keys"][0]) + "x" * 32)
    none = "eyJhbGciOiJub25lIn0." + body + "."
    for bad in (
        signed(SECOND), signed(EC, "ES256"), signed(secret, "HS256"), none, f"{head}.{body}.", f"{head}.{body}",
        f"{head}..{signature}", good[:-4] + "AAAA", "", ".", "..", "a.b.c", "\ud800.x.y", "x" * 9_000,
        good + "x" * 9_000,        "eyJ" + "x" * 7_000 + ".y.z", '{"payload":"x"}',
    ):  # fmt: skip
        with pytest.raises(OAuthError):
            verify(bad)


def test_a_key_of_one_algorithm_accepts_no_other() -> None:
    keys = read_keys(public(RSA, alg="PS256"))
    assert verify_assertion(signed(algorithm="PS256"), CLIENT, keys, (ISSUER,), NOW_S).jti == "j"
    with pytest.raises(OAuthError):
        verify_assertion(signed(), CLIENT, keys, (ISSUER,), NOW_S)


def test_a_document_may_name_the_only_algorithm() -> None:
    keys = read_keys(public(RSA), "PS256")
    assert verify_assertion(signed(algorithm="PS256"), CLIENT, keys, (ISSUER,), NOW_S).jti == "j"
    with pytest.raises(OAuthError):
        verify_assertion(signed(), CLIENT, keys, (ISSUER,), NOW_S)
    assert json.loads(read_keys(public(RSA, alg="PS256"), "PS256"))[0]["alg"] == "PS256"
    with pytest.raises(OAuthError):
        read_keys(public(RSA, alg="RS256"), "PS256")


def test_only_usable_public_keys_are_read() -> None:
    good = public(RSA)["keys"][0]
    small = {**good, "n": good["n"][:171]}
    others: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0"}, RSA.as_dict(private=True), {**good, "use": "enc"}, {**good, "alg": "HS256"},
        small,        {**good, "n": "x" * 9_000}, {**good, "e": "!"}, {"kty": "RSA"},
        public(OKPKey.generate_key("Ed25519"))["keys"][0], {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        public(ECKey.generate_key("secp256k1"))["keys"][0], {"kty": "ML-DSA"}, {}, 7, None, [good], {**good, "kty": 7},
    ]  # fmt: skip
    assert json.loads(read_keys({"keys": [*others, {**good, "kid": "1", "x5c": ["y"], "use": "sig"}]})) == [
        {**good, "kid": "1"}
    ]
    for key in others:
        with pytest.raises(OAuthError):
            read_keys({"keys": [key]})


@pytest.mark.parametrize(
    "value", [None, [], {}, {"keys": None}, {"keys": []}, {"keys": {}}, "keys", {"keys": "keys"}]
)
def test_other_values_are_no_key_sets(value: object) -> None:
    with pytest.raises(OAuthError):
        read_keys(value)


def test_keys_have_a_largest_size() -> None:
    with pytest.raises(OAuthError, match="invalid_client_metadata") as refused:
        read_keys(public(*[RSA] * 20))
    assert "longer" in refused.value.description


def test_the_subject_of_an_assertion() -> None:
    assert read_subject(signed()) == CLIENT
    for text in ("", "a.b.c", signed(sub=7), signed(sub=None), "\ud800", "[" * 5_000):
        assert read_subject(text) is None
