"""Signatures: one purpose each, the same on every replica, and nothing passes that we did not sign."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.crypto import Vault
from deployments.archive.oauth.client_identity.clients import clean_name, issue_client, read_client, short_id
from deployments.archive.oauth.pkce import is_challenge, is_verifier_of
from deployments.archive.oauth.signing import OAuthSigner
from deployments.sign_in.signing import SignInSigner

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
SIGNER, SAME, OTHER = (
    OAuthSigner(Vault(b"1" * 32)),
    OAuthSigner(Vault(b"1" * 32)),
    OAuthSigner(Vault(b"2" * 32)),
)


@given(VALUES)
def test_a_value_opens_on_every_replica_and_under_no_other_key_or_purpose(value: object) -> None:
    sealed = SIGNER.forms.seal([value])
    assert SAME.forms.open(sealed) == [value]
    assert OTHER.forms.open(sealed) is None
    assert SIGNER.clients.open(sealed) is None


@given(st.text(max_size=60))
def test_nothing_made_up_opens(text: str) -> None:
    assert SIGNER.forms.open(text) is None
    assert read_client(SIGNER, text) is None
    assert read_client(SIGNER, "c_" + text) is None
    assert SIGNER.grant_of_refresh(text) is None
    assert SIGNER.access_claims(text) is None


def test_tokens_say_their_grant_and_are_never_the_same_twice() -> None:
    first, second = SIGNER.issue_refresh("g1"), SIGNER.issue_refresh("g1")
    assert first != second
    assert SAME.grant_of_refresh(first) == "g1"
    assert OTHER.grant_of_refresh(first) is None
    assert SIGNER.grant_of_refresh("g2" + first[2:]) is None
    assert SIGNER.access_claims(first) is None
    access = SIGNER.issue_access({"exp": 1, "sub": "x"})
    assert SAME.access_claims(access) == {"exp": 1, "sub": "x"}
    assert SIGNER.grant_of_refresh(access) is None


def test_what_we_signed_has_one_spelling() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for text, read in (
        (SIGNER.clients.seal(["x"]), SIGNER.clients.open),
        (SIGNER.issue_refresh("g1"), SIGNER.grant_of_refresh),
        (SIGNER.issue_access({"exp": 1}), SIGNER.access_claims),
    ):
        assert read(text) is not None
        others = [text[:-1] + letter for letter in letters if letter != text[-1]]
        others += [text[:-9] + junk + text[-9:] for junk in ("!!!!", "====", "\n\n\n\n", "    ")]
        others += [text + "=", text + "\n", text + ".", " " + text]
        assert [other for other in others if read(other) is not None] == []


def test_a_client_is_its_registration_and_a_secret_belongs_to_one() -> None:
    uris = ["http://localhost:1/cb", "https://host.example/cb"]
    client = issue_client(SIGNER, "Näme", "none", uris)
    assert read_client(SAME, client.client_id) == client
    again = issue_client(SAME, "Näme", "none", uris[::-1])
    assert again.client_id != client.client_id
    assert again.fingerprints == client.fingerprints
    assert client.allows("http://localhost:9/cb")
    assert not client.allows("http://localhost:9/cb2")
    assert SIGNER.client_secret(client.client_id) == SAME.client_secret(client.client_id)
    assert SIGNER.client_secret(client.client_id) != OTHER.client_secret(client.client_id)
    assert short_id(client.client_id) != short_id(client.client_id + "x")
    assert len(short_id(client.client_id)) == 18


@pytest.mark.parametrize(
    ("given_name", "clean"),
    [
        ("  a \n b\t", "a b"),
        ("a\u202eb\u0000\u200bc", "abc"),
        ("", ""),
        ("<b>", "<b>"),
        ("日本 紙", "日本 紙"),
        ("\ud800", ""),
    ],
)
def test_names_lose_what_can_not_be_seen(given_name: str, clean: str) -> None:
    assert clean_name(given_name) == clean


def test_slots_are_few_whatever_the_names() -> None:
    signer, same = SignInSigner(Vault(b"1" * 32)), SignInSigner(Vault(b"1" * 32))
    assert len({signer.hash_slot(f"name {number}") for number in range(20_000)}) <= 4096
    assert signer.hash_slot("ada") == same.hash_slot("ada")


def test_the_example_of_the_standard_is_proven_and_its_neighbours_are_not() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert is_challenge(challenge)
    assert is_verifier_of(verifier, challenge)
    for other in ("", verifier[:-1], verifier + "=", verifier.lower(), challenge, verifier * 4, "ü" * 43):
        assert not is_verifier_of(other, challenge)
    for text in ("", challenge[:-1], challenge + "A", challenge[:-1] + "=", challenge[:-1] + "\n"):
        assert not is_challenge(text)


def test_while_the_master_key_changes_both_sign_in_and_only_the_new_one_signs() -> None:
    """One key before, two while it changes, one after: what the old one signed ends with it."""
    between = OAuthSigner(Vault(b"2" * 32, previous=[b"1" * 32]))
    for signing, opens, refuses in ((SIGNER, between, OTHER), (between, OTHER, SIGNER)):
        client = issue_client(signing, "Reader", "client_secret_post", ["https://a.example/cb"])
        secret = signing.client_secret(client.client_id)
        refresh, access = signing.issue_refresh("g1"), signing.issue_access({"sub": "ida"})
        assert read_client(opens, client.client_id) == client
        assert opens.is_client_secret(client.client_id, secret)
        assert opens.grant_of_refresh(refresh) == "g1"
        assert opens.access_claims(access) == {"sub": "ida"}
        for name in ("clients", "registrations", "forms"):
            sealed = getattr(signing, name).seal(["x"])
            assert getattr(opens, name).open(sealed) == ["x"]
            assert getattr(refuses, name).open(sealed) is None
        assert read_client(refuses, client.client_id) is None
        assert not refuses.is_client_secret(client.client_id, secret)
        assert refuses.grant_of_refresh(refresh) is None
        assert refuses.access_claims(access) is None
    assert not between.is_client_secret("c_1", "\ud800")


def test_the_console_accepts_both_keys_while_the_master_key_changes() -> None:
    before, between, after = (
        SignInSigner(vault)
        for vault in (Vault(b"1" * 32), Vault(b"2" * 32, previous=[b"1" * 32]), Vault(b"2" * 32))
    )
    for signing, opens, refuses in ((before, between, after), (between, after, before)):
        sealed, proof = signing.sessions.seal(["x"]), signing.form_proof("session 1")
        assert opens.sessions.open(sealed) == ["x"]
        assert opens.is_form_proof("session 1", proof)
        assert not opens.is_form_proof("session 2", proof)
        assert refuses.sessions.open(sealed) is None
        assert not refuses.is_form_proof("session 1", proof)
