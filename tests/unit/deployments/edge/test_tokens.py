from __future__ import annotations

import base64
import json
import random
import tracemalloc
from typing import Any

import jwt
import pytest

from cluster.errors import Unauthenticated
from deployments.edge.access.tokens import USER_TYPES, check_same_user, verify_token
from deployments.edge.http.credentials import parse_bearer
from tests.fakes.tokens import HEADER, segment, sign_text, token_of

SECRET = "ksk_dev_" + "a" * 32 + "_000000"
NOW_S = 1_772_442_930.25


def read(token: str, now_s: float = NOW_S) -> Any:
    return verify_token(token, (SECRET.encode(),), now_s=now_s)


def failure(token: str, now_s: float = NOW_S) -> str:
    with pytest.raises(Unauthenticated) as raised:
        read(token, now_s)
    return raised.value.message


def test_a_token_of_the_usual_library_names_its_reader() -> None:
    made = jwt.encode(
        {"user_id": "gina-7", "user_type": "paid", "exp": 1_772_442_931}, SECRET, algorithm="HS256"
    )
    token = read(made)
    assert (token.user_id, token.user_type) == ("gina-7", "paid")


def test_user_id_wins_over_sub_and_sub_does_when_alone() -> None:
    assert read(token_of({"sub": "a", "user_id": "b"}, SECRET)).user_id == "b"
    assert read(token_of({"sub": "a"}, SECRET)).user_id == "a"
    assert read(token_of({"sub": "a", "user_id": None}, SECRET)).user_id == "a"
    assert read(token_of({"iat": 5, "iss": 7, "aud": ["x"], "tier": "gold"}, SECRET)).claims["tier"] == "gold"


@pytest.mark.parametrize("user_type", sorted(USER_TYPES))
def test_every_user_type_of_the_list_is_accepted(user_type: str) -> None:
    assert read(token_of({"user_id": "a", "user_type": user_type}, SECRET)).user_type == user_type


def test_times_are_checked_to_the_second_without_leeway() -> None:
    at = int(NOW_S)
    assert read(token_of({"user_id": "a", "exp": at + 1, "nbf": at}, SECRET)).user_id == "a"
    assert failure(token_of({"exp": at}, SECRET)) == f"JWT token expired (exp={at})"
    assert failure(token_of({"exp": at}, SECRET), float(at)) == f"JWT token expired (exp={at})"
    assert failure(token_of({"nbf": at + 1}, SECRET)) == "JWT token not yet valid"


def test_an_unknown_user_type_is_named_at_the_end() -> None:
    assert failure(token_of({"user_type": "gold"}, SECRET)) == "Invalid JWT token: unknown user_type gold"


def test_a_token_signed_with_another_key_is_refused() -> None:
    assert failure(token_of({"user_id": "a"}, SECRET.replace("a", "b"))) == "Invalid JWT token"


def test_any_live_secret_of_the_app_may_have_signed() -> None:
    old, new = "ksk_dev_old", "ksk_dev_new"
    token = token_of({"user_id": "a"}, old)
    assert verify_token(token, (new.encode(), old.encode()), now_s=NOW_S).user_id == "a"
    with pytest.raises(Unauthenticated):
        verify_token(token, (new.encode(),), now_s=NOW_S)


