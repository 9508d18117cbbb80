"""The real HAProxy with the configuration Ray writes and we tighten, in front of small servers of our own.

No Ray runs here: its generator is called, the rest is HAProxy.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn

from cluster.local.haproxy_config import BUSY, OVERLOADED, HAProxyOptions, rewrite_ray_config
from cluster.local.haproxy_handover import fallback_config, find_predecessor
from cluster.local.haproxy_process import HAProxyProcess, find_haproxy
from cluster.local.haproxy_wrapper import render_wrapper_script
from cluster.paths import InstallationPaths
from cluster.process.free_ports import accepts_connections, free_ports
from tests.suites.waiting import wait_until

pytestmark = pytest.mark.ray
KEY = "CANARYKEY0815"
PLACE = "/tmp/kft-generated"


@dataclass
class Replica:
    """An HTTP server with the parser replicas use; remembers what it was asked."""

    port: int = field(default_factory=lambda: free_ports(1)[0])
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    "Requests wait while it is cleared."
    hang_up: bool = False
    "Close the connection instead of answering, as a replica that dies."

    def __post_init__(self) -> None:
        self.hold.set()
        config = uvicorn.Config(self, port=self.port, log_level="critical", lifespan="off", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["path"] != "/-/healthz":
            self.requests.append((scope["method"], scope["path"], body))
            self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            if self.hang_up:
                for line in list(self._server.server_state.connections):
                    line.transport.abort()
                # Coming back before the connection is seen to be gone would make the server say 500.
                while (await receive())["type"] != "http.disconnect":
                    pass
                return
        if scope["path"] != "/-/healthz":
            await asyncio.get_running_loop().run_in_executor(None, self.hold.wait, 10)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def stop(self) -> None:
        """End it and every connection."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)


@dataclass
class Proxy:
    """A HAProxy below a directory of its own, started as Serve starts it."""

    folder: Path
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    most_reads: int = 128

    @property
    def options(self) -> HAProxyOptions:
        return HAProxyOptions(
            find_haproxy(), f"127.0.0.1:{self.port}", str(self.folder / "pid"), 200,
            most_reads=self.most_reads, patience_s=1,
        )  # fmt: skip

    @property
    def config(self) -> Path:
        return self.folder / "node" / "haproxy.cfg"

    def write(self, *replicas: Replica) -> None:
        """Let Ray's own generator write the configuration."""
        self.config.parent.mkdir(exist_ok=True)
        text = generated(len(replicas)).replace(PLACE, str(self.config.parent))
        for number, replica in enumerate(replicas):
            text = text.replace(
                f"replica-{number} 127.0.0.1:{number + 1}", f"replica-{number} 127.0.0.1:{replica.port}"
            )
        self.config.write_text(text)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Start by the wrapper, and wait until it listens."""
        self.options.save(self.folder / "options.json")
        wrapper = self.folder / "haproxy"
        wrapper.write_text(render_wrapper_script(sys.executable, self.folder / "options.json"))
        wrapper.chmod(0o700)
        child = subprocess.Popen([str(wrapper), "-db", "-f", str(self.config), "-dR", *more])
        self.started.append(child)

        def listens() -> bool:
            assert child.poll() is None
            return find_predecessor(self.folder / "pid") == child.pid and accepts_connections(
                "127.0.0.1", self.port
            )

        wait_until(listens)
        return child

    def say(self, raw: bytes, within_s: float = 6.0) -> bytes:
        """Send bytes, return everything that comes until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=within_s) as line:
            line.sendall(raw)
            reply = b""
            try:
                while chunk := line.recv(65_536):
                    reply += chunk
            except OSError:
                pass
            return reply

    def ask(
        self, method: str, path: str, body: bytes = b"", head: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """Send one request; status, headers, body."""
        if "X-API-KEY" not in head:
            head += "X-API-KEY: kpk_anybodys\r\n"
        raw = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{head}\r\n"
        top, _, rest = self.say(raw.encode() + body).partition(b"\r\n\r\n")
        lines = top.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return int(lines[0].split()[1]), headers, rest

    def wait_up(self, count: int) -> None:
        """Wait until so many replicas passed their health check."""
        wait_until(lambda: self.up() == count)

    def up(self) -> int:
        """Count replicas HAProxy believes in."""
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(str(self.config.parent / "a.sock"))
            except (FileNotFoundError, ConnectionRefusedError):
                return 0
            line.sendall(b"show stat\n")
            reply = b""
            while chunk := line.recv(65_536):
                reply += chunk
        rows = [row.split(",") for row in reply.decode().splitlines()]
        return sum(
            row[0] == "http-api" and row[1].startswith("replica") and row[17] == "UP"
            for row in rows
            if len(row) > 17
        )


@lru_cache
def generated(count: int) -> str:
    """Call Ray's generator with the settings of a start, for replicas on ports 1, 2, ... below `PLACEHOLDER`."""
    code = """
import json, os, sys
folder, count = sys.argv[1], int(sys.argv[2])
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
from ray.serve.config import HTTPOptions
config = HAProxyConfig(
    http_options=HTTPOptions(host="127.0.0.1", port=1, keep_alive_timeout_s=600), socket_path=folder + "/a.sock",
    server_state_base=folder, server_state_file=folder + "/servers", is_head=True,
)
servers = [ServerConfig(f"replica-{number}", "127.0.0.1", number + 1) for number in range(count)]
slow = ServerConfig("slow", "127.0.0.1", 2)
backend = BackendConfig("http-api", "/", app_name="api", servers=servers, fallback_server=slow)
backends = {"http-api": backend} if count else {}
api = HAProxyApi(config, backends, folder + "/haproxy.cfg")
api.set_backend_configs(backends)
api._generate_config_file_internal()
"""
    from cluster.runtime.ray_environment import RayPorts, ray_environment

    Path(PLACE).mkdir(exist_ok=True)
    try:
        environment = ray_environment(
            InstallationPaths.from_data_dir(Path(PLACE)), RayPorts(*free_ports(6)), haproxy=True
        )
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, PLACE, str(count)], env=environment, check=True
        )
        return (Path(PLACE) / "haproxy.cfg").read_text()
    finally:
        shutil.rmtree(PLACE)


