"""`python -m tests.benchmarks [foundation] [--out FILE]`: measure this build beside its limits."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from tests.benchmarks import report, scenarios, stack


def main() -> int:
    """Run the suites asked for; exit with 1 when a bound is missed."""
    if sys.argv[1:2] == ["quality"]:
        from tests.benchmarks import quality_report

        return quality_report.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="kiosk bench", description=__doc__)
    parser.add_argument("suite", nargs="?", default="foundation", choices=["foundation"])
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of the table")
    parser.add_argument("--skip-peer", action="store_true", help="leave out the slow default Python proxy")
    given = parser.parse_args()
    progress = Console(stderr=True)
    lines: list[scenarios.Line] = []

    progress.print("[bold]bare FastAPI echo[/]")
    with stack.bare_echo(given.port) as port:
        rest, load, measured = scenarios.echo_lines(port, "bare echo")
    lines += measured
    if not given.skip_peer:
        progress.print("[bold]the same echo behind Ray Serve's default Python proxy[/]")
        with stack.python_proxy_echo(given.port) as port:
            lines += scenarios.echo_lines(port, "default Python proxy")[2]
    progress.print("[bold]kiosk[/] (a fresh installation in a scratch folder)")
    with stack.kiosk(given.port) as running:
        for line in scenarios.foundation(running, rest, load):
            progress.print(f"  {line.name}: {line.value:,.2f} {line.unit}")
            lines.append(line)
    if given.json:
        print(report.as_json(lines))
    else:
        report.show(lines)
    if given.out:
        given.out.write_text(report.as_json(lines) + "\n")
    return 1 if any(line.kept is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
