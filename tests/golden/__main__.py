"""`python -m tests.golden record FILE` and `compare FILE`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.golden.answers import Comparison, Line, Recording, compare, read_lines
from tests.golden.arithmetic import restart_with_fixed_kernels

_SHOWN = 20


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="send all requests and write the answers")
    recording.add_argument("file", type=Path)
    recording.add_argument(
        "--whole", action="store_true", help="keep long bodies as text, to look at differences"
    )
    comparing = commands.add_parser("compare", help="send them again and show what differs")
    comparing.add_argument("file", type=Path)
    comparing.add_argument(
        "--with", dest="other", type=Path, help="compare with this recording; send nothing"
    )
    comparing.add_argument("--exact", action="store_true", help="accept no difference in the last digits")
    comparing.add_argument("--show", type=int, default=_SHOWN, help="differences to print")
    comparing.add_argument(
        "--except", dest="left_out", action="append", default=[], help="a family to leave out"
    )
    chosen = parser.parse_args()
    if chosen.command == "record":
        made = _record(whole=chosen.whole)
        made.write(chosen.file)
        print_counts(made.lines)
        return 0
    before = read_lines(chosen.file)
    after = read_lines(chosen.other) if chosen.other else _record().lines
    kept = [[line for line in lines if line.family not in chosen.left_out] for lines in (before, after)]
    result = compare(*kept, exact=chosen.exact)
    print_comparison(result, shown=chosen.show)
    return 1 if result.differences else 0


def _record(*, whole: bool = False) -> Recording:
    restart_with_fixed_kernels()
    from tests.golden.run import record  # after the restart: this loads the whole product

    return record(whole=whole)


def print_counts(lines: list[Line]) -> None:
    """Print how many answers each family has."""
    counts = Counter(line.family for line in lines)
    for family, count in counts.items():
        print(f"{count:6}  {family}")
    print(f"{sum(counts.values()):6}  answers")


def print_comparison(result: Comparison, *, shown: int = _SHOWN) -> None:
    """Print what is equal, family by family, and the first differences."""
    for family in sorted(result.equal | result.nearly):
        nearly = result.nearly[family]
        note = f", {nearly} more up to 6 digits" if nearly else ""
        print(f"{result.equal[family]:6}  {family} equal{note}")
    for difference in result.differences[:shown]:
        print(difference)
    print(f"{result.equal.total() + result.nearly.total()} equal, {len(result.differences)} different")


if __name__ == "__main__":
    sys.exit(main())
