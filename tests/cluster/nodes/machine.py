"""Machines of a test on one kernel: each has an address, a pid space, a `/tmp` and a `/dev/shm` of its own.

    network = Network()                                     a bridge; this process has the first address on it
    node = network.machine(2, shared=(folder,))             a machine that answers at the second address
    node.run("ray", "status"); node.start("sleep", "60")    commands inside of it
    node.unplug(); node.plug()                              the cable
    node.lose(address); node.reach(address)                 packets to one address only: they get lost in silence
    node.cut_power()                                        cable first, then every process: no FIN, no RST leaves

So neither a socket file, loopback, a pid nor shared memory of one machine means anything on another one. Everything
ends with the process that made the machines: the first process of a machine reads from a pipe of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("ip", "nsenter", "unshare", "mount")
_INSIDE = """
set -e
hold=$1; shift
mount -t tmpfs tmpfs "$hold"
mkdir "$hold/old"
mount --rbind /tmp "$hold/old"
mount -t tmpfs -o mode=1777 tmpfs /tmp
for path in "$@"; do
    case $path in /tmp/*) mkdir -p "$path"; mount --bind "$hold/old${path#/tmp}" "$path" ;; esac
done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
echo up
cat
true
"""
"The first process of a machine: bash collects the orphans, and `cat` ends with the pipe."


def missing_right() -> str:
    """Return why machines can't be made here; empty when they can."""
    absent = [name for name in TOOLS if shutil.which(name) is None]
    if absent:
        return f"machines need the commands {', '.join(absent)} (packages iproute2 and util-linux)"
    if os.geteuid() != 0:
        return "machines need the right to make network, pid and mount namespaces: run as root"
    tried = subprocess.run(
        ["unshare", "-n", "-p", "-m", "-f", "ip", "link", "add", "kiosk-try", "type", "veth"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


@dataclass
class Network:
    """A bridge between machines; `number` is the third part of its addresses."""

    number: int = field(default_factory=lambda: os.getpid() % 200 + 20)
    machines: list[Machine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bridge = f"kb{self.number}"
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address(1)}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    def address(self, place: int) -> str:
        """Return the address of a place in the network; the first is this process's."""
        return f"10.77.{self.number}.{place}"

    def add_address(self, place: int) -> str:
        """Give this process one more address, and return it."""
        _ip("addr", "add", f"{self.address(place)}/24", "dev", self.bridge)
        return self.address(place)

    def machine(
        self, place: int, *, shared: Sequence[Path] = (), environment: Mapping[str, str] | None = None
    ) -> Machine:
        """Return a new machine at a place, switched on."""
        made = Machine(self, place, tuple(shared), dict(environment or {}))
        self.machines.append(made)
        made.switch_on()
        return made

    def close(self) -> None:
        """End all machines and remove the bridge."""
        for machine in self.machines:
            machine.cut_power()
            # The kernel keeps the network of dead processes for minutes, until their connections have timed out.
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("link", "del", machine.cable)
        _ip("link", "del", self.bridge)


@dataclass
class Machine:
    """One machine."""

    network: Network
    place: int
    shared: tuple[Path, ...]
    environment: dict[str, str]
    _first: int = 0
    _outer: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Return its address."""
        return self.network.address(self.place)

    @property
    def cable(self) -> str:
        """Return the name of its cable at this end."""
        return f"kv{self.network.number}-{self.place}"

    @property
    def is_on(self) -> bool:
        """Return whether it has power."""
        return self._outer is not None and self._outer.poll() is None

    def switch_on(self) -> None:
        """Start the first process and connect the cable."""
        seen = (ROOT, Path(sys.prefix), Path(sys.base_prefix), *self.shared)
        self._outer = subprocess.Popen(
            ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child", "--propagation", "private",
             "bash", "-c", _INSIDE, "machine", "/mnt", *map(str, seen)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != "up\n":
            raise RuntimeError(f"machine {self.place} did not start")
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        self._first = int(children[0])
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self.cable)  # of the machine that lost its power at this place
        _ip("link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", str(self._first))
        _ip("link", "set", self.cable, "master", self.network.bridge, "up")
        for words in (
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
            f"route add default via {self.network.address(1)}",
        ):
            self.run("ip", *words.split())

    def command(self, *words: str) -> list[str]:
        """Return the words that run a command on it."""
        return ["nsenter", "-t", str(self._first), "-n", "-m", "-p", *words]

    def run(
        self, *words: str, timeout_s: float = 120.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on it and wait."""
        done = subprocess.run(
            self.command(*words),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(
                f"{' '.join(words)[:200]} on machine {self.place}: code {done.returncode}\n"
                f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
            )
        return done

    def start(self, *words: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a command on it and return at once; its output goes to a file."""
        with log.open("ab") as out:
            return subprocess.Popen(
                self.command(*words),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def unplug(self) -> None:
        """Disconnect the cable: packets get lost, connections stay."""
        _ip("link", "set", self.cable, "down")

    def plug(self) -> None:
        """Connect the cable again."""
        _ip("link", "set", self.cable, "up")

    def lose(self, address: str) -> None:
        """Send packets for an address to a card that does not exist: they get lost, and nobody says so."""
        neighbour = ("neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "eth0")
        self.run("ip", *neighbour, "nud", "permanent")

    def reach(self, address: str) -> None:
        """Let packets for an address arrive again."""
        self.run("ip", "neigh", "del", address, "dev", "eth0")

    def cut_power(self) -> None:
        """Disconnect the cable, then end all processes at once."""
        if not self.is_on or self._outer is None:
            return
        self.unplug()
        os.kill(self._first, signal.SIGKILL)
        self._outer.wait(20)
        for pipe in (self._outer.stdin, self._outer.stdout):
            if pipe is not None:
                pipe.close()

    def processes(self, *words: str) -> list[int]:
        """Return the pids, as this process sees them, of its processes with one of the words in the command line."""
        space = os.readlink(f"/proc/{self._first}/ns/pid")
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if os.readlink(folder / "ns/pid") == space and any(word in line for word in words):
                    pids.append(int(folder.name))
        return pids

    def _environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "KIOSK_"))}
        return {**kept, "PYTHONPATH": str(ROOT), **self.environment}


def _ip(*words: str) -> None:
    for attempt in (1, 2, 3):
        try:
            subprocess.run(["ip", *words], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            if attempt == 3 or words[1] == "del":
                raise
            time.sleep(0.1)
        else:
            return
