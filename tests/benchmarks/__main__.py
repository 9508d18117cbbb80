"""`kiosk bench [foundation | engine | ingest | sizes | quality] [--out FILE]`: measure this build beside its limits.

foundation   reads, recommendations of a small shop, interactions, uploads; beside a bare echo
engine       recommendations over 100,000 products x 128 and 1,000,000 interactions; beside a bare echo
ingest       files of millions into an installation, killed on the way
answers      composed answers: how good on questions with known answers, how fast (`kiosk bench answers --help`)
completions  completions of 100,000 titles, in process and through HAProxy (`kiosk bench completions --help`)
sizes        what a request costs as the catalog grows, up to 1,000,000 products, in one process
quality      ranking on public sets beside other libraries (`kiosk bench quality --help`)
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from cluster.runtime.sockets import free_ports
from tests.benchmarks import engine, ingest, report, scenarios, stack
from tests.benchmarks.load import Figures
from tests.benchmarks.unmeasured import NO_FIGURES, guarded


def main() -> int:
    """Run the suite asked for; exit with 1 when a bound is missed, with 2 when something could not be measured."""
    if sys.argv[1:2] == ["quality"]:
        from tests.benchmarks import quality_report

        return quality_report.main(sys.argv[2:])
    if sys.argv[1:2] == ["answers"]:
        from tests.benchmarks.answers import __main__ as answers

        return answers.main(sys.argv[2:])
    if sys.argv[1:2] == ["completions"]:
        from tests.benchmarks import completions_served

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        return completions_served.main(sys.argv[2:])
    if sys.argv[1:2] == ["sizes"]:
        from tests.benchmarks import engine_sizes

        return engine_sizes.main(sys.argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # so that what was started is ended
    given = _arguments()
    return report.print_report(_measured(given, Console(stderr=True)), json_wanted=given.json, out=given.out)


def _measured(given: argparse.Namespace, progress: Console) -> Iterator[scenarios.Line]:
    """Run the echo where a suite stands beside it, then the suite on a fresh installation."""
    beside = [NO_FIGURES, NO_FIGURES]

    def echo() -> Iterator[scenarios.Line]:
        with stack.bare_echo(given.port) as port:
            *beside[:], measured = scenarios.echo_lines(port, "bare echo")
        yield from measured

    def peer() -> Iterator[scenarios.Line]:
        with stack.python_proxy_echo(given.port) as port:
            yield from scenarios.echo_lines(port, "default Python proxy")[2]

    def kiosk_lines() -> Iterator[scenarios.Line]:
        with stack.kiosk(given.port) as running:
            yield from _suite(given, running, *beside)

    if given.suite != "ingest":
        progress.print("[bold]bare FastAPI echo[/]")
        yield from guarded("bare echo", echo)
    if given.suite == "foundation" and not given.skip_peer:
        progress.print("[bold]the same echo behind Ray Serve's default Python proxy[/]")
        yield from guarded("default Python proxy", peer)
    progress.print("[bold]kiosk[/] (a fresh installation in a scratch folder)")
    yield from guarded(f"kiosk, {given.suite}", kiosk_lines)


def _suite(
    given: argparse.Namespace, running: stack.Stack, rest: Figures, load: Figures
) -> Iterator[scenarios.Line]:
    if given.suite == "foundation":
        for name, measure in scenarios.foundation(running, rest, load):
            yield from guarded(name, measure)
    elif given.suite == "engine":
        sizes = engine.Sizes(given.products, given.interactions)
        with stack.bare_echo(free_ports(1)[0]) as port:
            yield from engine.lines(running, port, sizes, recipe=given.recipe)
    else:
        yield from ingest.lines(running, products=given.products, interactions=given.interactions)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kiosk bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = ["foundation", "engine", "ingest", "quality", "sizes", "answers", "completions"]
    parser.add_argument("suite", nargs="?", default="foundation", choices=suites)
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of the table")
    parser.add_argument("--skip-peer", action="store_true", help="leave out the slow default Python proxy")
    parser.add_argument("--products", type=int, default=100_000, help="size of the catalog (engine, ingest)")
    parser.add_argument("--interactions", type=int, default=1_000_000, help="events (engine, ingest)")
    parser.add_argument("--recipe", default="fast", help="what is trained and promoted before (engine)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
