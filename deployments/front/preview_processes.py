"""Looks at uploaded files in processes of their own, beside an API replica: bounded in memory, time and number.

A process gets the task on its standard input and no secrets, and writes the answer on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from cluster.errors import Invalid, KioskError, NotFound, TooMany, Unavailable
from deployments.operations.content.file_preview import preview_file
from deployments.operations.content.preview_task import PreviewTask

WITHIN_S = 30.0
MOST_MEMORY = 3 << 30
"Bytes of address space."
MOST_ANSWER = 16 << 20
MOST_AT_ONCE = 1
MOST_WAITING = 16
MOST_OF_APP = 3
"Tasks of one app that run or wait."
BEHIND_REQUESTS = 10
"Niceness beside API replicas."
_PASSED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "HOME", "LANG", "TMPDIR")
_FEW_THREADS = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}
"Each thread and each pool takes address space."
_ERRORS: Mapping[str, type[KioskError]] = {error.code: error for error in (Invalid, NotFound, Unavailable)}
_TOO_MUCH = "the file takes more memory or time than a look at it may take; is its format right?"


class PreviewProcesses:
    """Starts one process for each look at a file."""

    def __init__(
        self,
        environment: Callable[[], Mapping[str, str]],
        *,
        command: tuple[str, ...] = (sys.executable, "-m", "deployments.front.preview_processes"),
        within_s: float = WITHIN_S,
    ) -> None:
        """`environment` returns the variables with which a process finds Kiosk; few of them are passed on."""
        self._environment = environment
        self._command = command
        self._within_s = within_s
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._of_app: Counter[str] = Counter()

    async def preview(self, task: PreviewTask) -> dict[str, Any]:
        """Return what a file holds.

        Errors:
            Invalid: the file can't be read, or takes too much memory or time
            TooMany: too many looks at files run or wait
            Unavailable: the machine starts no process
        """
        app_id = task.record.app_id
        if self._of_app[app_id] >= MOST_OF_APP or self._of_app.total() >= MOST_WAITING:
            raise TooMany("too many files are being looked at", retry_after_s=5)
        self._of_app[app_id] += 1
        try:
            # A cancelled call frees its turn at once, while its thread runs on for at most `within_s`.
            async with self._turns:
                return await asyncio.to_thread(self._run, task)
        finally:
            self._of_app[app_id] -= 1
            self._of_app += Counter()  # drops apps without a task

    def _run(self, task: PreviewTask) -> dict[str, Any]:
        given = self._environment()
        environment = {name: given[name] for name in _PASSED_ON if name in given} | _FEW_THREADS
        try:
            done = subprocess.run(
                self._command,
                input=task.model_dump_json().encode(),
                stdout=subprocess.PIPE,
                # A traceback could carry lines of the uploaded file into the log.
                stderr=subprocess.DEVNULL,
                env=environment,
                timeout=self._within_s,
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            raise Invalid(_TOO_MUCH) from None
        except OSError as error:
            raise Unavailable(f"the file can't be looked at: {error.strerror or error}", told=True) from error
        # Native code that gets no memory aborts, so the exit code need not be the 1 of `main`.
        if done.returncode != 0:
            raise Invalid(_TOO_MUCH)
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise _ERRORS.get(answer["code"], Invalid)(answer["error"])
        return dict(answer["result"])


def main() -> int:
    """Look at the file of the task on standard input; return 0, or 1 if that takes too much."""
    os.nice(BEHIND_REQUESTS)
    # Set here and not by `preexec_fn` of the parent, which is not safe beside threads.
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    # A dump of memory would leave the uploaded file on the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        text = json.dumps(_answer(PreviewTask.model_validate_json(sys.stdin.buffer.read())), default=str)
    except (MemoryError, RecursionError):
        return 1
    if len(text) > MOST_ANSWER:
        return 1
    sys.stdout.write(text)
    return 0


def _answer(task: PreviewTask) -> dict[str, Any]:
    try:
        return {"result": preview_file(task)}
    except KioskError as error:
        return {"error": error.message, "code": error.code}


if __name__ == "__main__":
    sys.exit(main())
