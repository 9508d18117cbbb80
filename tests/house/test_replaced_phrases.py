"""Texts of console, command line, demonstrations and operations use the words of the field, not those we replaced."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.tree import ROOT

REPLACED = {
    "Half answered within": "Latency p50",
    "99 of 100": "p99",
    "All is well": "All systems operational",
    "Memory of Redis": "Redis memory",
    "Uploads waiting": "Pending uploads",
    "Engine behind by": "Replication lag",
    "Newest change": "Last update",
    "What served the last minute": "Served by, last minute",
    "Look somebody up": "Find a user",
    "Readers of ": "APP · Users",
    "Access to {": "APP · Access",
    "Models of {": "APP · Models",
    "Catalog of {": "APP · Catalog",
    "What became of it": "Performance",
    "How it is found": "Search index",
    "Nobody met it": "No visitors yet",
    "95 % for all looks": "95% confidence interval (sequential)",
    "The split is as intended": "Traffic split is healthy",
    "is ordered": "is queued",
    "holds from now on": "saved",
    "The switches hold": "Settings saved",
    "The limits hold": "Limits saved",
    "The most it allows": "Maximum role",
    "reader: signs in": "Member: no access until you grant a role",
    "Hand it over": "Share it securely",
    "Queries a second": "Query limit (per second)",
    "Writes a second": "Write limit (per second)",
    "requests a second": "requests/s",
    "Serve nothing that was learned": "Disable the model",
    "nothing that was learned": "no trained model",
    "Replicas at rest": "Minimum replicas",
    "Replicas under load": "Maximum replicas",
    "Seconds of load before": "Scale-up delay",
    "Sign between cells": "Delimiter",
    '= "Words"': "Search",
    "Id begins with": "ID prefix",
    "CSV that is not read well": "CSV options",
    "Read on even if": "Continue even if",
    "want one place": "compete for a position",
    "ranks it high": "a reason in plain words",
    "deal with it together": "Viewed or bought together",
    "do not belong together": "Incorrect user name or password",
    "This did not work": "Something went wrong",
    "made no sense": "invalid rows",
    "{count} not helpful": "Feedback: 0 positive, 0 negative",
    "Most asked": "Top queries",
    "Found nothing": "No-result rate",
    "dealt with": "viewed or bought",
    "shut out": "refused",
    "at place ": "at position",
    "places differ": "positions differ",
    "search: *": "Search: all products",
    'open = "open"': "Not significant yet",
    "readers of history": "users of history threads",
    "readers get": "users get",
}
"Phrase -> what stands there now."
PLACES = (
    "deployments/console", "deployments/cli", "deployments/operations", "deployments/demo", "deployments/archive",
    "actors/experiments", "cluster/records", "jobs/refresh/learners",
)  # fmt: skip
KINDS = {".toml", ".html", ".py", ".js"}


def _texts() -> dict[str, str]:
    paths = (path for place in PLACES for path in (ROOT / place).rglob("*") if path.suffix in KINDS)
    return {
        str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths if ".min." not in path.name
    }


def test_no_label_of_a_benchmark_has_a_replaced_word() -> None:
    labels = [
        node.value
        for path in (ROOT / "tests" / "benchmarks").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200
    ]
    assert len(labels) > 500
    assert [label for label in labels if re.search(r"\bdoor\b|\bplacement own\b", label)] == []


@pytest.mark.parametrize("phrase", REPLACED)
def test_no_text_has_a_replaced_phrase(phrase: str) -> None:
    assert [name for name, text in _texts().items() if phrase in text] == [], f"write {REPLACED[phrase]!r}"
