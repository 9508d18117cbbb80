"""All answers are as they were recorded.

When answers change on purpose, look at the differences, and record anew in the same commit:

    python -m tests.golden compare tests/golden/answers.jsonl.gz     shows what differs
    python -m tests.golden record tests/golden/answers.jsonl.gz      makes it the new expectation

To see differences inside bodies of which only a digest is kept, record with `--whole` on both states of the code, and
compare the two files: `python -m tests.golden compare BEFORE --with AFTER`.
"""

from __future__ import annotations

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
    one, two = "11111111-2222-4333-8444-555555555555", "aaaaaaaa-2222-4333-8444-555555555555"
    masks = Masks()
    shown = masks.apply(f'{{"took":12,"a":"{one}"}}', "first")
    assert shown == '{"took":0,"a":"<uuid of first>"}'
    assert masks.apply(f"{one} {two}", "second") == "<uuid of first> <uuid of second>"
    assert round_numbers("1.23456789 12 1e-7 0.1") == "1.23457 12 1e-07 0.1"
