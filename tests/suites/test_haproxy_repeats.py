"""A real HAProxy before made-up replicas: which requests it sends to another replica."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cluster.errors import Fault
from cluster.local.haproxy_config import UNSENT, HAProxyOptions, rewrite_ray_config
from cluster.local.haproxy_process import find_haproxy
from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.runtime.ray_environment import serving_environment
from deployments.edge.http.errors import UNSENT_STATUS
from tests.cluster.nodes.machine import Network, missing_right
from tests.suites.waiting import wait_until


def _missing() -> str:
    try:
        find_haproxy()
    except Fault as error:
        return error.message
    return ""


pytestmark = pytest.mark.skipif(bool(_missing()), reason=_missing() or "none")

SERVES = """global
    maxconn 100
defaults
    mode http
    option redispatch 1
    retry-on {retry_on}
    retries 2
    balance roundrobin
frontend http_frontend
    bind 127.0.0.1:{port}
    acl is_http-api path_beg /
    use_backend http-api if is_http-api
    default_backend default_backend
backend default_backend
    http-request return status 404
backend http-api
    option httpchk GET /-/healthz
    http-check expect status 200
    default-server fastinter 250ms downinter 250ms fall 1 rise 3 inter 60s check
{servers}
"""
"The parts of Serve's configuration that matter here."
RETRY_ON = serving_environment(InstallationPaths.from_data_dir(Path("/x")), Path("/x"))[
    "RAY_SERVE_HAPROXY_RETRY_ON"
]


class Server(ThreadingHTTPServer):
    """A server that says nothing when a client ends a connection."""

    def handle_error(self, *_: object) -> None:
        """Write nothing."""


@dataclass
class Replica:
    """A server that answers each request with one status, and counts them."""

    status: int = 200
    drops: bool = False
    "Whether it ends the connection without an answer."
    well_after: int = 0
    "Number of requests for one path after which it answers 200; 0: never."
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        replica = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                is_check = self.path.startswith("/-/")
                self.rfile.read(int(self.headers.get("content-length", 0)))
                if not is_check:
                    replica.paths.append(f"{self.command} {self.path}")
                    if replica.drops:
                        self.close_connection = True
                        self.connection.shutdown(socket.SHUT_RDWR)
                        return
                count = replica.paths.count(f"{self.command} {self.path}")
                is_well = is_check or count > replica.well_after > 0
                self.send_response(200 if is_well else replica.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = do_PUT = do_DELETE = _answer

            def log_message(self, *_: object) -> None:
                """Write no log."""

        self.server = Server(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"


@contextlib.contextmanager
def proxy(folder: Path, addresses: list[str]) -> Iterator[str]:
    """Run HAProxy before servers; yield its URL."""
    [port] = free_ports(1)
    servers = "\n".join(f"    server s{at} {address} check" for at, address in enumerate(addresses))
    options = HAProxyOptions("haproxy", "", str(folder / "pid"), address_rate=0, address_requests=0)
    path = folder / "haproxy.cfg"
    path.write_text(rewrite_ray_config(SERVES.format(port=port, servers=servers, retry_on=RETRY_ON), options))
    log = folder / "haproxy.log"
    with log.open("w") as out:
        running = subprocess.Popen([find_haproxy(), "-db", "-f", str(path)], stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: running.poll() is not None or send(url, "GET", "/v1/products/up")[0] > 0)
        assert running.poll() is None, log.read_text()
        yield url
    finally:
        running.terminate()
        running.wait()


def send(url: str, method: str, path: str, timeout_s: float = 15.0) -> tuple[int, float]:
    """Send a request; return its status, 0 without an answer, and how many seconds that took."""
    body = b"{}" if method in ("POST", "PUT") else None
    request = urllib.request.Request(url + path, body, {"X-API-KEY": "ksk_x"}, method=method)
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError:
        status = 0
    return status, time.monotonic() - began_s


READS = (("GET", "/v1/products/a"), ("POST", "/v1/recommendation/user_to_products"))
WRITES = (("POST", "/v1/interactions"), ("PUT", "/v1/users/u"), ("DELETE", "/v1/products/a"))


@pytest.mark.usefixtures("allow_world")
def test_a_write_that_no_replica_began_is_sent_to_another_replica(tmp_path: Path) -> None:
    assert UNSENT == UNSENT_STATUS
    away, well = Replica(status=UNSENT), Replica()
    with proxy(tmp_path, [away.address, well.address]) as url:
        for method, path in WRITES * 4:
            assert send(url, method, path)[0] == 200
        begun = len([path for path in away.paths if path != "GET /v1/products/up"])
        assert begun >= 3
        assert len([path for path in well.paths if path != "GET /v1/products/up"]) == 4 * len(WRITES)


@pytest.mark.usefixtures("allow_world")
def test_a_read_for_which_redis_was_late_is_sent_again(tmp_path: Path) -> None:
    assert str(RETRY_ON).split()[-1] == str(UNSENT)
    late, well = Replica(status=UNSENT), Replica()
    with proxy(tmp_path, [late.address, well.address]) as url:
        for method, path in READS * 4:
            assert send(url, method, path)[0] == 200
        assert len([path for path in late.paths if path != "GET /v1/products/up"]) >= 3
    alone = Replica(status=UNSENT, well_after=2)
    with proxy(tmp_path, [alone.address]) as url:
        assert send(url, *READS[0])[0] == 200
        assert alone.paths.count("GET /v1/products/a") == 3


@pytest.mark.usefixtures("allow_world")
def test_without_any_replica_that_reaches_redis_a_client_gets_503(tmp_path: Path) -> None:
    replicas = [Replica(status=UNSENT), Replica(status=UNSENT)]
    with proxy(tmp_path, [replica.address for replica in replicas]) as url:
        assert [send(url, *request)[0] for request in (*WRITES, *READS)] == [503] * 5
        assert all(replica.paths for replica in replicas)


@pytest.mark.usefixtures("allow_world")
def test_other_refusals_and_lost_writes_are_not_repeated(tmp_path: Path) -> None:
    busy = [Replica(status=503), Replica(status=503)]
    with proxy(tmp_path, [replica.address for replica in busy]) as url:
        before = sum(len(replica.paths) for replica in busy)
        assert [send(url, *request)[0] for request in WRITES] == [503] * 3
        assert sum(len(replica.paths) for replica in busy) - before == 3
    lost = [Replica(drops=True), Replica(drops=True)]
    with proxy(tmp_path, [replica.address for replica in lost]) as url:
        before = sum(len(replica.paths) for replica in lost)
        assert send(url, "POST", "/v1/interactions")[0] == 503
        assert sum(len(replica.paths) for replica in lost) - before == 1
        assert send(url, *READS[1])[0] == 503
        assert sum(len(replica.paths) for replica in lost) - before == 4


NODE = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 8100))
def serve(line):
    while True:
        read = b""
        while b"\\r\\n\\r\\n" not in read:
            read += line.recv(65536) or sys.exit()
        if b"user_to_products" in read or b"interactions" in read:
            open(sys.argv[2], "a").write("x")
        else:
            line.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\n{}")
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
"A replica on another node. It takes recommendations and interactions and never answers them."


@pytest.mark.usefixtures("allow_world")
@pytest.mark.skipif(bool(missing_right()), reason=missing_right() or "none")
def test_reads_at_a_node_without_power_are_repeated_after_three_seconds(tmp_path: Path) -> None:
    network, well, taken = Network(), Replica(), tmp_path / "taken"
    node = network.machine(2, shared=(tmp_path,))
    serving = node.start(sys.executable, "-c", NODE, node.address, str(taken), log=tmp_path / "log")
    try:
        wait_until(lambda: _listens(node.address))
        with proxy(tmp_path, [f"{node.address}:8100", well.address]) as url, ThreadPoolExecutor(4) as pool:
            for _ in range(4):  # connections that later requests use again
                assert send(url, "GET", "/v1/products/a")[0] == 200
            waiting = [pool.submit(send, url, *READS[1]) for _ in range(2)]
            wait_until(taken.exists)
            node.unplug()  # connections stay, and nothing is acknowledged any more
            replies = [future.result() for future in waiting]
            replies += pool.map(lambda _: send(url, "GET", "/v1/products/a"), range(4))
        assert [status for status, _ in replies] == [200] * 6
        assert max(took_s for _, took_s in replies) < 8.0, replies
        assert len(well.paths) >= 4
    finally:
        network.close()
        serving.wait()


@pytest.mark.usefixtures("allow_world")
@pytest.mark.skipif(bool(missing_right()), reason=missing_right() or "none")
def test_a_write_at_a_node_without_power_gets_503_soon_and_later_ones_succeed(tmp_path: Path) -> None:
    """Such a node may have begun a write, so nobody sends it again but the client."""
    network, well, taken = Network(), Replica(), tmp_path / "taken"
    node = network.machine(2, shared=(tmp_path,))
    serving = node.start(sys.executable, "-c", NODE, node.address, str(taken), log=tmp_path / "log")
    try:
        wait_until(lambda: _listens(node.address))
        with proxy(tmp_path, [f"{node.address}:8100", well.address]) as url, ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                assert send(url, "GET", "/v1/products/a")[0] == 200
            waiting = [pool.submit(send, url, *WRITES[0]) for _ in range(2)]
            wait_until(taken.exists)
            node.unplug()
            first = [future.result() for future in waiting]
            assert sorted(status for status, _ in first) == [200, 503]
            assert max(took_s for _, took_s in first) < 8.0, first
            wait_until(lambda: send(url, *WRITES[0])[0] == 200)
            later = [send(url, *WRITES[0]) for _ in range(4)]
        assert [status for status, _ in later] == [200] * 4
        assert max(took_s for _, took_s in later) < 4.0, later
    finally:
        network.close()
        serving.wait()


def _listens(address: str) -> bool:
    try:
        socket.create_connection((address, 8100), 0.2).close()
    except OSError:
        return False
    return True
