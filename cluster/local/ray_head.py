"""Run Ray on this machine for the supervisor, as processes; this module imports no Ray.

A separate process (`bootstrap`) starts Ray and deploys; afterwards the supervisor watches only the two vital
processes. When one dies, the supervisor ends all of Ray and starts it again. Ray itself needs a minute to
notice the death, and the state is in Redis anyway.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import psutil
import structlog

from cluster.paths import InstallationPaths
from cluster.process.installation_processes import end_processes, is_alive, list_processes
from cluster.process.start_progress import STALLED_S, StallTimer
from cluster.runtime.start_plan import StartPlan

VITAL = ("gcs_server", "raylet")
HEARD_S = STALLED_S + 60.0
"A bootstrap process without messages for so long counts as stuck; it abandons a stalled stage earlier itself."
_log = structlog.get_logger()


class RayHead:
    """Starts and ends Ray."""

    def __init__(self, paths: InstallationPaths, command: tuple[str, ...] = ()) -> None:
        self._paths = paths
        self._command = command or (sys.executable, "-m", "cluster.runtime.bootstrap")
        self._process: subprocess.Popen[bytes] | None = None
        self._patience = StallTimer()
        self._listener: threading.Thread | None = None
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.vital: dict[str, int] = {}
        "Name -> pid of the vital processes."
        self.steps: dict[str, float] = {}
        "Step -> seconds after the start of the bootstrap process."

    @property
    def children(self) -> set[int]:
        """Return the processes that this object started."""
        return {self._process.pid} if self._process else set()

    @property
    def is_busy(self) -> bool:
        """Return whether a bootstrap process runs."""
        return self._process is not None

    def bring_up(self, plan: StartPlan, environment: Mapping[str, str]) -> None:
        """Start a bootstrap process; `read_messages` returns its progress."""
        self.steps = {}
        self._patience = StallTimer(HEARD_S)
        # In append mode the kernel places each write at the end, whichever process writes.
        with self._paths.supervisor_log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, plan.to_json()],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def read_messages(self) -> list[dict[str, Any]]:
        """Return the new messages of the bootstrap process; its last one is `ready` or `failed`."""
        messages = []
        while not self._lines.empty():
            line = self._lines.get_nowait()
            self.steps.setdefault(line["step"], line.get("after_s", 0.0))
            self._patience.record((line["step"], line.get("message")))
            messages.append(line)
        if self._process is not None:
            code = self._process.poll()
            if code is None and self._patience.is_over:
                self._process.kill()
                code = self._process.wait()
            # Its last lines may still be in the pipe after the process ended.
            listening = self._listener is not None and self._listener.is_alive()
            if code is not None and not listening and self._lines.empty():
                self._process = None
                # Killed or crashed without a word: the supervisor waits for one of the two.
                if not {"ready", "failed"} & self.steps.keys():
                    self.steps["failed"] = 0.0
                    stuck = f" after {HEARD_S:.0f} s without progress" if self._patience.is_over else ""
                    messages.append(
                        {"step": "failed", "message": f"bringing up ended with code {code}{stuck}"}
                    )
        # From the step after `ray` on, Ray runs; before it there is nothing to watch.
        if any(line["step"] not in ("apps", "ray") for line in messages):
            self._record_vital()
        return messages

    def is_dead(self) -> bool:
        """Return whether a vital process died; False until one was observed alive."""
        return any(not is_alive(pid) for pid in self.vital.values())

    def end(self, spare: set[int], patience_s: float = 1.5) -> list[psutil.Process]:
        """End all of Ray (all of the installation's processes except `spare`) and clean up after it.

        Ray's processes wait for each other when all receive a signal, so a long `patience_s` has little effect; the
        state is in Redis.
        """
        # The bootstrap process first, or it would start again what is being ended.
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        begun = time.monotonic()
        mine = [process for process in list_processes(self._paths) if process.pid not in spare]
        left = end_processes(mine, patience_s)
        _log.info("ray_ended", processes=len(mine), took_s=round(time.monotonic() - begun, 2))
        if left:
            _log.error("processes_left", pids=[process.pid for process in left])
        self.vital = {}
        shutil.rmtree(self._paths.ray_dir, ignore_errors=True)
        return left

    def _record_vital(self) -> None:
        for process in list_processes(self._paths):
            try:
                name = os.path.basename((process.cmdline() or [""])[0])
            except psutil.Error:
                continue
            if name in VITAL:
                self.vital[name] = process.pid

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as out:
            for line in out:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict) and "step" in message:
                    self._lines.put(message)
