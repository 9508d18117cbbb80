"""The overview names components in the words of people who run a business."""

from __future__ import annotations

from cluster.store.installation.leases import LEASES
from deployments.console.pages.installation_overview import describe_findings
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.operations.insight.installation_checks import Finding, check_lease


def test_a_healthy_installation_shows_no_lease_schema_or_owner() -> None:
    findings = [
        *(check_lease(name, "20753 3fbcae4bbd1ccf29", 5_900) for name in LEASES),
        Finding("release", "ok", "data has schema 7, this release 7; runs: 0.1.0 (schema 7)"),
        Finding("redis persistence", "ok", "append-only file on, last write good"),
        Finding("disk", "ok", "41% used, 61.3 GiB free"),
    ]
    rows = describe_findings(findings, ConsoleTexts())
    assert [row["words"] for row in rows[: len(LEASES)]] == ["running"] * len(LEASES)
    shown = " ".join(row["label"] + " " + row["words"] for row in rows)
    for word in ("lease", "schema", "append-only", "3fbcae4bbd1ccf29"):
        assert word not in shown
    assert "41% used, 61.3 GiB free" in shown


def test_what_is_wrong_comes_first_with_its_cause_and_advice() -> None:
    findings = [
        Finding("disk", "ok", "41% used"),
        check_lease("intake", "", 0),
        Finding("log laden", "warning", "an engine is 90 s behind the change log"),
    ]
    rows = describe_findings(findings, ConsoleTexts())
    assert [row["level"] for row in rows] == ["bad", "warning", "ok"]
    assert rows[0]["label"] == "Intake of uploads"
    assert rows[0]["words"].startswith("not running. Run kiosk up")
    assert rows[1] == {
        "label": "log laden",
        "level": "warning",
        "words": "an engine is 90 s behind the change log",
    }