def _corpus() -> dict[str, str]:
    claims = {"user_id": "admin"}
    good = token_of(claims, SECRET)
    head, _, signature = good.rpartition(".")
    body = head.split(".")[1]
    raw = json.dumps(claims).encode()
    corpus = {
        "empty": "",
        "dots only": "..",
        "one segment": body,
        "two segments": head,
        "four segments": good + "." + signature,
        "empty signature": head + ".",
        "padded signature": good + "=",
        "standard alphabet": head + "." + signature.replace("-", "+").replace("_", "/") + "+",
        "last bits changed": head + "." + signature[:-1] + _neighbour(signature[-1]),
        "short signature": head + "." + signature[:22],
        "long signature": good + signature,
        "signature of nothing": head + "." + sign_text("", SECRET),
        "unsigned none": token_of(claims, SECRET, {"alg": "none", "typ": "JWT"}).rpartition(".")[0] + ".",
        "signed none": token_of(claims, SECRET, {"alg": "none"}),
        "NONE": token_of(claims, SECRET, {"alg": "NONE"}),
        "nOnE": token_of(claims, SECRET, {"alg": "nOnE"}),
        "hs256 in small letters": token_of(claims, SECRET, {"alg": "hs256"}),
        "no alg": token_of(claims, SECRET, {"typ": "JWT"}),
        "alg null": token_of(claims, SECRET, {"alg": None}),
        "alg list": token_of(claims, SECRET, {"alg": ["HS256"]}),
        "alg twice": token_of(claims, SECRET, b'{"alg":"none","alg":"HS256"}'),
        "alg with blank": token_of(claims, SECRET, {"alg": "HS256 "}),
        "header is a list": token_of(claims, SECRET, b'["HS256"]'),
        "header is no JSON": token_of(claims, SECRET, b"HS256"),
        "typ JWS": token_of(claims, SECRET, {**HEADER, "typ": "JOSE"}),
        "typ a number": token_of(claims, SECRET, {**HEADER, "typ": 1}),
        "claims twice": token_of(b'{"user_id":"gina-7","user_id":"admin"}', SECRET),
        "nested claims twice": token_of(b'{"user_id":"a","x":{"y":1,"y":2}}', SECRET),
        "claims list": token_of(b'["admin"]', SECRET),
        "claims number": token_of(b"7", SECRET),
        "claims no JSON": token_of(b"{user_id:1}", SECRET),
        "claims NaN": token_of(b'{"user_id":"a","x":NaN}', SECRET),
        "claims Infinity": token_of(b'{"user_id":"a","x":1e999}', SECRET),
        "claims bad UTF-8": token_of(b'{"user_id":"\xff"}', SECRET),
        "claims BOM": token_of(b'\xef\xbb\xbf{"user_id":"a"}', SECRET),
        "claims deep": token_of(b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}", SECRET),
        "claims lone surrogate": token_of(b'{"user_id":"\\ud800"}', SECRET),
        "claims trailing bytes": token_of(raw + b"x", SECRET),
        "user_id number": token_of({"user_id": 7}, SECRET),
        "user_id empty": token_of({"user_id": ""}, SECRET),
        "user_id too long": token_of({"user_id": "a" * 513}, SECRET),
        "user_id object": token_of({"user_id": {"$ne": ""}}, SECRET),
        "sub list": token_of({"sub": ["a"]}, SECRET),
        "user_type list": token_of({"user_type": ["paid"]}, SECRET),
        "a megabyte": token_of({"user_id": "a", "x": "y" * 1_000_000}, SECRET),
        "blanks around": f" {good} ",
        "line feed": good + "\n",
        "NUL": good + "\0",
        "not ASCII": good + "é",
        "segments swapped": f"{body}.{head.split('.')[0]}.{signature}",
        "padded header": segment(b'{"alg":"HS256" }').replace("A", "A=") + "." + body + "." + signature,
    }
    for alg, digest in (
        ("HS384", "sha384"),
        ("HS512", "sha512"),
        ("RS256", "sha256"),
        ("ES256", "sha256"),
        ("PS256", "sha256"),
    ):
        corpus[alg] = token_of(claims, SECRET, {"alg": alg, "typ": "JWT"}, digest)
    for name, value in (
        ("kid", "../../dev/null"), ("jku", "https://evil.example/keys"), ("jwk", {"kty": "oct", "k": "AAAA"}),
        ("x5u", "https://evil.example/c"), ("x5c", ["AAAA"]), ("crit", ["exp"]), ("zip", "DEF"), ("b64", False),
        ("cty", "JWT"), ("enc", "A128GCM"),
    ):  # fmt: skip
        corpus[f"header {name}"] = token_of(claims, SECRET, {**HEADER, name: value})
    for claim in ("exp", "nbf"):
        for name, text in (
            ("text", b'"9999999999"'), ("fraction", b"9999999999.5"), ("whole fraction", b"9999999999.0"),
            ("exponent", b"1e10"), ("1e30", b"1e30"), ("huge", b"1" + b"0" * 30), ("true", b"true"), ("null", b"null"),
            ("list", b"[9999999999]"), ("object", b"{}"), ("empty text", b'""'),
        ):  # fmt: skip
            corpus[f"{claim} {name}"] = token_of(b'{"user_id":"a","%s":%s}' % (claim.encode(), text), SECRET)
    return corpus


