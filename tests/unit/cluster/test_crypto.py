from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cluster import crypto
from cluster.errors import Fault
from cluster.records.api_keys import issue_key, reseal_key, reveal_key, sign_key
from cluster.records.apps import App

VAULT = crypto.Vault(bytes(range(32)))
APP = App(app_id="shop", environment="development", created_at=0)


@pytest.mark.parametrize("kind", crypto.KINDS)
@pytest.mark.parametrize("environment", crypto.ENVIRONMENTS)
def test_a_minted_key_is_recognised_with_its_kind_and_environment(kind: str, environment: str) -> None:
    key = crypto.mint_key(kind, environment)
    assert crypto.recognise_key(key) == crypto.KeyForm(kind, environment)
    head, env, body, check = key.split("_")
    assert (head, env, len(body), len(check)) == (
        crypto.KINDS[kind],
        crypto.ENVIRONMENTS[environment],
        32,
        6,
    )


def test_a_key_with_one_character_changed_is_not_recognised() -> None:
    key = crypto.mint_key("secret", "development", lambda size: bytes(range(size)))
    for place in range(8, len(key)):
        other = "A" if key[place] != "A" else "B"
        assert crypto.recognise_key(key[:place] + other + key[place + 1 :]) is None


def test_biased_bytes_are_thrown_away() -> None:
    rounds = iter([b"\xff" * 31 + b"\x01", b"\x02" * 32])
    key = crypto.mint_key("secret", "production", lambda _: next(rounds))
    assert key.split("_")[2] == "1" + "2" * 31


def test_a_sealed_key_opens_only_under_its_name_and_master_key() -> None:
    sealed = VAULT.seal("ksk_dev_x", "name")
    assert "ksk" not in sealed
    assert VAULT.open(sealed, "name") == "ksk_dev_x"
    with pytest.raises(Fault):
        VAULT.open(sealed, "other name")
    with pytest.raises(Fault):
        crypto.Vault(bytes(32)).open(sealed, "name")
    with pytest.raises(Fault):
        VAULT.open(sealed[:-8], "name")


def test_an_issued_key_can_be_revealed_and_never_shows_itself() -> None:
    production = APP.model_copy(update={"environment": "production"})
    issued = issue_key(VAULT, production, "secret", now_ms=5)
    assert reveal_key(VAULT, issued.record) == issued.text
    assert issued.record.sha256 == crypto.key_sha256(issued.text)
    assert issued.text not in repr(issued)
    assert issued.text not in issued.record.model_dump_json()
    assert issued.record.hint == f"ksk_prd_...{issued.text[-4:]}"


