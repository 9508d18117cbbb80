"""Every place that checks a password asks for the second factor, or stands behind a session that did."""

from __future__ import annotations

import ast

from tests.house.tree import ROOT

ALLOWED = {
    # The one sign-in: it asks for the factor itself.
    "deployments/sign_in/sign_in.py": ("has_second_factor", "check_code"),
    # Runs the slow hash for the sign-in.
    "deployments/sign_in/password_checks.py": (),
    # Changes by somebody whose session passed the sign-in.
    "deployments/operations/access/account_security.py": ("_account",),
}
CHECKS = {"check_password", "PasswordChecks"}


def _uses(text: str) -> set[str]:
    imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in imports for alias in node.names} & CHECKS


def test_passwords_are_checked_in_the_one_sign_in_only() -> None:
    using = {}
    for package in ("cluster", "actors", "jobs", "deployments"):
        for path in (ROOT / package).rglob("*.py"):
            if _uses(text := path.read_text()):
                using[path.relative_to(ROOT).as_posix()] = text
    assert set(using) == set(ALLOWED)
    for name, needed in ALLOWED.items():
        assert [word for word in needed if word not in using[name]] == [], name
