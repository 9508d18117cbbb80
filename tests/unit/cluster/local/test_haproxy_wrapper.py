"""What HAProxy takes over: the list of replicas while Serve names none, and listening sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.haproxy_config import HAProxyOptions
from cluster.local.haproxy_handover import LAST
from cluster.local.haproxy_wrapper import build_command, restore_replicas

FULL = """global
    stats socket /x/a.sock mode 600
frontend http_frontend
    bind *:8000
    http-request return status 200 content-type text/plain string "success" if healthcheck backend_up
    http-request return status 503 content-type text/plain string "Service Unavailable" if healthcheck
backend http-api
    server one 10.0.0.1:30000 check
"""
EMPTY = """global
    stats socket /x/b.sock mode 600
frontend http_frontend
    bind *:8000
"""
DRAINING = (
    EMPTY
    + """    # Override: force health checks to fail (used by drain/disable)
    http-request return status 503 content-type text/plain string "draining" if healthcheck
"""
)


@pytest.fixture
def options(tmp_path: Path) -> HAProxyOptions:
    return HAProxyOptions("/bin/haproxy", "", str(tmp_path / "pid"))


def test_replicas_stay_while_serve_builds_the_application_again(
    options: HAProxyOptions, tmp_path: Path
) -> None:
    assert restore_replicas(FULL, options, reload=True) == FULL
    kept = restore_replicas(EMPTY, options, reload=True)
    assert kept == FULL.replace("/x/a.sock", "/x/b.sock")
    assert (tmp_path / LAST).read_text() == FULL


def test_a_new_list_replaces_the_kept_one(options: HAProxyOptions) -> None:
    restore_replicas(FULL, options, reload=True)
    moved = FULL.replace("10.0.0.1", "10.0.0.2")
    assert restore_replicas(moved, options, reload=True) == moved
    assert "10.0.0.2" in restore_replicas(EMPTY, options, reload=True)


def test_the_first_haproxy_of_a_ray_begins_with_nothing(options: HAProxyOptions, tmp_path: Path) -> None:
    restore_replicas(FULL, options, reload=True)
    assert restore_replicas(EMPTY, options, reload=False) == EMPTY
    assert not (tmp_path / LAST).exists()
    assert restore_replicas(EMPTY, options, reload=True) == EMPTY


def test_a_draining_node_goes_on_failing_its_health_check(options: HAProxyOptions) -> None:
    restore_replicas(FULL, options, reload=True)
    kept = restore_replicas(DRAINING, options, reload=True)
    assert "server one" in kept
    assert kept.count("if healthcheck") == 1
    assert '503 content-type text/plain string "draining" if healthcheck' in kept


@pytest.fixture
def predecessor(options: HAProxyOptions) -> Iterator[int]:
    """A live process with the command line of an HAProxy of this installation, noted in the pid file."""
    script = "import sys; print(flush=True); sys.stdin.read()"
    command = (sys.executable, "-c", script, "haproxy", options.pid_file)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # Linux shows an empty command line for a moment after the process started.
        Path(options.pid_file).write_text(f"{process.pid} /x/haproxy.cfg\n")
        yield process.pid


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("place", ["stand-in", "of-a-proxy-actor/stand-in", "of-a-proxy-actor/a.sock"])
def test_listening_sockets_come_from_whoever_serves(
    options: HAProxyOptions, predecessor: int, tmp_path: Path, place: str
) -> None:
    config = FULL.replace("/x/a.sock", f"{tmp_path}/of-a-proxy-actor/a.sock")
    (tmp_path / "of-a-proxy-actor").mkdir()
    with socket.socket(socket.AF_UNIX) as admin:
        admin.bind(str(tmp_path / place))
        admin.listen()
        words = build_command(["-f", "haproxy.cfg"], options, config)
    assert words[-4:] == ["-sf", str(predecessor), "-x", str(tmp_path / place)]