def test_the_master_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "master.key"
    first = crypto.create_master_key(path)
    assert crypto.create_master_key(path) == first == crypto.read_master_keys(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["master.key"]


@pytest.mark.parametrize("text", ["", "short", "ä" * 44, "A" * 43, "*" * 44])
def test_a_bad_master_key_is_a_fault(text: str, tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    path.write_text(text)
    with pytest.raises(Fault):
        crypto.read_master_keys(path)


def test_a_key_for_a_purpose_is_the_same_everywhere_and_no_other_purposes() -> None:
    vault, other = crypto.Vault(b"1" * 32), crypto.Vault(b"2" * 32)
    assert vault.derive("forms") == crypto.Vault(b"1" * 32).derive("forms")
    assert len({vault.derive("forms"), vault.derive("tokens"), other.derive("forms"), b"1" * 32}) == 4
    assert len(vault.derive("")) == 32


RELABELLED: list[dict[str, str]] = [
    {"kind": "secret"},
    {"app_id": "other"},
    {"key_id": "key-0000000000"},
    {"mac": ""},
    {"mac": "0" * 64},
    {"mac": "é"},
    {"app_id": "shop\nother"},
]


@pytest.mark.parametrize("change", RELABELLED)
def test_a_key_record_with_another_label_does_not_open(change: dict[str, str]) -> None:
    record = issue_key(VAULT, APP, "publishable", now_ms=1).record
    assert reveal_key(VAULT, record)
    with pytest.raises(Fault, match="key record"):
        reveal_key(VAULT, record.model_copy(update=change))


def test_labels_of_one_key_prove_nothing_for_another() -> None:
    secret, public = (issue_key(VAULT, APP, kind, now_ms=1).record for kind in ("secret", "publishable"))
    with pytest.raises(Fault):
        reveal_key(VAULT, public.model_copy(update={"kind": "secret", "mac": secret.mac}))
    with pytest.raises(Fault):
        reveal_key(
            VAULT, public.model_copy(update={"kind": "secret", "mac": secret.mac, "sha256": secret.sha256})
        )


def test_a_record_of_a_release_before_is_bound_as_it_is() -> None:
    issued = issue_key(VAULT, APP, "secret", now_ms=1)
    before = issued.record.model_copy(update={"mac": ""})
    assert sign_key(VAULT, before) == issued.record
    with pytest.raises(Fault):
        sign_key(crypto.Vault(bytes(32)), before)


OLD, NEW = b"1" * 32, b"2" * 32
BEFORE, BETWEEN, AFTER = crypto.Vault(OLD), crypto.Vault(NEW, previous=[OLD]), crypto.Vault(NEW)


def test_two_keys_open_what_either_sealed_and_seal_with_the_first() -> None:
    assert BETWEEN.open(BEFORE.seal("text", "name"), "name") == "text"
    assert AFTER.open(BETWEEN.seal("text", "name"), "name") == "text"
    assert BETWEEN.derive_all("forms") == (AFTER.derive("forms"), BEFORE.derive("forms"))
    assert (BETWEEN.has_previous, BETWEEN.without_previous().has_previous) == (True, False)
    for vault, sealed in (
        (BEFORE, BETWEEN.seal("text", "name")),
        (AFTER, BEFORE.seal("text", "name")),
        (BETWEEN.without_previous(), BEFORE.seal("text", "name")),
        (BETWEEN, crypto.Vault(bytes(32)).seal("text", "name")),
        (BETWEEN, BEFORE.seal("text", "other")),
    ):
        with pytest.raises(Fault):
            vault.open(sealed, "name")


def test_a_signer_signs_with_its_first_key_and_verifies_with_all() -> None:
    before, both, after = (crypto.Signer(keys) for keys in ((OLD,), (NEW, OLD), (NEW,)))
    for signer, other, right in (
        (before, both, True), (both, after, True), (both, before, False), (before, after, False),
    ):  # fmt: skip
        assert other.verify("a", b"b", signer.sign("a", b"b").encode()) is right
        assert not other.verify("c", b"b", signer.sign("a", b"b").encode())


def test_a_file_holds_the_current_key_and_previous_ones(tmp_path: Path) -> None:
    old, new = crypto.key_text(OLD), crypto.key_text(NEW)
    for text in (f"{new}\n{old}\n", f"{new} {old}", f"{new}\n{old}\n{new}\n"):
        assert crypto.parse_master_keys(text) == (NEW, OLD)
    for text in (
        "",
        "  ",
        f"{new}\nshort",
        " ".join(crypto.key_text(bytes([byte] * 32)) for byte in range(5)),
    ):
        with pytest.raises(Fault):
            crypto.parse_master_keys(text)


def test_a_key_record_is_sealed_anew_once_and_a_changed_one_never() -> None:
    issued = issue_key(BEFORE, APP, "publishable", now_ms=1)
    after = reseal_key(BETWEEN, issued.record)
    assert after is not None
    assert reveal_key(AFTER, after) == issued.text
    assert after.model_copy(update={"ciphertext": "", "mac": ""}) == issued.record.model_copy(
        update={"ciphertext": "", "mac": ""}
    )
    assert reseal_key(BETWEEN, after) is None
    for change in RELABELLED:
        with pytest.raises(Fault, match="key record"):
            reseal_key(BETWEEN, issued.record.model_copy(update=change))
    with pytest.raises(Fault, match="does not open"):
        reseal_key(AFTER, issued.record)
