"""The stand-in of a node's HAProxy, with a real HAProxy and without Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local import haproxy_watch
from cluster.local.haproxy_handover import LAST, find_predecessor
from cluster.local.haproxy_process import find_haproxy, write_image_wrapper
from cluster.local.haproxy_watch import HAProxyWatch
from cluster.process.free_ports import free_ports

pytestmark = pytest.mark.ray
CONFIG = """global
    stats socket {folder}/a.sock mode 600 level admin expose-fd listeners
defaults
    mode http
    timeout client 5s
frontend http_frontend
    http-request return status 200 content-type text/plain string "here"
    bind 127.0.0.1:{port}
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[HAProxyWatch, Path, int]]:
    """A node whose HAProxy has served and was killed."""
    folder, port = tmp_path / "h", free_ports(1)[0]
    folder.mkdir()
    write_image_wrapper(tmp_path, str(folder / "pid"))
    config = CONFIG.format(folder=folder, port=port)
    (folder / LAST).write_text(config)
    (folder / "haproxy.cfg").write_text(config)
    served = subprocess.Popen([find_haproxy(), "-db", "-f", str(folder / "haproxy.cfg")])
    (folder / "pid").write_text(f"{served.pid} {folder / 'haproxy.cfg'}\n")
    _await_answer(port)
    served.kill()
    served.wait()
    watch = HAProxyWatch(tmp_path / "haproxy", folder)
    yield watch, folder, port
    watch.end_stand_in()


def test_a_dead_haproxy_is_replaced_at_once(node: tuple[HAProxyWatch, Path, int]) -> None:
    watch, folder, port = node
    began = time.monotonic()
    watch.look()
    _await_answer(port)
    assert time.monotonic() - began < 3.0
    stand_in = find_predecessor(folder / "pid")
    assert stand_in
    # Serve's proxy actor must not find the admin socket of the stand-in under its own name.
    assert (folder / "stand-in").exists()
    watch.look()
    assert find_predecessor(folder / "pid") == stand_in


def test_a_stand_in_that_nobody_replaces_ends_for_good(
    node: tuple[HAProxyWatch, Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serve has removed the proxy from this node on purpose."""
    watch, folder, port = node
    monkeypatch.setattr(haproxy_watch, "LONGEST_S", 0.0)
    watch.look()
    _await_answer(port)
    stand_in = find_predecessor(folder / "pid")
    watch.look()
    watch.look()
    watch.look()
    assert find_predecessor(folder / "pid") == 0
    with pytest.raises(ProcessLookupError):
        os.kill(stand_in, signal.SIGCONT)


def _await_answer(port: int) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1) as reply:
                assert reply.read() == b"here"
                return
        except OSError:
            assert time.monotonic() < until, "no HAProxy answers"
            time.sleep(0.02)
