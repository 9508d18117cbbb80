"""Settings of the wrong type are one line that names the variable, whatever reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.errors import InvalidSetting
from cluster.settings import Settings
from deployments.cli.__main__ import command_line
from tests.kubernetes.service_links import service_links

ROOT = Path(__file__).resolve().parents[3]
CHECKED = (
    "artifacts_url", "artifacts_copy",
    "public_url", "trusted_proxies", "archive_origins", "api_nodes", "engine_nodes", "training_nodes",
    "trace_url", "haproxy_metrics", "edge_url", "archive_subjects",
    "archive_client_documents", "archive_pinned_clients", "archive_signed_agents",
)  # fmt: skip
NONSENSE = "95% of \x07 nothing\n:"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("disk_limit", "95%", "KIOSK_DISK_LIMIT: '95%' is no number between 0 and 1"),
        ("disk_limit", "1.5", "KIOSK_DISK_LIMIT: '1.5' is no number between 0 and 1"),
        ("port", "http", "KIOSK_PORT: 'http' is no whole number between 1 and 65,535"),
        ("llm_tokens", "7.5", "KIOSK_LLM_TOKENS: '7.5' is no whole number between 16 and 8,000"),
        ("address_rate", "-1", "KIOSK_ADDRESS_RATE: '-1' is no whole number from 0 on"),
        ("dashboard", "maybe", "KIOSK_DASHBOARD: 'maybe' is neither true nor false"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"KIOSK_{name.upper()}", value)
    with pytest.raises(InvalidSetting) as refused:
        Settings()
    assert refused.value.message == message


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_nonsense_in_any_setting_is_taken_as_text_or_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"KIOSK_{name.upper()}", NONSENSE)
    kind = str(Settings.model_fields[name].annotation)
    if any(word in kind for word in ("str", "Path", "Secret")) and name not in CHECKED:
        Settings()
        return
    with pytest.raises(InvalidSetting, match=rf"^KIOSK_{name.upper()}[^\n]*$"):
        Settings()


@pytest.mark.parametrize("name", ["master_key", "redis_url", "llm_key"])
def test_the_value_of_a_secret_is_never_repeated(name: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Settings(**{name: ["hunter2"]})
    assert "hunter2" not in refused.value.message
    assert f"KIOSK_{name.upper()}: its value" in refused.value.message


@pytest.mark.parametrize(
    "name", ["kiosk", "kiosk-redis", "kiosk-redis-url", "kiosk-master-key", "kiosk-host"]
)
def test_a_service_of_kubernetes_changes_no_setting(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    expected = Settings()
    for variable, value in service_links(name).items():
        monkeypatch.setenv(variable, value)
    settings = Settings()
    assert settings == expected
    assert "port" not in settings.model_fields_set


@pytest.mark.parametrize("link", ["tcp://10.0.0.1:80", "udp://[fd00::1]:53", "sctp://10.0.0.1:9"])
def test_a_port_of_a_service_is_no_port_of_ours(link: str) -> None:
    assert Settings(port=link).port == 8000
    assert Settings(port=9001).port == 9001


@pytest.mark.parametrize("value", ["http://10.0.0.1:80", "tcp://10.0.0.1", "tcp://10.0.0.1:80/x", "tcp://"])
def test_other_addresses_are_no_port(value: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^KIOSK_PORT: "):
        Settings(port=value)


def test_labels_of_nodes_become_options_of_ray() -> None:
    given = Settings(api_nodes="kiosk-group=api, zone.example.com/name=a", training_nodes="pool=big")
    assert given.node_options("api") == {
        "label_selector": {"kiosk-group": "api", "zone.example.com/name": "a"}
    }
    assert given.node_options("training") == {"label_selector": {"pool": "big"}}
    assert given.node_options("engine") == {}


@pytest.mark.parametrize("text", ["api", "=api", "group=", "group=in(a)", "a=b,c"])
def test_what_is_no_label_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^KIOSK_ENGINE_NODES names labels"):
        Settings(engine_nodes=text)


@pytest.mark.parametrize("line", [
    "up --json", "down", "status", "doctor", "keys list", "apps list", "users list", "train", "evaluate",
    "ingest x.csv --noun product --app a", "ingest archive x.xml --app a",
    "runs list a", "engines list a", "learners list",
])  # fmt: skip
def test_every_command_refuses_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KIOSK_DISK_LIMIT", "95%")
    result = CliRunner().invoke(command_line(), line.split())
    assert isinstance(result.exception, InvalidSetting), result.output


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("line", [
    "deployments.cli up --json", "deployments.cli models list", "jobs.ingest x.csv --noun product --app a",
    "jobs.refresh train a", "cluster.runtime.handover true",
])  # fmt: skip
def test_every_program_prints_one_line_and_exits_with_code_2(tmp_path: Path, line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *line.split()],
        env={"KIOSK_DATA_DIR": str(tmp_path), "KIOSK_DISK_LIMIT": "95%", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    # handover writes its line to the log, which escapes the quotes and goes to standard output
    output = (done.stderr + done.stdout if "handover" in line else done.stderr).strip()
    assert "KIOSK_DISK_LIMIT: " in output
    assert "is no number between 0 and 1" in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "0.0.0.0:9101", "10.0.0.5:9101", "[::]:9101"])
def test_the_address_of_haproxys_metrics_is_an_address_and_a_port(text: str) -> None:
    assert Settings(haproxy_metrics=text).haproxy_metrics == text
    for wrong in (
        "9101",
        "0.0.0.0",
        "0.0.0.0:0",
        "0.0.0.0:99999",
        "host:9101",
        "0.0.0.0:9101 ssl",
        "0.0.0.0:1\nlog",
    ):
        with pytest.raises(InvalidSetting, match=r"KIOSK_HAPROXY_METRICS"):
            Settings(haproxy_metrics=wrong)


def test_pinned_clients_have_an_absolute_path(tmp_path: Path) -> None:
    assert Settings(archive_pinned_clients=tmp_path).archive_pinned_clients == tmp_path
    assert Settings(archive_pinned_clients="~/pinned").archive_pinned_clients == Path.home() / "pinned"
    assert Settings(archive_pinned_clients="").archive_pinned_clients is None
    with pytest.raises(InvalidSetting, match="KIOSK_ARCHIVE_PINNED_CLIENTS must be absolute"):
        Settings(archive_pinned_clients="pinned")
