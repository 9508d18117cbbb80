"""`kiosk tokens`, `kiosk audit` and `kiosk users roles` on a stopped installation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.errors import Fault, Forbidden, Invalid, KioskError, NotFound
from cluster.store import keys
from deployments.cli.framework.installation import Installation
from tests.fakes.command_runner import run_command, run_json

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world", "connected_data_dir")]


def test_a_person_gets_roles_a_token_and_rows_of_both() -> None:
    run_json("apps", "create", "shop")
    run_json("users", "create", "ada")
    roles = run_json("users", "roles", "ada", "shop=editor")
    assert roles == {"username": "ada", "administrator": False, "roles": {"shop": "editor"}}
    made = run_json("tokens", "create", "report", "--user", "ada", "--app", "shop", "--days", "3")
    assert made["token"].startswith("kat_")
    (listed,) = run_json("tokens", "list")["tokens"]
    assert (listed["name"], listed["role"], listed["apps"]) == ("report", "viewer", ["shop"])
    assert "token" not in listed
    assert "report" in run_command("tokens", "list").output
    run_json("tokens", "revoke", made["token_id"])
    run_json("users", "roles", "ada", "shop=")
    assert "no role in any app" in run_command("users", "roles", "ada").output
    rows = run_json("audit", "list")["rows"]
    assert [row["operation"] for row in rows] == [
        "people.revoke_role", "tokens.revoke", "tokens.create", "people.grant_role", "people.create", "apps.create",
    ]  # fmt: skip
    assert {row["way"] for row in rows} == {"command line"}
    assert made["token"] not in json.dumps(rows)
    assert [
        row["operation"] for row in run_json("audit", "list", "--operation", "tokens", "--limit", "1")["rows"]
    ] == ["tokens.revoke"]
    exported = [json.loads(line) for line in run_command("audit", "export").stdout.splitlines()]
    assert exported[:-1] == rows[::-1]
    assert exported[-1]["operation"] == "audit.export"
    verdict = run_json("audit", "verify")
    assert (verdict["whole"], verdict["rows"], verdict["chain"]) == (True, 7, exported[-1]["chain"])
    _tamper(rows[2]["row_id"])
    broken = run_command("audit", "verify")
    assert isinstance(broken.exception, Fault)
    assert rows[1]["row_id"] in str(broken.exception)
    assert run_command("audit", "verify", "--json").exit_code == 1


def _tamper(row_id: str) -> None:
    async def remove(keeping: Any, stores: Any) -> None:
        await stores.server.execute_slow("XDEL", keys.audit_row(), row_id)

    Installation().administer(remove)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("users", "roles", "ada", "shop"), Invalid),
        (("users", "roles", "ada", "moon=viewer"), NotFound),
        (("users", "roles", "nobody"), NotFound),
        (("tokens", "create", "x", "--user", "nobody"), NotFound),
        (("tokens", "revoke", "tok-1"), NotFound),
    ],
)
def test_impossible_commands_raise_errors(words: tuple[str, ...], error: type[KioskError]) -> None:
    run_json("users", "create", "ada")
    assert isinstance(run_command(*words).exception, error)
    assert not isinstance(run_command(*words).exception, Forbidden)
