"""`kiosk bench`: measure this build beside its limits."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import chain

from rich.console import Console

from cluster.process.free_ports import free_ports
from jobs.command_line import run_program
from tests.benchmarks import engine, ingest, report, scenarios, stack
from tests.benchmarks.command_line import (
    BenchAnswersOptions,
    BenchCompletionsOptions,
    BenchOptions,
    BenchRankingOptions,
    BenchSizesOptions,
    BenchSuiteOptions,
    build_bench_app,
)
from tests.benchmarks.load import Figures
from tests.benchmarks.unmeasured import NO_FIGURES, guarded

_INTERRUPTED = 130


def run_suite(options: BenchOptions, _: Sequence[str] = ()) -> int:
    """Run a suite; return 1 when a bound is missed or something could not be measured, else 0."""
    # Imported here: each suite needs libraries that the others run without.
    if isinstance(options, BenchRankingOptions):
        from tests.benchmarks import quality_report

        return quality_report.print_tables(options)
    if isinstance(options, BenchSizesOptions):
        from tests.benchmarks import engine_sizes

        return engine_sizes.print_sizes(options)
    return report.print_report(_suite_lines(options), as_json_document=options.as_json, out=options.out)


def _suite_lines(
    options: BenchSuiteOptions | BenchAnswersOptions | BenchCompletionsOptions,
) -> Iterator[scenarios.Line]:
    if isinstance(options, BenchAnswersOptions):
        from tests.benchmarks.answers import quality, speed

        languages = tuple(filter(None, options.sets.split(",")))
        parts = {
            "quality": quality.lines(languages, options.every),
            "speed": speed.served_lines(options.port),
        }
        return chain.from_iterable(lines for part, lines in parts.items() if options.part in (None, part))
    if isinstance(options, BenchCompletionsOptions):
        from tests.benchmarks import completions_served

        return completions_served.completion_lines(options)
    return installation_lines(options, Console(stderr=True))


def installation_lines(options: BenchSuiteOptions, progress: Console) -> Iterator[scenarios.Line]:
    """Run the echo if the suite compares with it, then the suite on a fresh installation."""
    beside = [NO_FIGURES, NO_FIGURES]

    def echo() -> Iterator[scenarios.Line]:
        with stack.bare_echo(options.port) as port:
            *beside[:], measured = scenarios.echo_lines(port, "bare echo")
        yield from measured

    def peer() -> Iterator[scenarios.Line]:
        with stack.python_proxy_echo(options.port) as port:
            yield from scenarios.echo_lines(port, "default Python proxy")[2]

    def kiosk_lines() -> Iterator[scenarios.Line]:
        with stack.kiosk(options.port) as running:
            yield from _measure_installation(options, running, *beside)

    if options.suite != "ingest":
        progress.print("[bold]bare FastAPI echo[/]")
        yield from guarded("bare echo", echo)
    if options.suite == "foundation" and not options.skip_peer:
        progress.print("[bold]the same echo behind Ray Serve's default Python proxy[/]")
        yield from guarded("default Python proxy", peer)
    progress.print("[bold]kiosk[/] (a fresh installation in a scratch folder)")
    yield from guarded(f"kiosk, {options.suite}", kiosk_lines)


def _measure_installation(
    options: BenchSuiteOptions, running: stack.Stack, rest: Figures, load: Figures
) -> Iterator[scenarios.Line]:
    if options.suite == "foundation":
        for name, measure in scenarios.foundation(running, rest, load):
            yield from guarded(name, measure)
    elif options.suite == "engine":
        sizes = engine.Sizes(options.products, options.interactions)
        with stack.bare_echo(free_ports(1)[0]) as port:
            yield from engine.lines(running, port, sizes, recipe=options.recipe)
    else:
        yield from ingest.lines(running, products=options.products, interactions=options.interactions)


if __name__ == "__main__":
    # An ended program still stops the installation and the echo that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_INTERRUPTED))
    sys.exit(run_program(build_bench_app(run_suite), "kiosk bench"))
