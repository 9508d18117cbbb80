"""An environment of the peers' own, and their processes: one thread, low priority, a budget of processor time."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import Invalid

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
PROGRAM = Path(__file__).with_name("library_lists.py")

_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
_WALL_FACTOR = 20
"Time on the clock for each second of the budget: a process that waits instead of working ends too."
_NICENESS = 19
_ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Run:
    """What a process of a peer left behind."""

    rows: Sequence[Mapping[str, Any]]
    "A row for each file of lists: settings, fit_s, rank_s, peak_bytes."
    version: str
    cpu_s: float
    reason: str = ""
    "Why it ended before its end; rows written before count."


def make_environment(cache: Path, report_progress: Callable[[str], None]) -> Path:
    """Return the interpreter of the peers' environment; install it where it is absent or its pins changed.

    Errors:
        Invalid: it cannot be installed; the message has the last line of pip
    """
    folder = cache / "environment"
    interpreter, pins = folder / "bin" / "python", folder / REQUIREMENTS.name
    if interpreter.exists() and pins.exists() and pins.read_text() == REQUIREMENTS.read_text():
        return interpreter
    report_progress(f"install the peers into {folder} (some 2 GB, minutes)")
    venv.create(folder, with_pip=True, clear=True)
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)]
    installed = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if installed.returncode:
        raise Invalid(f"the peers cannot be installed: {_last_line(installed.stderr)}")
    shutil.copy(REQUIREMENTS, pins)
    return interpreter


def run_process(command: Sequence[str], out: Path, budget_s: float) -> Run:
    """Run a process that writes `runs.json` and lists into a fresh folder, and ends after its budget.

    The process limits its processor time by itself; the last word of its command is the budget in seconds.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    before = _children_s()
    log = out / "output.txt"
    environment = {**os.environ, **_THREADS, "XLA_FLAGS": _XLA}
    reason = ""
    with log.open("w") as output:
        try:
            code = subprocess.run(
                ["nice", "-n", str(_NICENESS), *command, str(int(budget_s))],
                stdout=output,
                stderr=output,
                env=environment,
                cwd=_ROOT,
                timeout=_WALL_FACTOR * budget_s + 600,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    spent_s = _children_s() - before
    # The kernel's limit counts whole ticks, so the signal may come before the sum of times has reached the budget.
    if code == -signal.SIGXCPU or (code and spent_s >= 0.9 * int(budget_s)):
        reason = f"not finished in {budget_s / 60:.3g} min of one core"
    elif code:
        reason = _last_line(log.read_text()) or f"ended with {code}"
    written = out / "runs.json"
    facts = json.loads(written.read_text()) if written.exists() else {"rows": [], "version": ""}
    return Run(facts["rows"], facts["version"], spent_s, reason)


def limit_cpu_time(seconds: float) -> None:
    """End this process after so many seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 10))


def read_peak_bytes() -> int:
    """Return the largest memory of this process; `ru_maxrss` would start at that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10


def library_command(
    interpreter: Path, peer: str, settings: Mapping[str, Any], split: Path, out: Path
) -> list[str]:
    """Return the command that ranks a split with a library."""
    return [str(interpreter), str(PROGRAM), peer, json.dumps(settings), str(split), str(out)]


def kiosk_command(*words: str) -> list[str]:
    """Return the command that ranks a split with a recipe of Kiosk."""
    return [sys.executable, "-m", "tests.benchmarks.peers.kiosk_lists", *words]


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