def _neighbour(letter: str) -> str:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return alphabet[alphabet.index(letter) ^ 1]


@pytest.mark.parametrize("name", _corpus())
def test_a_hostile_token_is_invalid_and_nothing_else(name: str) -> None:
    assert failure(_corpus()[name]) == "Invalid JWT token"


def test_a_negative_expiry_has_passed() -> None:
    assert failure(token_of({"user_id": "a", "exp": -5}, SECRET)) == "JWT token expired (exp=-5)"


def test_no_mutation_of_a_good_token_is_accepted() -> None:
    chance = random.Random(7)
    good = token_of({"user_id": "gina-7", "exp": int(NOW_S) + 60}, SECRET)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.= +/"
    accepted = 0
    for _ in range(20_000):
        letters = list(good)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(letters))
            way = chance.random()
            if way < 0.6:
                letters[place] = chance.choice(alphabet)
            elif way < 0.8:
                del letters[place]
            else:
                letters.insert(place, chance.choice(alphabet))
        mutated = "".join(letters)
        if mutated == good:
            continue
        try:
            read(mutated)
        except Unauthenticated:
            continue
        accepted += 1
    assert accepted == 0


def test_a_token_that_decodes_to_the_same_bytes_in_another_spelling_is_refused() -> None:
    header = base64.urlsafe_b64encode(b'{"alg": "HS256"}').decode().rstrip("=")
    other = header[:-1] + _neighbour(header[-1])
    assert base64.urlsafe_b64decode(other + "==") == base64.urlsafe_b64decode(header + "==")
    head = f"{other}.{segment(b'{}')}"
    assert failure(f"{head}.{sign_text(head, SECRET)}") == "Invalid JWT token"


def test_only_the_bearer_scheme_carries_a_token() -> None:
    assert parse_bearer(b"Bearer abc") == "abc"
    assert parse_bearer(b"bearer  abc ") == "abc"
    assert parse_bearer(b"Bearer") == ""
    assert parse_bearer(b"Basic abc") is None
    assert parse_bearer(b"") is None
    assert parse_bearer(None) is None


def test_a_body_that_names_another_reader_does_not_match() -> None:
    token = read(token_of({"user_id": "a", "user_type": "paid"}, SECRET))
    check_same_user(token, "a", "paid")
    check_same_user(token, "", "")
    with pytest.raises(Unauthenticated, match=r"^Token does not match the user$"):
        check_same_user(token, "b")
    with pytest.raises(Unauthenticated, match=r"^Token does not match the user_type$"):
        check_same_user(token, "a", "free")


def test_a_token_that_was_verified_before_still_expires_and_needs_a_live_secret() -> None:
    token = token_of({"user_id": "a", "exp": int(NOW_S) + 1}, SECRET)
    assert read(token).user_id == "a"
    read(token).claims.clear()
    assert read(token).user_id == "a"
    assert failure(token, NOW_S + 1) == f"JWT token expired (exp={int(NOW_S) + 1})"
    with pytest.raises(Unauthenticated, match="Invalid JWT token"):
        verify_token(token, (b"another secret",), now_s=NOW_S)


def test_verified_tokens_fill_no_memory_whatever_their_claims_are() -> None:
    short = [token_of({"sub": f"u{at}", "x": [[]] * 225}, SECRET) for at in range(1_500)]
    long = [token_of({"sub": f"u{at}", "x": [[]] * 2_000}, SECRET) for at in range(300)]
    assert len(short[-1]) <= 1_024 < len(long[-1]) <= 8_192
    tracemalloc.start()
    try:
        for token in (*short, *long):
            read(token)
        assert tracemalloc.get_traced_memory()[0] < 20_000_000
    finally:
        tracemalloc.stop()