@pytest.fixture
def replica() -> Iterator[Replica]:
    replica = Replica()
    yield replica
    replica.stop()


@pytest.fixture
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = Path("/tmp") / f"kft-{free_ports(1)[0]}"
    folder.mkdir(mode=0o700)
    front = Proxy(folder, free_ports(1)[0])
    yield front
    for child in front.started:
        child.kill()
        child.wait()
    shutil.rmtree(folder)


@pytest.fixture
def serving(front: Proxy, replica: Replica) -> Proxy:
    front.write(replica)
    front.start()
    front.wait_up(1)
    return front


def test_haproxy_accepts_what_we_make_of_rays_configuration(front: Proxy, replica: Replica) -> None:
    front.write(replica)
    tightened = rewrite_ray_config(front.config.read_text(), front.options)
    (front.folder / "checked.cfg").write_text(tightened)
    checked = subprocess.run(
        [find_haproxy(), "-c", "-f", str(front.folder / "checked.cfg")], capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    lines = [
        line.split() for line in tightened.splitlines() if line.split() and not line.strip().startswith("#")
    ]
    assert not [line for line in lines if line[0] == "log" or line[:2] == ["option", "httplog"]]
    assert all(line[1].startswith("127.0.0.1:") for line in lines if line[0] == "bind")
    assert not [line for line in lines if line[0] == "errorfile" or line[-1] == "backup"]
    assert sum(line[0] == "bind" for line in lines) == 2


def test_nothing_listens_to_the_network_and_the_admin_socket_is_private(serving: Proxy) -> None:
    process = psutil.Process(serving.started[-1].pid)
    assert {line.laddr.ip for line in process.net_connections(kind="tcp") if line.status == "LISTEN"} == {
        "127.0.0.1"
    }
    mode = stat.S_IMODE((serving.config.parent / "a.sock").stat().st_mode)
    assert mode == 0o600


def test_a_request_and_its_answer_pass_unchanged(serving: Proxy, replica: Replica) -> None:
    status, _, body = serving.ask("POST", "/v1/users?x=1", b'{"data": []}')
    assert (status, body) == (200, b"ok")
    assert replica.requests == [("POST", "/v1/users", b'{"data": []}')]


def test_clients_can_not_use_the_headers_of_serve(serving: Proxy, replica: Replica) -> None:
    head = "".join(
        f"{name}: 1\r\n"
        for name in (
            "X-Request-Timeout-Seconds",
            "x-request-disconnect-disabled",
            "serve_multiplexed_model_id",
        )
    )
    assert serving.ask("GET", "/v1/users/x", head=head)[0] == 200
    assert not {
        name for name in replica.headers if "timeout" in name or "disconnect" in name or "multiplexed" in name
    }


def test_serves_list_of_applications_is_not_for_strangers(serving: Proxy) -> None:
    assert serving.ask("GET", "/-/routes")[0] == 404
    assert serving.ask("GET", "/-/healthz")[0] == 200


def test_without_a_replica_the_answer_is_an_immediate_503_as_the_interface_words_it(
    serving: Proxy, replica: Replica
) -> None:
    replica.stop()
    for _ in range(3):
        begin = time.monotonic()
        status, headers, body = serving.ask("GET", "/v1/users/x")
        took = time.monotonic() - begin
        assert (status, json.loads(body)) == (503, {"message": BUSY})
        assert headers["retry-after"] == "1"
        assert headers["content-type"] == "application/json"
        assert len(headers["x-request-id"]) == 36
        assert headers["access-control-allow-origin"] == "*"
        assert took < 1
    assert serving.ask("GET", "/-/healthz")[0] == 503


def test_before_anything_is_deployed_the_answer_is_503_and_not_404(front: Proxy) -> None:
    front.write()
    front.start()
    status, headers, body = front.ask("POST", "/v1/users", b"{}")
    assert (status, json.loads(body)["message"], headers["retry-after"]) == (503, BUSY, "1")


def test_a_dead_replica_costs_no_caller_an_error_while_another_lives(front: Proxy, replica: Replica) -> None:
    other = Replica()
    try:
        front.write(replica, other)
        front.start()
        front.wait_up(2)
        replica.stop()
        statuses = [front.ask("POST", "/v1/users", b"{}")[0] for _ in range(20)]
        assert statuses == [200] * 20
        front.wait_up(1)
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("method", "path", "times"),
    [
        ("GET", "/v1/users/x", 2),
        ("POST", "/v1/recommendation/user_to_products", 2),
        ("POST", "/v1/users", 1),
        ("POST", "/v1/interactions", 1),
        ("DELETE", "/v1/users/x", 1),
    ],
)
def test_a_request_whose_replica_died_is_sent_again_only_if_it_reads(
    front: Proxy, replica: Replica, method: str, path: str, times: int
) -> None:
    other = Replica()
    replica.hang_up = other.hang_up = True
    try:
        front.write(replica, other)
        front.start()
        front.wait_up(2)
        status, headers, _ = front.ask(method, path, b"" if method == "GET" else b"{}")
        assert (status, headers["retry-after"]) == (503, "1")
        assert times <= len(replica.requests) + len(other.requests) <= (3 if times > 1 else 1)
    finally:
        other.stop()


