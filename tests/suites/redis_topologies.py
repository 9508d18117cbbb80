"""Redis as operators have it: a master with replicas and three Sentinels, and a cluster of three masters."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import redis

from cluster.process.free_ports import free_ports, is_free
from tests.suites.redis_process import redis_binary

HOST = "127.0.0.1"
NODE_TIMEOUT_MS = 1_000
DOWN_AFTER_MS = 1_000
FAILOVER_TIMEOUT_MS = 5_000
KEPT = ('save ""', "appendonly no", "repl-diskless-sync yes", "repl-diskless-sync-delay 0")
"Nothing on disk, and replicas fed at once."
BUS_OFFSET = 10_000
"The nodes of a cluster talk to each other at the ports this far above those for clients."
STARTS = 3


class NodeEnded(Exception):
    """A server ended before it answered; another process may have taken its port."""


class Node:
    """One `redis-server` or Sentinel on a port."""

    def __init__(
        self, folder: Path, port: int, *options: str, lines: Sequence[str] = (), sentinel: bool = False
    ) -> None:
        self.port = port
        self.folder = folder / str(port)
        self.folder.mkdir()
        config = self.folder / "redis.conf"
        config.write_text("\n".join([f"port {port}", f"bind {HOST}", f"dir {self.folder}", *lines]) + "\n")
        binary = redis_binary()
        assert binary is not None
        self._command = [binary, str(config), *(("--sentinel",) if sentinel else ()), *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> redis.Redis:
        """A synchronous client of this node alone."""
        return redis.Redis(host=HOST, port=self.port, socket_timeout=5, protocol=2, decode_responses=True)

    def start(self) -> None:
        """Start it; wait until it answers."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._answers_or_ended, f"no answer on {self.port}", within_s=60)
        if self._process.poll() is not None:
            raise NodeEnded(f"port {self.port}: {(self.folder / 'log').read_text()[-500:]}")

    def answers(self) -> bool:
        """Say whether it answers a PING."""
        try:
            with self.client as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _answers_or_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None or self.answers()

    def say(self, *words: str | int) -> object:
        """Send one command and return what it gives."""
        with self.client as client:
            return client.execute_command(*words)

    def kill(self) -> None:
        """Kill it without a word."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop its clock; it stays connected and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        """End it, also when it is paused or dead."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Topology:
    """Nodes in one folder, ended together, also when they do not come up."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        for start in range(1, STARTS + 1):
            self.folder = Path(tempfile.mkdtemp(prefix="kiosk-redis-"))
            try:
                return self.build()
            except BaseException as error:
                self.stop()
                if not isinstance(error, NodeEnded) or start == STARTS:
                    raise

    def build(self) -> None:
        """Start the nodes and wait until they work together."""
        raise NotImplementedError

    def add(self, port: int, *options: str, lines: Sequence[str] = (), sentinel: bool = False) -> Node:
        """Start a node."""
        node = Node(self.folder, port, *options, lines=lines, sentinel=sentinel)
        self.nodes.append(node)
        node.start()
        return node

    def stop(self) -> None:
        """End all and remove their files."""
        for node in self.nodes:
            node.end()
        self.nodes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


class SentinelTopology(Topology):
    """A master, two replicas, and three Sentinels."""

    def build(self) -> None:
        """Start them and wait until the Sentinels know each other and the replica."""
        free = free_ports(6)
        first, ports = free[0], free[3:]
        self.master = self.add(first, lines=KEPT)
        self.replicas = [self.add(port, lines=[*KEPT, f"replicaof {HOST} {first}"]) for port in free[1:3]]
        wait_until(lambda: all(map(_follows, self.replicas)), "no replicas")
        rules = [
            f"sentinel monitor shop {HOST} {first} 2",
            f"sentinel down-after-milliseconds shop {DOWN_AFTER_MS}",
            f"sentinel failover-timeout shop {FAILOVER_TIMEOUT_MS}",
        ]
        self.sentinels = [self.add(port, lines=rules, sentinel=True) for port in ports]
        wait_until(self._is_complete, "the Sentinels did not find each other")
        self.url = "redis+sentinel://" + ",".join(f"{HOST}:{port}" for port in ports) + "/shop"

    def _is_complete(self) -> bool:
        states = [sentinel.client.sentinel_masters()["shop"] for sentinel in self.sentinels]
        return all(state["num-other-sentinels"] == 2 and state["num-slaves"] == 2 for state in states)

    def has_failed_over(self) -> bool:
        """Say whether another master is named, and the replica that is left follows it."""
        named = self.name_master()
        left = [node for node in self.replicas if node.port != named]
        return (
            named != self.master.port
            and len(left) == 1
            and int(left[0].client.info("replication")["master_port"]) == named
            and _follows(left[0])
        )

    def name_master(self) -> int:
        """Return the port of the master that Sentinel names."""
        _, port = self.sentinels[0].client.sentinel_get_master_addr_by_name("shop")
        return int(port)


class ClusterTopology(Topology):
    """Three masters, each with as many replicas."""

    def __init__(self, replicas: int = 0) -> None:
        self._replicas = replicas
        super().__init__()

    def build(self) -> None:
        """Start the nodes, give each master a third of the slots, and wait until all agree."""
        ports = _cluster_ports(3 * (1 + self._replicas))
        kept = [
            "cluster-enabled yes", f"cluster-node-timeout {NODE_TIMEOUT_MS}", "save \"\"", "appendonly no",
            "repl-diskless-sync yes", "repl-diskless-sync-delay 0", "cluster-require-full-coverage no",
        ]  # fmt: skip
        for port in ports:
            self.add(port, lines=kept)
        self.masters = self.nodes[:3]
        for number, node in enumerate(self.masters):
            bounds = number * 16384 // 3, (number + 1) * 16384 // 3
            node.say("CLUSTER", "ADDSLOTS", *range(*bounds))
        for epoch, node in enumerate(self.nodes, 1):
            node.say("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for node in self.nodes[1:]:
            node.say("CLUSTER", "MEET", HOST, self.nodes[0].port)
        wait_until(lambda: all(self._sees_all(node) for node in self.nodes), "the nodes did not meet")
        for number, node in enumerate(self.nodes[3:]):
            node.say("CLUSTER", "REPLICATE", str(self.masters[number % 3].say("CLUSTER", "MYID")))
        wait_until(lambda: all(self.is_ready(node) for node in self.nodes), "the cluster is not ready")
        self.url = "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.masters)

    def owner(self, slot: int) -> Node:
        """Return the master of a slot."""
        for first, last, master, *_ in self._alive().execute_command("CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def is_ready(self, node: Node) -> bool:
        """Say whether a node finds its cluster in order, and its own data complete."""
        facts = node.client.info("replication")
        state = str(node.say("CLUSTER", "INFO"))
        return "cluster_state:ok" in state and facts.get("master_link_status", "up") == "up"

    def _sees_all(self, node: Node) -> bool:
        return f"cluster_known_nodes:{len(self.nodes)}" in str(node.say("CLUSTER", "INFO"))

    def _alive(self) -> redis.Redis:
        return next(node for node in self.nodes if node.answers()).client


def _follows(node: Node) -> bool:
    return bool(node.client.info("replication")["master_link_status"] == "up")


def _cluster_ports(count: int) -> list[int]:
    """Return ports that are free, as are those of the cluster bus, and that outgoing connections rarely take."""
    ports: list[int] = []
    while len(ports) < count:
        buses = (bus for bus in free_ports(count) if bus < 32_768)
        ports += [port for bus in buses if is_free(HOST, port := bus - BUS_OFFSET) and port not in ports]
    return ports[:count]


def wait_until(is_so: Callable[[], bool], otherwise: str, within_s: float = 30.0) -> None:
    """Wait for a condition."""
    until = time.monotonic() + within_s
    while not _holds(is_so):
        assert time.monotonic() < until, otherwise
        time.sleep(0.05)


def _holds(is_so: Callable[[], bool]) -> bool:
    try:
        return is_so()
    except (redis.RedisError, KeyError):
        return False
