"""Commands in forks of one process that has imported them: what they do, without the seconds of their imports.

A fork has the environment, the directory, the arguments and the end of a process of its own. What only a fresh
interpreter shows, such as a missing import, stays with tests that start one.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_IMPORTED = (
    "deployments.cli.framework.cli_operations",
    "deployments.cli.framework.running_api",
    "jobs.refresh.cli",
    "jobs.refresh.runs.local_worker",
)


class ForkedCommands:
    """The process that has imported all commands; it ends with `close`."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "forked.out"
        self._err = folder / "forked.err"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.suites.forked_commands"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, module: str, words: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -m MODULE WORDS` in a fork."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        order = [module, list(words), dict(environment), str(folder), str(self._out), str(self._err)]
        print(json.dumps(order), file=pipes.stdin, flush=True)
        code = int(pipes.stdout.readline())
        return subprocess.CompletedProcess(list(words), code, self._out.read_text(), self._err.read_text())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    """Fork for each line of standard input, and print how the fork ended."""
    importlib.import_module("deployments.cli.command_line").command_line()
    for name in _IMPORTED:
        importlib.import_module(name)
    # What is imported is garbage to no fork: a collection, as at its end, would copy all of it.
    gc.freeze()
    for line in sys.stdin:
        module, words, environment, folder, out, err = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(module, words, environment, folder, out, err)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(
    module: str, words: list[str], environment: dict[str, str], folder: str, out: str, err: str
) -> None:
    """Run a module as the program of this process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600) for path in (out, err)]
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.argv = [module, *words]
    sys.path[0] = folder
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
