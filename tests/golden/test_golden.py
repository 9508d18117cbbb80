"""All answers are as they were recorded.

When answers change on purpose, look at the differences, and record anew in the same commit:

    python -m tests.golden compare tests/golden/answers.jsonl.gz     shows what differs
    python -m tests.golden record tests/golden/answers.jsonl.gz      makes it the new expectation

To see differences inside bodies of which only a digest is kept, record with `--whole` on both states of the code, and
compare the two files: `python -m tests.golden compare BEFORE --with AFTER`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import tests
from tests.golden.answers import Line, compare, make_body, read_lines
from tests.golden.masks import Masks, round_numbers
from tests.suites.redis_process import redis_binary

FILE = Path(__file__).with_name("answers.jsonl.gz")
ROOT = Path(tests.__path__[0]).parent


PROCESSORS: dict[str, dict[str, str]] = {
    "without AVX": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2",
    },
    "with AVX": {"OPENBLAS_CORETYPE": "Sandybridge", "FAISS_SIMD_LEVEL": "NONE"},
    "with AVX2": {"OPENBLAS_CORETYPE": "Haswell", "FAISS_SIMD_LEVEL": "AVX2"},
}
"Environments in which libraries choose the kernels of another processor."
_CALCULATE = """
import sys
from tests.golden.arithmetic import kernels_in_use, restart_with_fixed_kernels
if sys.argv[1] == "fixed":
    restart_with_fixed_kernels()
import hashlib, math
import numpy as np
from scipy.linalg import lapack
rows = np.random.default_rng(5).random((300, 200)).astype(np.float32)
covariance = np.cov(rows.T)
results = [
    rows @ rows.T, rows.sum(axis=1), np.exp(rows), np.log(rows), np.argpartition(np.round(rows, 1), 9, axis=1),
    np.linalg.inv(covariance), np.linalg.eigh(covariance)[1], lapack.dpotrf(covariance)[0],
    np.array([math.exp(number) ** 0.3 for number in rows.ravel().tolist()]),
]
print(*kernels_in_use().values())
print(hashlib.sha256(b"".join(np.ascontiguousarray(result).tobytes() for result in results)).hexdigest())
"""


def calculate(kernels: str, environment: dict[str, str]) -> list[str]:
    """Return the kernels of a process and the digest of what it calculates."""
    command = [sys.executable, "-c", _CALCULATE, kernels]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels are those of x86-64")
def test_a_recording_calculates_alike_on_all_processors() -> None:
    fixed = [calculate("fixed", environment) for environment in PROCESSORS.values()]
    assert fixed.count(fixed[0]) == len(fixed)
    assert set(fixed[0][0].split()) == {"NONE", "Nehalem"}
    chosen = {calculate("chosen by the processor", environment)[1] for environment in PROCESSORS.values()}
    assert len(chosen) == len(PROCESSORS)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the answers were recorded on x86-64")
@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.timeout(600)
def test_every_answer_is_as_it_was_recorded() -> None:
    if redis_binary() is None:
        pytest.skip("no Redis server here")
    command = [sys.executable, "-m", "tests.golden", "compare", str(FILE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]


def test_the_recording_is_large_and_covers_all_families() -> None:
    lines = read_lines(FILE)
    assert len(lines) >= 2_500
    assert len({line.name for line in lines}) == len(lines)
    families = {line.family for line in lines}
    assert families >= {
        "recommendation",
        "search",
        "questions",
        "archive",
        "oauth",
        "scenarios",
        "redis keys",
    }


def line(body: str, status: int = 200) -> Line:
    return Line("f", "0001 x", status, {"content-type": "a"}, make_body(body))


@pytest.mark.parametrize(
    ("was", "now", "exact", "differs"),
    [
        (line("a"), line("a"), False, False),
        (line("a"), line("b"), False, True),
        (line("a"), line("a", 404), False, True),
        (line('{"s":0.12345678}'), line('{"s":0.12345679}'), False, False),
        (line('{"s":0.12345678}'), line('{"s":0.12345679}'), True, True),
        (line('{"s":0.12345}'), line('{"s":0.12346}'), False, True),
        (line("x" * 5_000), line("x" * 4_999 + "y"), False, True),
        (line("x" * 5_000 + " 1.00000001"), line("x" * 5_000 + " 1.00000002"), False, False),
    ],
)
def test_a_comparison_finds_what_differs(was: Line, now: Line, exact: bool, differs: bool) -> None:
    assert bool(compare([was], [now], exact=exact).differences) is differs


def test_a_missing_or_new_answer_is_a_difference() -> None:
    assert compare([line("a")], []).differences == ["missing   f: 0001 x"]
    assert compare([], [line("a")]).differences == ["new       f: 0001 x"]


def test_masks_keep_which_id_is_which() -> None:
    first, second = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-2222-4333-8444-555555555555"
    masks = Masks()
    shown = masks.apply(f'{{"took":12,"a":"{first}"}}', "first")
    assert shown == '{"took":0,"a":"<uuid of first>"}'
    assert masks.apply(f"{first} {second}", "second") == "<uuid of first> <uuid of second>"
    assert round_numbers("1.23456789 12 1e-7 0.1") == "1.23457 12 1e-07 0.1"
