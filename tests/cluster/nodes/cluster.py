"""Kiosk on a Ray cluster of three machines, brought up by the words of `docs/guides/cluster.md`."""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.data import interactions, products
from tests.cluster.nodes.machine import Machine, Network, missing_right
from tests.suites.redis_process import RedisProcess, redis_binary

SETTINGS = {
    "KIOSK_REDIS_URL_FILE": "/etc/kiosk/redis.url",
    "KIOSK_MASTER_KEY_FILE": "/etc/kiosk/master.key",
    "KIOSK_DATA_DIR": "/srv/kiosk",
}
STORE = "--object-store-memory=268435456"
HEAD = (
    'eval "$(kiosk node env --head --ray-redis redis:6380)"\n'
    f"ray start --head --port=6379 --dashboard-host=0.0.0.0 {STORE}"
)
WORKER = f'eval "$(kiosk node env)"\ntimeout 120 ray start --address=head:6379 {STORE}'
UP = 'eval "$(kiosk node env)"\nkiosk cluster up'
_KIOSK = 'kiosk() { python -m deployments.cli "$@"; }\n'
APP = "development"
PORT = 8000
RELEASE = "/tmp/release"
"Where a machine has the release that is installed on it."


@dataclass
class NodeCluster:
    """Three machines with Ray and Kiosk; the first is the head."""

    folder: Path
    network: Network = field(default_factory=Network)
    machines: list[Machine] = field(default_factory=list)
    servers: list[RedisProcess] = field(default_factory=list)
    key: str = ""
    start_s: float = 0.0

    def open(self) -> None:
        """Start both Redis servers and three machines without Ray."""
        # Redis of Kiosk has an address for itself, so that a node can lose it alone.
        for address, port in ((self.network.add_address(9), 6379), (self.network.address(1), 6380)):
            options = ("--bind", address, "--port", str(port), "--protected-mode", "no")
            self.servers.append(RedisProcess(*options, durable=True).start())
        (self.folder / "data").mkdir()
        secret = {
            "redis.url": self.redis_url,
            "master.key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
        }
        for name, text in secret.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)
        self.machines = [
            self.network.machine(place, shared=(self.folder,), environment=self.settings)
            for place in (2, 3, 4)
        ]

    @property
    def redis_url(self) -> str:
        """Return the address of the Redis of Kiosk."""
        return f"redis://{self.redis_address}:6379"

    @property
    def redis_address(self) -> str:
        """Return the address of this process at which only the Redis of Kiosk listens."""
        return self.network.address(9)

    @property
    def settings(self) -> dict[str, str]:
        """Return the variables that the operator sets, with paths of this test."""
        return {
            "KIOSK_REDIS_URL_FILE": str(self.folder / "redis.url"),
            "KIOSK_MASTER_KEY_FILE": str(self.folder / "master.key"),
            "KIOSK_DATA_DIR": str(self.folder / "data"),
        }

    def install(self, machine: Machine, root: Path) -> None:
        """Install the packages of a folder on a machine, in the place of those before.

        The place is the same for every release, as where pip installs: workers of Ray look for modules where their
        driver found them.
        """
        lines = f"mkdir -p {RELEASE}\n! mountpoint -q {RELEASE} || umount -l {RELEASE}\nmount --bind {root} {RELEASE}"
        machine.run("bash", "-ec", lines)
        machine.environment["PYTHONPATH"] = RELEASE

    def close(self) -> None:
        """End everything."""
        self.network.close()
        for server in self.servers:
            server.stop()

    def shell(self, machine: Machine, lines: str, *, timeout_s: float = 240.0) -> str:
        """Type lines into a shell of a machine; return what they print. The names `redis` and `head` become addresses.

        Errors:
            RuntimeError: one of them failed
        """
        for name, place in (("redis:", 1), ("head:", 2)):
            lines = lines.replace(name, f"{self.network.address(place)}:")
        return machine.run("bash", "-ec", _KIOSK + lines, timeout_s=timeout_s).stdout

    def kiosk(self, words: str, *, place: int = 0, timeout_s: float = 240.0) -> Any:
        """Type a `kiosk` command on a node; return its JSON."""
        lines = f'eval "$(kiosk node env)"\nkiosk {words} --json'
        return json.loads(self.shell(self.machines[place], lines, timeout_s=timeout_s))

    def start_ray(self) -> None:
        """Start Ray on all machines."""
        self.start_node(self.machines[0], HEAD)
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.start_node, self.machines[1:]))

    def start_node(self, machine: Machine, lines: str = WORKER) -> None:
        """Start Ray on a machine; up to three times, because Ray gives up after 30 s, also on a busy machine."""
        for attempt in (1, 2, 3):
            try:
                self.shell(machine, lines, timeout_s=180)
            except RuntimeError as error:
                too_slow = "timed out during startup" in str(error) or "code 124" in str(error)
                if attempt == 3 or not too_slow:
                    raise
                self.shell(machine, "ray stop --force")
            else:
                return

    def bring_up(self) -> None:
        """Start Ray and Kiosk by the documented words, and seed an app."""
        began = time.monotonic()
        self.start_ray()
        self.shell(self.machines[0], UP)
        self.start_s = time.monotonic() - began
        keys = self.kiosk(f"keys list --app {APP} --reveal")["keys"]
        self.key = next(key["key"] for key in keys if key["kind"] == "secret")
        self.kiosk(f"apps limit {APP} --queries 100000 --writes 100000")
        self._seed()

    def call(
        self, method: str, path: str, body: object = None, *, place: int = 0, timeout_s: float = 15.0
    ) -> tuple[int, Any]:
        """Send a request to a node; return status and body, 0 when no answer came."""
        request = urllib.request.Request(
            f"http://{self.machines[place].address}:{PORT}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"X-API-KEY": self.key, "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")
        except OSError as error:
            return 0, str(error)

    def worker_place(self, *, with_intake: bool) -> int:
        """Return the place of a worker that runs the intake, or of one that does not; the last one if there is none."""
        places = [
            place for place in (1, 2) if bool(self.machines[place].processes("IntakeHost")) == with_intake
        ]
        return places[0] if places else 2

    def is_healthy(self, place: int) -> bool:
        """Return whether the proxy of a node answers its health check."""
        url = f"http://{self.machines[place].address}:{PORT}/-/healthz"
        try:
            with urllib.request.urlopen(url, timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def _seed(self) -> None:
        until = time.monotonic() + 60
        status, reply = self.call("POST", "/v1/products", {"data": products(300)})
        assert status == 200, reply
        assert self.call("POST", "/v1/interactions", {"data": interactions(500, 100, 300)})[0] == 200
        wait(lambda: self.call("POST", RECOMMEND, {"user_id": "u1"})[0] == 200, until - time.monotonic())


RECOMMEND = "/v1/recommendation/user_to_products"


def wait(is_so: Callable[[], bool], within_s: float, every_s: float = 0.1) -> float:
    """Wait until something is so; return the seconds it took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < within_s, f"not so after {within_s:.0f} s"
        time.sleep(every_s)
    return time.monotonic() - began


@contextmanager
def running_cluster(
    folder: Path, install: Callable[[NodeCluster], None] = lambda cluster: None
) -> Iterator[NodeCluster]:
    """Yield a cluster that serves; skip where machines can't be made. `install` prepares the machines."""
    reason = missing_right() or ("" if redis_binary() else "no redis-server")
    if reason:
        pytest.skip(reason)
    cluster = NodeCluster(folder)
    try:
        cluster.open()
        install(cluster)
        cluster.bring_up()
        yield cluster
    finally:
        cluster.close()
