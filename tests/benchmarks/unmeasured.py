"""What could not be measured here: a line with the reason in place of a traceback."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable, Iterator

from cluster.log import redact
from tests.benchmarks.load import Figures
from tests.benchmarks.scenarios import Line

NO_FIGURES = Figures(0, 0.0, *[math.nan] * 5)
"Stand in for a peer that was not measured: what is compared with it comes to no figure either."
NO_SET = "there is no set {} in {}; KIOSK_TEST_DATA names the folder of public sets"
_LONGEST = 300


def unmeasured(name: str, reason: str) -> Line:
    """Make the line of something that could not be measured."""
    return Line(name, math.nan, "", reason=reason)


def guarded(name: str, measure: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    """Give the lines of a part; when it fails, what it gave so far and the reason."""
    try:
        yield from measure()
    except Exception as error:  # noqa: BLE001 - whatever is missing here, the other parts can still be measured
        yield unmeasured(name, reason_of(error))


def reason_of(error: Exception) -> str:
    """Say in one line why something failed, with what a person can do where that is known."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed; `pip install -e '.[test]'`"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, subprocess.CalledProcessError):
        output = error.stderr or error.stdout or b""
        text = output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output)
        error = RuntimeError(f"{error.cmd[-1]} ended with code {error.returncode}: {text}")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join([lines[0], lines[-1]] if len(lines) > 1 else lines)
    text = (
        text if isinstance(error, RuntimeError) and text else f"{type(error).__name__}: {text}".rstrip(": ")
    )
    return redact(text)[:_LONGEST]
