"""Starts the processes that import uploaded files, beside an API replica."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

import structlog

from cluster.errors import Unavailable

_log = structlog.get_logger()


class ImportProcesses:
    """Starts one process for each import; Redis knows how many may run."""

    def __init__(
        self,
        environment: Callable[[], Mapping[str, str]],
        command: tuple[str, ...] = (sys.executable, "-m", "jobs.ingest.upload"),
    ) -> None:
        """`environment` returns the variables from which the process reads its settings."""
        self._environment = environment
        self._command = command

    async def start(self, app_id: str, import_id: str) -> None:
        """Start the process of an import and return at once.

        Errors:
            Unavailable: the machine starts no process
        """
        try:
            process = await asyncio.to_thread(self._open, app_id, import_id)
        except OSError as error:
            raise Unavailable(f"the import can't be started: {error.strerror or error}", told=True) from error
        # The thread takes the exit code, so that no dead process remains in the table of the system.
        threading.Thread(target=_wait, args=(process, app_id, import_id), daemon=True).start()

    def _open(self, app_id: str, import_id: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._command, app_id, import_id],
            env=dict(self._environment()),
            stdin=subprocess.DEVNULL,
            # Signals to the group of the replica do not reach the import.
            start_new_session=True,
        )


def _wait(process: subprocess.Popen[bytes], app_id: str, import_id: str) -> None:
    code = process.wait()
    _log.info("import_process_ended", app=app_id, import_id=import_id, code=code)
