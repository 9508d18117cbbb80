"""`kiosk apps` and `kiosk keys` on a stopped installation: its Redis runs for as long as the command takes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cluster.crypto import recognise_key
from cluster.errors import Conflict, Invalid, KioskError
from cluster.paths import InstallationPaths
from cluster.process.installation_processes import list_processes
from cluster.process.installation_state import InstallationLock
from cluster.records.apps import SWITCHES, AppSettings
from tests.fakes.command_runner import run_command, run_json

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
def places(data_dir: Path) -> InstallationPaths:
    return InstallationPaths.from_data_dir(data_dir)


def test_an_app_is_made_listed_and_limited_while_everything_is_stopped(places: InstallationPaths) -> None:
    assert run_json("apps", "list") == {"apps": []}
    made = run_json("apps", "create", "bookshop", "--environment", "production")
    assert recognise_key(made["secret_key"]) is not None
    named = run_json("apps", "display-name", "bookshop", "The Book Shop")
    assert (named["app_id"], named["display_name"]) == ("bookshop", "The Book Shop")
    assert run_json("apps", "limit", "bookshop", "--queries", "200")["queries_per_s"] == 200
    (listed,) = run_json("apps", "list")["apps"]
    assert (listed["app_id"], listed["environment"]) == ("bookshop", "production")
    assert listed["limits"]["queries_per_s"] == 200
    assert list_processes(places) == []
    assert not places.run_dir.exists()
    assert not places.redis_url.exists()


@pytest.mark.usefixtures("connected_data_dir")
def test_switches_are_shown_and_turned_and_a_wrong_one_changes_nothing() -> None:
    run_json("apps", "create", "bookshop")
    assert run_json("apps", "switch", "bookshop")["bot_rule"] == "log", (
        "development only logs automated requests"
    )
    turned = run_json(
        "apps", "switch", "bookshop", "bot_rule=log", "strict_user_hash=true", "service_id_aliases=a,b"
    )
    assert (turned["bot_rule"], turned["strict_user_hash"], turned["service_id_aliases"]) == (
        "log",
        True,
        ["a", "b"],
    )
    for wrong in ("bot_rule=perhaps", "strict_user_hash=rather", "limits=1", "bot_rule"):
        refused = run_command("apps", "switch", "bookshop", wrong, "--json")
        assert refused.exit_code != 0
        assert wrong.partition("=")[0] in str(refused.exception)
    assert run_json("apps", "switch", "bookshop") == turned


def test_every_switch_has_words_for_people() -> None:
    assert set(SWITCHES) == set(AppSettings.model_fields) - {"limits"}


@pytest.mark.usefixtures("connected_data_dir")
def test_keys_are_listed_revealed_rotated_and_revoked() -> None:
    made = run_json("apps", "create", "bookshop")
    hidden = run_json("keys", "list")["keys"]
    assert [entry["kind"] for entry in hidden] == ["secret", "publishable"]
    assert all("key" not in entry for entry in hidden)
    run_json("apps", "create", "bookstore")
    for words in (("bookshop",), ("--app", "bookshop"), ("bookshop", "--app", "bookshop")):
        assert run_json("keys", "list", *words)["keys"] == hidden
    assert isinstance(run_command("keys", "list", "bookshop", "--app", "bookstore").exception, Invalid)
    shown = {
        entry["kind"]: entry["key"] for entry in run_json("keys", "list", "bookshop", "--reveal")["keys"]
    }
    assert shown == {"secret": made["secret_key"], "publishable": made["publishable_key"]}
    rotated = run_json("keys", "rotate", "bookshop", "--kind", "secret")
    assert set(rotated) == {"app_id", "secret_key"}
    left = {entry["kind"]: entry for entry in run_json("keys", "list", "bookshop", "--reveal")["keys"]}
    assert left["secret"]["key"] == rotated["secret_key"] != made["secret_key"]
    assert left["publishable"]["key"] == made["publishable_key"]
    revoked = run_json("keys", "revoke", left["publishable"]["key_id"])
    assert revoked["revoked"] is True
    assert [entry["kind"] for entry in run_json("keys", "list", "bookshop")["keys"]] == ["secret"]


@pytest.mark.usefixtures("connected_data_dir")
def test_people_get_a_table_and_keys_on_separate_lines() -> None:
    made = run_command("apps", "create", "bookshop")
    assert "App bookshop is made." in made.stdout
    assert sum(recognise_key(line.split()[-1]) is not None for line in made.stdout.splitlines()[1:]) == 2
    assert "strict_user_hash" not in made.stdout
    production = run_command("apps", "create", "bookstore", "--environment", "production")
    assert "kiosk apps switch bookstore strict_user_hash=true" in production.stdout
    assert "bookshop" in run_command("apps", "list").stdout
    listed = run_command("keys", "list").stdout
    assert "ksk_dev_..." in listed
    assert not any(recognise_key(word) for word in listed.split())


@pytest.mark.usefixtures("connected_data_dir")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("apps", "create", "Book Shop"), "up to 64 lower case letters"),
        (
            ("apps", "create", "x", "--environment", "mars"),
            "choose one of playground, development, production",
        ),
        (("keys", "rotate", "nope"), "there are: none"),
        (("keys", "rotate", "nope", "--kind", "golden"), "choose secret, publishable or both"),
        (("keys", "revoke", "key-nope"), "see `kiosk keys list`"),
    ],
)
def test_errors_say_what_to_do_next(words: tuple[str, ...], advice: str) -> None:
    result = run_command(*words)
    assert isinstance(result.exception, KioskError)
    assert advice in result.exception.message


def test_a_command_steps_back_while_another_works_on_the_stopped_installation(
    places: InstallationPaths,
) -> None:
    places.make()
    lock = InstallationLock(places.lock)
    assert lock.acquire()
    try:
        # Whoever holds the lock without a Redis is about to start one, or to stop it.
        result = run_command("apps", "list")
        assert isinstance(result.exception, Conflict)
        assert "try again in a moment" in result.exception.message
    finally:
        lock.release()
        shutil.rmtree(places.run_dir)
