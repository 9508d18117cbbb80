"""`kiosk users` on a stopped installation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cluster.errors import Conflict, Invalid, NotFound
from cluster.settings import Settings
from tests.fakes.command_runner import run_command, run_json

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world", "connected_data_dir")]
_run = partial(run_command, "users")
_run_json = partial(run_json, "users")


def test_somebody_is_made_listed_locked_and_given_a_new_password() -> None:
    made = _run_json("create", "Ada")
    assert (made["username"], made["role"], made["disabled"]) == ("ada", "reader", False)
    assert len(made["password"]) >= 16
    assert _run_json("password", "ada")["password"] != made["password"]
    assert _run_json("disable", "ada") == {"username": "ada", "disabled": True, "disconnected": 0}
    (listed,) = _run_json("list")["users"]
    assert (listed["username"], listed["disabled"], listed["user_id"]) == ("ada", True, made["user_id"])
    assert "password" not in listed
    assert not _run_json("enable", "ada")["disabled"]
    assert _run_json("clients", "ada")["clients"] == []
    assert _run_json("disconnect", "ada")["disconnected"] == 0


def test_a_password_from_standard_input_is_not_repeated() -> None:
    made = _run("create", "ada", "--role", "administrator", "--password-stdin", typed="a secret of hers\n")
    assert made.exit_code == 0
    assert "secret" not in made.output
    assert "administrator" in _run("list").output


def test_impossible_commands_raise_errors() -> None:
    assert isinstance(_run("create", "no spaces").exception, Invalid)
    assert isinstance(_run("create", "ada", "--role", "king").exception, Invalid)
    assert isinstance(_run("create", "ada", "--password-stdin", typed="").exception, Invalid)
    assert isinstance(_run("create", "ada", "--password-stdin", typed="short\n").exception, Invalid)
    assert isinstance(_run("disable", "nobody").exception, NotFound)
    _run_json("create", "ada")
    assert isinstance(_run("create", "ada").exception, Conflict)
    assert isinstance(_run("disconnect", "ada", "g1").exception, NotFound)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://news.example.com", "https://news.example.com"),
        ("https://news.example.com/", "https://news.example.com"),
        ("https://news.example.com:8443", "https://news.example.com:8443"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://localhost", "http://localhost"),
    ],
)
def test_a_public_address_is_an_origin(given: str, kept: str) -> None:
    assert Settings(public_url=given).public_url == kept


def test_origins_of_pages_are_written_one_way() -> None:
    given = " https://Tools.example.com:443/, http://localhost:6274 ,,Chrome-Extension://abc"
    kept = "https://tools.example.com,http://localhost:6274,chrome-extension://abc"
    assert Settings(archive_origins=given).archive_origins == kept


@pytest.mark.parametrize(
    "given",
    [
        "tools.example.com", "https://tools.example.com/app", "*", "null", "https://a@b", "https://[", "file:///x",
        "https://tools.example.com https://b.example", "https://tools.example.com,*.example.com",
        "https://*.example.com",
    ],
)  # fmt: skip
def test_a_page_that_is_no_origin_stops_the_start(given: str) -> None:
    with pytest.raises(Invalid):
        Settings(archive_origins=given)


@pytest.mark.parametrize(
    "given",
    [
        "http://news.example.com", "https://news.example.com/sub", "https://a@news.example.com", "news.example.com",
        "ftp://news.example.com", "https://", "https://a b", "https://news.example.com?x", "http://127.0.0.1.evil.net",
        "https://[", "http://localhost:8000#f", "https://news.example.com//",
    ],
)  # fmt: skip
def test_plain_http_and_everything_that_is_no_origin_stops_the_start(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_PUBLIC_URL", given)
    with pytest.raises(Invalid):
        Settings()


def test_an_account_is_deleted_for_good_and_the_last_administrator_stays(tmp_path: Path) -> None:
    _run_json("create", "ada", "--role", "administrator")
    assert isinstance(_run("delete", "ada").exception, Conflict)
    _run_json("create", "grace", "--role", "administrator")
    assert _run_json("delete", "Ada") == {"username": "ada", "deleted": True, "disconnected": 0}
    assert [user["username"] for user in _run_json("list")["users"]] == ["grace"]
    assert isinstance(_run("delete", "ada").exception, NotFound)
    assert _run_json("create", "ada")["role"] == "reader"


def test_an_invitation_is_made_listed_and_revoked() -> None:
    made = _run_json("invite", "Ada", "--role", "administrator", "--hours", "4")
    assert (made["username"], made["role"], made["expires_at"] - made["created_at"]) == (
        "ada", "administrator", 4 * 3_600_000,
    )  # fmt: skip
    assert made["link"].startswith("/console/invitation?token=kiv_")
    token = made["link"].partition("=")[2]
    listed = _run("invitations").output
    assert "administrator" in listed
    assert token not in listed
    shown = _run("invite")
    assert "shown this once" in shown.output
    assert "KIOSK_PUBLIC_URL" in shown.output
    revoked = _run_json("revoke-invitation", made["invitation_id"])
    assert revoked == {"invitation_id": made["invitation_id"], "revoked": True}
    assert isinstance(_run("revoke-invitation", made["invitation_id"]).exception, NotFound)
    assert isinstance(_run("invite", "--role-in", "bookshop").exception, Invalid)
    assert len(_run_json("invitations")["invitations"]) == 1
