"""`kiosk doctor` says whose code may run, who signed the artifacts, and where secrets stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.admin.allowed_learners import allow_learner
from cluster.admin.master_keys import ensure_master_key
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.process.artifact_access import open_artifact_store
from cluster.settings import SECRET_VARIABLES, Settings
from cluster.store.administration.audit_chain import AuditVerdict
from deployments.cli.doctor import security_checks
from deployments.cli.framework.installation import Installation
from tests.fakes import generated_market


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    for name in SECRET_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(security_checks, "list_processes", lambda places: [])
    settings = Settings(data_dir=tmp_path)
    ensure_master_key(settings)
    return Installation(settings)


def test_allowed_learners_are_named(installation: Installation) -> None:
    assert "only the built-in" in security_checks.check_learners(installation).words
    allow_learner(installation.settings, "shop.markov:Markov")
    assert "shop.markov:Markov may run, with all rights" in security_checks.check_learners(installation).words


def test_secrets_in_the_shell_are_reported(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [finding.level for finding in security_checks.check_secrets(installation)] == ["ok"]
    monkeypatch.setenv("KIOSK_LLM_KEY", "canary")
    (finding,) = security_checks.check_secrets(installation)
    assert (finding.level, "canary" in finding.words) == ("warning", False)
    assert "KIOSK_LLM_KEY_FILE" in finding.advice


@pytest.mark.parametrize(
    ("verdict", "level", "words"),
    [
        (AuditVerdict(9, proven_from="1-0", chain="c" * 64), "ok", "9 rows, proven"),
        (AuditVerdict(9), "warning", "9 rows without a proof"),
        (AuditVerdict(4, broken_at="5-0", reason="rows were removed"), "bad", "row 5-0: rows were removed"),
    ],
)
def test_an_audit_log_that_was_changed_is_bad(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, verdict: AuditVerdict, level: str, words: str
) -> None:
    monkeypatch.setattr(installation, "perform", lambda operation: verdict)
    finding = security_checks.check_audit(installation)
    assert (finding.level, words in finding.words, bool(finding.advice)) == (level, True, level != "ok")


@pytest.mark.parametrize(("mode", "level"), [(0o644, "bad"), (0o440, "ok"), (0o600, "ok")])
def test_a_file_with_a_secret_that_every_user_can_read_is_bad(
    mode: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security_checks, "list_processes", lambda places: [])
    key = tmp_path / "given.key"
    key.write_text("canary")
    key.chmod(mode)
    given = Installation(Settings(data_dir=tmp_path, master_key_file=key))
    (finding,) = security_checks.check_secrets(given)
    assert finding.level == level
    assert (f"chmod 600 {key}" in finding.advice) is (level == "bad")
    assert "canary" not in f"{finding.words} {finding.advice}"


def test_secrets_in_processes_of_the_installation_are_bad(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leaking:
        def environ(self) -> dict[str, str]:
            return {"KIOSK_MASTER_KEY": "canary"}

        def name(self) -> str:
            return "redis-server"

    monkeypatch.setattr(security_checks, "list_processes", lambda places: [Leaking()])
    (finding,) = security_checks.check_secrets(installation)
    assert (finding.level, finding.words) == ("bad", "KIOSK_MASTER_KEY in redis-server")


def test_unsigned_manifests_are_reported(installation: Installation) -> None:
    artifacts_dir = Path(installation.settings.artifacts_address)
    assert security_checks.check_artifacts(installation).words == "none yet"
    generated_market.settle(
        SegmentStore(open_artifact_store(installation.settings)),
        generated_market.table(600, 60, 30, topics=3),
    )
    assert (
        security_checks.check_artifacts(installation).words
        == "all 1 manifests are signed by this installation"
    )
    generated_market.settle(
        SegmentStore(ArtifactStore.open(artifacts_dir)),
        generated_market.table(600, 60, 30, topics=3),
        app_id="other",
    )
    assert "the next `kiosk up` signs them" in security_checks.check_artifacts(installation).words
    installation.places.signing_marker.write_text("yes")
    finding = security_checks.check_artifacts(installation)
    assert (finding.level, "kiosk artifacts sign" in finding.advice) == ("bad", True)
    (artifacts_dir / "other" / "segments" / "manifest-000000000001.json").write_text("{}")
    assert "damaged" in security_checks.check_artifacts(installation).words
