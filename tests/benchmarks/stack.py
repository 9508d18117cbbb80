"""Start and stop what a run measures: our own installation in a scratch folder, and the peers beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
KIOSK = (sys.executable, "-m", "deployments.cli")


@dataclass(frozen=True)
class Stack:
    """A running installation."""

    port: int
    data_dir: Path
    secret_key: str
    "Of the development app, whose rate limits are raised far above what the run sends (limits stay on)."
    start_s: float
    "Seconds from the command to the moment it said it was ready."
    app_id: str = ""
    "The development app."

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send one request with the secret key; raise on anything but success."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, method=method, headers=self.headers
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    @property
    def headers(self) -> dict[str, str]:
        """Headers of an authenticated JSON call."""
        return {"X-API-KEY": self.secret_key, "Content-Type": "application/json"}

    def processes(self) -> list[psutil.Process]:
        """Every process of this installation."""
        mine = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("KIOSK_DATA_DIR") == str(self.data_dir):
                    mine.append(process)
            except psutil.Error:
                continue
        return [process for process in mine if process.pid != os.getpid()]

    def come_to_rest(self, *, limit_s: float = 120.0, share: float = 0.25, seconds: float = 3.0) -> None:
        """Wait until all processes together use less than a share of one core for some seconds."""
        until, used = time.monotonic() + limit_s, self._cpu_s()
        while time.monotonic() < until:
            time.sleep(seconds)
            before, used = used, self._cpu_s()
            if sum(max(0.0, spent - before.get(pid, 0.0)) for pid, spent in used.items()) < share * seconds:
                return
        raise RuntimeError(f"the installation did not come to rest within {limit_s:.0f} s")

    def _cpu_s(self) -> dict[int, float]:
        seconds = {}
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            seconds[process.pid] = times.user + times.system
        return seconds

    def pss_mb(self) -> float:
        """Proportional memory of all processes of this installation, in MiB."""
        total = 0
        for process in self.processes():
            try:
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        return total / 2**20


@contextmanager
def kiosk(port: int, below: Path | None = None) -> Iterator[Stack]:
    """Run a fresh installation, with its data below a folder (default: the system's temporary one), and end it."""
    with tempfile.TemporaryDirectory(prefix="kiosk-bench-", dir=below) as folder:
        data_dir = Path(folder) / "data"
        # Of its own Redis as well: what a person's shell names holds a person's data.
        others = ("KIOSK_REDIS_URL", "KIOSK_REDIS_URL_FILE")
        inherited = {name: value for name, value in os.environ.items() if name not in others}
        environment = {**inherited, "KIOSK_DATA_DIR": str(data_dir)}
        begin = time.monotonic()
        try:
            up = subprocess.run(
                [*KIOSK, "up", "--json", "--port", str(port)],
                capture_output=True,
                cwd=ROOT,
                env=environment,
                timeout=600,
            )
            took = time.monotonic() - begin
            if up.returncode:
                raise RuntimeError(f"kiosk up failed: {up.stderr.decode()[-2000:]}")
            installation = json.loads(up.stdout)
            app = next(app for app in installation["apps"] if app["environment"] == "development")
            subprocess.run(
                [
                    *KIOSK,
                    "apps",
                    "limit",
                    app["app_id"],
                    "--queries",
                    "1000000",
                    "--writes",
                    "1000000",
                    "--json",
                ],
                check=True,
                capture_output=True,
                cwd=ROOT,
                env=environment,
                timeout=60,
            )
            time.sleep(1.0)
            yield Stack(port, data_dir, app["secret_key"], took, app["app_id"])
        finally:
            down = subprocess.run(
                [*KIOSK, "down"], capture_output=True, cwd=ROOT, env=environment, timeout=120
            )
            if down.returncode:  # the supervisor ends everything it started when it is asked to
                for process in Stack(port, data_dir, "", 0.0).processes():
                    # it may have ended meanwhile
                    with suppress(psutil.NoSuchProcess):
                        if "cluster.local.supervisor" in process.cmdline():
                            process.terminate()
                            process.wait(60)


@contextmanager
def bare_echo(port: int) -> Iterator[int]:
    """Run the bare FastAPI echo under uvicorn, one process."""
    command = [sys.executable, "-m", "uvicorn", "tests.benchmarks.peers.echo:app", "--port", str(port)]
    with _process([*command, "--no-access-log", "--log-level", "warning"], port, limit_s=30):
        yield port


@contextmanager
def python_proxy_echo(port: int) -> Iterator[int]:
    """Run the same echo behind Ray Serve's default Python proxy."""
    with _process([sys.executable, "-m", "tests.benchmarks.peers.app", str(port)], port, limit_s=90):
        yield port


@contextmanager
def _process(command: list[str], port: int, limit_s: float) -> Iterator[None]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "KIOSK_"))}
    process = subprocess.Popen(
        command, cwd=ROOT, env=plain, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + limit_s
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{command[2]} did not answer on port {port}")
            time.sleep(0.2)
        yield
    finally:
        process.send_signal(2)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/echo/x", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False