def test_a_replica_that_dies_at_work_leaves_no_new_caller_without_an_answer(
    serving: Proxy, replica: Replica
) -> None:
    assert [serving.ask("GET", "/v1/users/x")[0] for _ in range(3)] == [200] * 3
    replica.hang_up = True
    # The connection to the replica has been used before; that must not show.
    assert [serving.ask("POST", "/v1/users", b"{}")[0] for _ in range(3)] == [503] * 3


def test_without_a_replica_every_request_gets_503_and_none_429(front: Proxy, replica: Replica) -> None:
    front.write(replica)
    front.start()
    front.wait_up(1)
    replica.stop()
    front.wait_up(0)
    for _ in range(3):
        for method, path in (("POST", "/v1/recommendation/user_to_products"), ("GET", "/v1/users/x")):
            status, headers, body = front.ask(method, path, b"" if method == "GET" else b"{}")
            assert (status, headers["retry-after"], json.loads(body)["message"]) == (503, "1", BUSY), path


def test_reads_over_the_room_of_the_replicas_are_refused_at_once_and_writes_are_not(
    front: Proxy, replica: Replica
) -> None:
    front.most_reads = 3
    front.write(replica)
    front.start()
    front.wait_up(1)
    replica.hold.clear()
    path, senders = "/v1/recommendation/user_to_products", []

    def hold(path: str) -> None:
        senders.append(threading.Thread(target=lambda: kept.append(front.ask("POST", path, b"{}")[0])))
        senders[-1].start()

    kept: list[int] = []
    for _ in range(3):
        hold(path)
    hold("/v1/interactions")
    wait_until(lambda: len(replica.requests) >= 4)
    for _ in range(5):
        begin = time.monotonic()
        status, headers, body = front.ask("POST", path, b"{}")
        assert (status, headers["retry-after"], json.loads(body)["message"]) == (429, "1", OVERLOADED)
        assert time.monotonic() - begin < 0.5
    hold("/v1/users")
    wait_until(lambda: len(replica.requests) >= 5)
    replica.hold.set()
    for thread in senders:
        thread.join(10)
    assert kept == [200] * 5
    assert front.ask("POST", path, b"{}")[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /v1/users/x HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{",
    ],
    ids=["head", "body"],
)
def test_a_slow_sender_is_cut_off_before_it_costs_a_replica_anything(
    serving: Proxy, replica: Replica, raw: bytes
) -> None:
    begin = time.monotonic()
    reply = serving.say(raw)
    assert 0.8 < time.monotonic() - begin < 4
    assert reply.split(b" ")[1] == b"408"
    if not raw.startswith(b"GET"):
        # Before a head is whole HAProxy has nothing to answer in our words; its own page says the same.
        assert json.loads(reply.partition(b"\r\n\r\n")[2]) == {"message": "Request timeout."}
    assert replica.requests == []


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
PAIRS = {
    "CL.TE": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "TE.CL": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n24\r\n" + SMUGGLED + b"\r\n0\r\n\r\n",
    "TE.TE": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE obscured": b"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "TE with tab": b"Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE folded": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": b"Content-Length: 0\r\nContent-Length: 36\r\n\r\n" + SMUGGLED,
    "length list": b"Content-Length: 0, 36\r\n\r\n" + SMUGGLED,
    "length with sign": b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "length in hex": b"Content-Length: 0x0\r\n\r\n" + SMUGGLED,
    "negative length": b"Content-Length: -1\r\n\r\n" + SMUGGLED,
    "space before colon": b"Content-Length : 36\r\n\r\n" + SMUGGLED,
    "bare line feed": b"Content-Length: 0\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunk size overflow": b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + SMUGGLED,
    "chunk extension": b"Transfer-Encoding: chunked\r\n\r\n0;\n\r\n" + SMUGGLED,
    "NUL in header": b"X-Y: a\0b\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "length and nothing": b"Content-Length:\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", PAIRS)
def test_both_ends_agree_where_a_request_ends(serving: Proxy, replica: Replica, name: str) -> None:
    """What HAProxy passes on, the replica cuts at the same place: 0 desynchronised requests.

    A request behind the poison may be answered as what it is, a second request of the same client; but only if
    HAProxy itself saw it as one and so answered both.
    """
    reply = serving.say(b"POST /poison HTTP/1.1\r\nHost: x\r\n" + PAIRS[name], within_s=2.0)
    seen = [path for _, path, _ in replica.requests]
    answered = reply.count(b"HTTP/1.1 200")
    assert len(seen) == answered, (seen, reply)
    assert seen in ([], ["/poison"], ["/poison", "/smuggled"])
    assert all(b"smuggled" not in body for _, path, body in replica.requests if path == "/smuggled")
    # The next caller gets the answer to its own question.
    replica.requests.clear()
    assert serving.ask("GET", "/innocent")[0] == 200
    assert replica.requests == [("GET", "/innocent", b"")]


def test_no_query_string_and_no_key_is_written_anywhere(serving: Proxy) -> None:
    serving.ask("GET", f"/v1/users/x?api_key={KEY}", head=f"X-API-KEY: {KEY}\r\n")
    serving.say(f"GET /v1/{KEY} HTTP/9.9\r\n\r\n".encode(), within_s=0.5)
    written = [
        path for path in serving.folder.rglob("*") if path.is_file() and KEY in path.read_text("latin-1")
    ]
    assert written == []


def test_the_newest_takes_over_from_one_that_lost_its_keeper_without_refusing_anybody(
    serving: Proxy, replica: Replica
) -> None:
    orphan = serving.started[-1]
    refused: list[object] = []
    over = threading.Event()

    def knock() -> None:
        while not over.is_set():
            try:
                if (status := serving.ask("GET", "/v1/users/x")[0]) != 200:
                    refused.append(status)
            except OSError as error:
                refused.append(error)

    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        # As Serve does it: a new keeper first writes a configuration without replicas.
        serving.write()
        newest = serving.start()
        assert orphan.wait(10) == 0
        time.sleep(0.3)
    finally:
        over.set()
        knocking.join()
    assert find_predecessor(serving.folder / "pid") == newest.pid
    assert refused == []


def test_a_killed_haproxy_is_stood_in_for_at_once(
    serving: Proxy, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RelocatedPaths(InstallationPaths):
        haproxy_dir = serving.folder  # type: ignore[assignment]
        haproxy_wrapper = serving.folder / "haproxy"  # type: ignore[assignment]

    front = HAProxyProcess(RelocatedPaths(serving.folder), "127.0.0.1", serving.port)
    assert not front.start_if_down()
    assert front.has_served
    serving.started[-1].kill()
    serving.started[-1].wait()
    killed = time.monotonic()
    assert front.start_if_down()
    while not accepts_connections("127.0.0.1", serving.port):
        assert time.monotonic() - killed < 2
        time.sleep(0.01)
    assert serving.ask("GET", "/v1/users/x")[0] == 200
    assert not front.start_if_down()
    # Serve asks for its own at its admin socket and must find nobody there.
    with socket.socket(socket.AF_UNIX) as line, pytest.raises(OSError, match="refused"):
        line.connect(str(serving.config.parent / "a.sock"))
    newest = serving.start()
    wait_until(lambda: front.pid == newest.pid)
    assert serving.ask("GET", "/v1/users/x")[0] == 200
    while front.children:
        assert not front.start_if_down()
        assert time.monotonic() - killed < 10


def test_a_stand_in_differs_in_its_admin_socket_only() -> None:
    config = "global\n    stats socket /r/h/node/a.sock mode 600 level admin\ndefaults\n    mode http\n"
    assert fallback_config(config) == config.replace("a.sock", "stand-in")
