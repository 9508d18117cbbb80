"""The commands of `kiosk bench`: suites and their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from jobs.command_line import WORDS, AsJson, DefaultGroup, build_app

Suite = Literal["foundation", "engine", "ingest"]
AnswersPart = Literal["quality", "speed"]


class RankingPart(str, Enum):
    """A part of the tables of `kiosk bench quality`."""

    RANKING = "ranking"
    MORE = "more"
    SERVED = "served"


SIZES = (100_000, 300_000, 1_000_000)
EPILOG = """
[bold]Suites[/]

  foundation     reads, recommendations of a small shop, interactions and uploads, beside a bare echo
  engine         recommendations over 100,000 products and 1,000,000 interactions, beside a bare echo
  ingest         an ingest of files with millions of rows; the installation is killed on the way
  answers        quality and speed of composed answers: `kiosk bench answers --help`
  completions    completions of 100,000 titles: `kiosk bench completions --help`
  sizes          the cost of a request as the catalog grows: `kiosk bench sizes --help`
  quality        ranking on public sets beside other libraries: `kiosk bench quality --help`

Exit codes: 0 every bound is kept, 1 a bound is missed or a figure is not measured, 2 wrong use, 3 Kiosk is away.
"""


@dataclass(frozen=True, slots=True)
class BenchSuiteOptions:
    """The options of the suites that measure a fresh installation."""

    suite: Suite = "foundation"
    port: int = 18080
    skip_peer: bool = False
    products: int = 100_000
    interactions: int = 1_000_000
    recipe: str = "fast"
    as_json: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class BenchRankingOptions:
    """The options of `kiosk bench quality`."""

    sets: tuple[str, ...] = ()
    only: str = ""
    parts: tuple[RankingPart, ...] = ()
    as_json: bool = False
    out: Path | None = None
    peers: bool = False
    minutes: float = 30.0
    cache: Path | None = None


@dataclass(frozen=True, slots=True)
class BenchAnswersOptions:
    """The options of `kiosk bench answers`."""

    part: AnswersPart | None = None
    sets: str = "en,es,de"
    every: int = 1
    port: int = 18160
    as_json: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class BenchCompletionsOptions:
    """The options of `kiosk bench completions`."""

    titles: int = 100_000
    port: int = 18080
    recipe: str = "fast"
    in_process: bool = False
    as_json: bool = False
    out: Path | None = None


@dataclass(frozen=True, slots=True)
class BenchSizesOptions:
    """The options of `kiosk bench sizes`."""

    sizes: tuple[int, ...] = SIZES
    as_json: bool = False
    out: Path | None = None


BenchOptions = (
    BenchSuiteOptions
    | BenchRankingOptions
    | BenchAnswersOptions
    | BenchCompletionsOptions
    | BenchSizesOptions
)
Execute = Callable[[BenchOptions, Sequence[str]], int]

OutOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file that also gets the figures as JSON.")
]
PortOption = Annotated[int, typer.Option(min=1, max=65_535, help="The port of what is measured.")]
RecipeOption = Annotated[
    str, typer.Option(metavar="NAME", help="The recipe that is trained and promoted before; empty: none.")
]


def build_bench_app(execute: Execute) -> typer.Typer:
    """Build the commands; `execute` takes the options and the typed words, measures and returns the exit code."""
    app = build_app("Measure this build beside its limits.", group=DefaultGroup)
    _add_suites(app, execute)
    _add_answers(app, execute)
    _add_completions(app, execute)
    _add_sizes(app, execute)
    _add_quality(app, execute)
    return app


def _add_suites(app: typer.Typer, execute: Execute) -> None:
    @app.command("SUITE", epilog=EPILOG)
    def measure_suite(
        context: typer.Context,
        suite: Annotated[
            Suite, typer.Argument(help="One of the suites that start an installation.")
        ] = "foundation",
        port: PortOption = 18080,
        out: OutOption = None,
        skip_peer: Annotated[
            bool, typer.Option("--skip-peer", help="Leave out the slow default Python proxy (foundation).")
        ] = False,
        products: Annotated[
            int, typer.Option(min=1, help="Products of the catalog (engine, ingest).")
        ] = 100_000,
        interactions: Annotated[int, typer.Option(min=1, help="Interactions (engine, ingest).")] = 1_000_000,
        recipe: RecipeOption = "fast",
        as_json: AsJson = False,
    ) -> None:
        """Measure this build on this machine and compare the figures with their bounds."""
        options = BenchSuiteOptions(suite, port, skip_peer, products, interactions, recipe, as_json, out)
        raise typer.Exit(execute(options, context.meta[WORDS]))


def _add_answers(app: typer.Typer, execute: Execute) -> None:
    @app.command("answers")
    def measure_answers(
        context: typer.Context,
        part: Annotated[AnswersPart | None, typer.Argument(help="One part; both if it is left out.")] = None,
        sets: Annotated[
            str, typer.Option(help="Languages of the public set, separated by commas (quality).")
        ] = "en,es,de",
        every: Annotated[
            int, typer.Option(min=1, help="Ask one of so many questions of the public set (quality).")
        ] = 1,
        port: PortOption = 18160,
        out: OutOption = None,
        as_json: AsJson = False,
    ) -> None:
        """Measure composed answers: their quality in this process, their speed in a fresh installation."""
        options = BenchAnswersOptions(part, sets, every, port, as_json, out)
        raise typer.Exit(execute(options, context.meta[WORDS]))


def _add_completions(app: typer.Typer, execute: Execute) -> None:
    @app.command("completions")
    def measure_completions(
        context: typer.Context,
        titles: Annotated[int, typer.Option(min=1, help="Titles of the catalog.")] = 100_000,
        port: PortOption = 18080,
        recipe: RecipeOption = "fast",
        in_process: Annotated[bool, typer.Option("--in-process", help="Leave out HTTP.")] = False,
        out: OutOption = None,
        as_json: AsJson = False,
    ) -> None:
        """Measure completions of many titles, in this process and through HAProxy."""
        options = BenchCompletionsOptions(titles, port, recipe, in_process, as_json, out)
        raise typer.Exit(execute(options, context.meta[WORDS]))


def _add_sizes(app: typer.Typer, execute: Execute) -> None:
    @app.command("sizes")
    def measure_sizes(
        context: typer.Context,
        sizes: Annotated[
            list[int] | None,
            typer.Argument(
                min=1, help="Products of each catalog; 100,000, 300,000 and 1,000,000 if left out."
            ),
        ] = None,
        out: OutOption = None,
        as_json: AsJson = False,
    ) -> None:
        """Measure the cost of a request as the catalog grows, in one process on one core."""
        options = BenchSizesOptions(tuple(sizes or SIZES), as_json, out)
        raise typer.Exit(execute(options, context.meta[WORDS]))


def _add_quality(app: typer.Typer, execute: Execute) -> None:
    @app.command("quality")
    def measure_quality(
        context: typer.Context,
        sets: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="FOLDER", help="The folder of a public set; all if left out."),
        ] = None,
        only: Annotated[
            str,
            typer.Option(
                help="Only protocols with this text in their name; with --peers, also libraries and recipes."
            ),
        ] = "",
        part: Annotated[
            list[RankingPart] | None, typer.Option(help="A part of the tables; all if left out.")
        ] = None,
        peers: Annotated[
            bool,
            typer.Option(
                "--peers", help="Compare with implicit, LensKit and RecTools, which are installed apart."
            ),
        ] = False,
        minutes: Annotated[
            float,
            typer.Option(
                min=0.1,
                help="Processor time of each search, and again of each training; with --peers.",
            ),
        ] = 30.0,
        cache: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER",
                help="Keeps the libraries and what ran, with --peers; ~/.cache/kiosk/peers if left out.",
            ),
        ] = None,
        out: OutOption = None,
        as_json: AsJson = False,
    ) -> None:
        """Measure ranking on public sets beside other libraries."""
        options = BenchRankingOptions(
            tuple(sets or ()), only, tuple(part or ()), as_json, out, peers, minutes, cache
        )
        raise typer.Exit(execute(options, context.meta[WORDS]))
