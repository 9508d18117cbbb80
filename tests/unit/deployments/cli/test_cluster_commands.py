"""`kiosk cluster` and `kiosk node` before any Ray: what they refuse, and what to do instead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.crypto import parse_master_key
from cluster.errors import Fault, Invalid
from cluster.runtime.start_plan import StartPlan
from deployments.cli.command_line import command_line
from deployments.cli.installation.cluster_commands import (
    _check_proxies,
    _parse_replicas,
    _prepare,
    _run_bootstrap,
)
from tests.cluster.nodes import cluster as three_nodes

NOISY = """
import json, sys
print("AuthlibDeprecationWarning: use joserfc", file=sys.stderr)
print("INFO serve -- Deployed app 'api'", file=sys.stderr)
print(json.dumps({"event": "step_reached"}), file=sys.stderr)
print(json.dumps({"step": sys.argv[1] and STEP, "message": "a step", "after_s": 1.0}))
"""
"A start that does nothing but write as Ray, Serve and libraries do."


@pytest.mark.parametrize(("text", "numbers"), [("", (0, 0)), ("3", (3, 3)), ("3:12", (3, 12))])
def test_numbers_of_replicas(text: str, numbers: tuple[int, int]) -> None:
    assert _parse_replicas(text) == numbers


@pytest.mark.parametrize("text", ["x", "3:x", "4:3", "0:3", ":3", "-1"])
def test_numbers_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="MIN:MAX"):
        _parse_replicas(text)


def test_proxies_run_on_every_node_or_on_the_head() -> None:
    assert _check_proxies("HeadOnly") == "HeadOnly"
    with pytest.raises(Invalid, match="EveryNode or HeadOnly"):
        _check_proxies("Disabled")


def test_the_address_of_the_dashboard_is_for_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KIOSK_REDIS_URL", "redis://redis")
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(Invalid, match="ray job submit -- kiosk cluster up"):
        _prepare()


def test_without_a_shared_redis_nothing_is_deployed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    for name in ("KIOSK_REDIS_URL", "KIOSK_REDIS_URL_FILE", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Invalid, match="KIOSK_REDIS_URL_FILE"):
        _prepare()
    assert not (tmp_path / "master.key").exists()


@pytest.mark.parametrize("step", ["ready", "failed"])
def test_a_start_shows_lines_for_people_and_keeps_the_others_in_a_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "noisy_start.py").write_text(NOISY.replace("STEP", repr(step)))
    log, plan = tmp_path / "cluster-up.log", StartPlan("", 0, True, [], "")
    environment = {"PYTHONPATH": str(tmp_path)}
    if step == "ready":
        assert _run_bootstrap(plan, environment, log, "noisy_start")["step"] == "ready"
    else:
        with pytest.raises(Fault, match=r"a step; .*; more in .*cluster-up\.log"):
            _run_bootstrap(plan, environment, log, "noisy_start")
    shown = capfd.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", ["    1.0 s  a step"])
    assert [line.split()[0] for line in log.read_text().splitlines()] == [
        "AuthlibDeprecationWarning:", "INFO", '{"event":',
    ]  # fmt: skip


def test_a_node_needs_the_token_that_the_head_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = tmp_path / "redis.url"
    address.write_text("redis://redis")
    address.chmod(0o644)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KIOSK_REDIS_URL_FILE", str(address))
    for name in ("KIOSK_REDIS_URL", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(command_line(), ["node", "env"])
    assert isinstance(result.exception, Invalid)
    assert f"no token of Ray at {tmp_path}/ray.token" in result.exception.message
    result = CliRunner().invoke(command_line(), ["node", "env", "--head"])
    assert result.exit_code == 0
    assert f"chmod 600 {address}" in " ".join(result.stderr.split())
    assert (tmp_path / "ray.token").stat().st_mode & 0o777 == 0o600
    assert CliRunner().invoke(command_line(), ["node", "env"]).exit_code == 0


DOCS = Path(__file__).resolve().parents[4] / "docs" / "guides"


def test_the_lines_of_the_guide_write_secrets_that_only_their_owner_reads(tmp_path: Path) -> None:
    guide = (DOCS / "cluster.md").read_text()
    [lines] = [
        block for block in re.findall(r"```bash\n(.+?)```", guide, re.DOTALL) if "master.key" in block
    ][:1]
    folder = tmp_path / "kiosk"
    subprocess.run(
        ["bash", "-ec", f"umask 022\n{lines.replace('/etc/kiosk', str(folder))}"],
        check=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"kiosk": 0o700, "master.key": 0o600, "redis.url": 0o600}
    assert len(parse_master_key((folder / "master.key").read_text().strip())) == 32


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (
            "cluster.md",
            "With a bucket, export `KIOSK_ARTIFACTS_URL` as well: then it is a folder of each node, and",
        ),
        ("cluster.md", "scp -p /srv/kiosk/ray.token worker:/srv/kiosk/ray.token"),
        ("object-storage.md", "where every node needs one: it holds the token of Ray"),
        (
            "cluster.md",
            "names that DNS knows on every node. A name in `/etc/hosts` alone is not enough for Ray.",
        ),
        (
            "cluster.md",
            "the clients of these drills sent to the surviving nodes only. A load balancer that checks",
        ),
    ],
)
def test_the_guides_name_what_a_first_cluster_needs_and_what_the_drills_left_out(
    page: str, words: str
) -> None:
    assert words in " ".join((DOCS / page).read_text().split())


def test_the_guide_has_the_lines_that_start_the_drills() -> None:
    guide = (DOCS / "cluster.md").read_text()
    for lines in (three_nodes.HEAD, three_nodes.WORKER, three_nodes.UP):
        assert f"```bash\n{lines}\n" in guide
