from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cluster.local.haproxy_config import NAMED_ARCHIVE_PATH, HAProxyOptions, rewrite_ray_config
from cluster.process.free_ports import is_loopback
from cluster.runtime.ray_environment import is_behind_haproxy

OPTIONS = HAProxyOptions("haproxy", "0.0.0.0:8000", "/run/pid")
WRITTEN = """global
    tune.bufsize 16384
defaults
    mode http
frontend http_frontend
    bind 127.0.0.1:1
backend http-api
    server replica-0 127.0.0.1:2 check
listen stats
  bind *:40509
  stats enable
"""


def test_settings_come_from_the_environment_of_each_start(tmp_path: Path) -> None:
    OPTIONS.save(tmp_path / "wishes")
    written = json.loads((tmp_path / "wishes").read_text())
    (tmp_path / "wishes").write_text(json.dumps({**written, "of_a_newer_release": 1}))
    read = HAProxyOptions.load(tmp_path / "wishes")
    assert read == OPTIONS == read.with_environment({"PATH": "/bin"})
    given = read.with_environment(
        {
            "KIOSK_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.1",
            "KIOSK_ADDRESS_CONNECTIONS": "0",
            "KIOSK_ADDRESS_REQUESTS": "7",
            "KIOSK_ADDRESS_RATE": "9",
        }
    )
    assert given.networks == "10.0.0.0/8 192.0.2.1"
    assert (given.address_connections, given.address_requests, given.address_rate) == (0, 7, 9)


def test_bounds_of_nought_are_none() -> None:
    bounded = rewrite_ray_config(WRITTEN, OPTIONS)
    assert "sc0_conn_cur" in bounded
    assert "sc1_conn_cur" in bounded
    assert "sc1_http_req_rate" in bounded
    free = rewrite_ray_config(
        WRITTEN, OPTIONS.with_environment({"KIOSK_ADDRESS_CONNECTIONS": "0", "KIOSK_ADDRESS_RATE": "0"})
    )
    assert "sc0_conn_cur" not in free
    assert "sc1_http_req_rate" not in free


def test_only_named_proxies_are_believed() -> None:
    nobody, somebody = (
        rewrite_ray_config(WRITTEN, OPTIONS),
        OPTIONS.with_environment({"KIOSK_TRUSTED_PROXIES": "10.0.0.0/8"}),
    )
    assert "req.hdr_ip(x-forwarded-for" not in nobody
    assert "http-request set-header X-Forwarded-For %[src]" in nobody
    assert "track-sc1 src,ipmask(32,64)" in nobody
    written = rewrite_ray_config(WRITTEN, somebody)
    assert written.count("-m ip 10.0.0.0/8") == 3
    assert "track-sc1 var(txn.address),ipmask(32,64)" in written


def test_the_page_of_statistics_is_left_out() -> None:
    assert "stats" not in rewrite_ray_config(WRITTEN, OPTIONS)


def test_local_addresses_are_distinguished_from_others() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "", "::", "10.0.0.1", "*")] == [False] * 5
    assert is_behind_haproxy({"RAY_SERVE_ENABLE_HA_PROXY": "1"})
    assert not is_behind_haproxy({"RAY_SERVE_ENABLE_HA_PROXY": "0"})
    assert not is_behind_haproxy({})


def test_metrics_are_read_on_loopback_unless_a_setting_names_an_address() -> None:
    exporting = WRITTEN + "frontend prometheus\n    bind :9101\n    mode http\n"
    assert "    bind 127.0.0.1:9101" in rewrite_ray_config(exporting, OPTIONS)
    opened = OPTIONS.with_environment({"KIOSK_HAPROXY_METRICS": "0.0.0.0:9102"})
    written = rewrite_ray_config(exporting, opened)
    assert "    bind 0.0.0.0:9102" in written
    assert "9101" not in written


def test_the_readiness_check_passes_and_other_paths_of_serve_do_not() -> None:
    assert "!{ path /-/healthz /-/ready }" in rewrite_ray_config(WRITTEN, OPTIONS)


@pytest.mark.parametrize(
    ("path", "proves"),
    [
        ("/mcp/sports", True),
        ("/mcp/sports/", True),
        ("/mcp/sports/x", False),
        ("/mcp/sports/server-card", False),
        ("/mcp/a%2Fb", False),
        ("/mcp/", False),
        ("/mcp//", False),
        ("/mcp/sports//", False),
    ],
)
def test_only_addresses_of_archives_prove_a_token(path: str, proves: bool) -> None:
    assert f"path -m reg {NAMED_ARCHIVE_PATH}" in rewrite_ray_config(WRITTEN, OPTIONS)
    assert "path_beg /mcp/ }" not in rewrite_ray_config(WRITTEN, OPTIONS)
    assert bool(re.search(NAMED_ARCHIVE_PATH, path)) == proves
