"""`kiosk bench` takes the words of its suites and hands them to the program that measures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deployments.cli import subprocess_commands
from deployments.cli.subprocess_commands import (
    AnswersOptions,
    BenchOptions,
    CompletionsOptions,
    RankingOptions,
    RankingPart,
    SizesOptions,
    SuiteOptions,
)
from jobs.command_line import WRONG_USE, run_program

Call = tuple[BenchOptions, Sequence[str]]


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def app(calls: list[Call]) -> typer.Typer:
    def execute(options: BenchOptions, words: Sequence[str]) -> int:
        calls.append((options, words))
        return 1

    return subprocess_commands.build_bench_app(execute)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", SuiteOptions()),
        ("foundation --skip-peer", SuiteOptions(skip_peer=True)),
        ("--port 18081 engine --recipe best", SuiteOptions("engine", 18081, recipe="best")),
        (
            "ingest --products 10 --interactions 20 --json",
            SuiteOptions("ingest", products=10, interactions=20, as_json=True),
        ),
        ("answers", AnswersOptions()),
        ("answers --port 18200", AnswersOptions(port=18200)),
        ("answers speed --port 18200", AnswersOptions("speed", port=18200)),
        ("answers quality --sets en --every 5 --json", AnswersOptions("quality", "en", 5, as_json=True)),
        ("completions --titles 300 --in-process", CompletionsOptions(300, in_process=True)),
        ("completions --recipe=", CompletionsOptions(recipe="")),
        ("sizes", SizesOptions()),
        ("sizes 1000 2000", SizesOptions((1000, 2000))),
        (
            "quality --set a --set b --only time --part ranking --part more",
            RankingOptions(("a", "b"), "time", (RankingPart.RANKING, RankingPart.MORE)),
        ),
        (
            "quality --peers --minutes 2.5 --cache folder",
            RankingOptions(peers=True, minutes=2.5, cache=Path("folder")),
        ),
    ],
)  # fmt: skip
def test_every_suite_gets_its_options_and_the_typed_words(
    app: typer.Typer, calls: list[Call], words: str, expected: BenchOptions
) -> None:
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 1, "the exit code of the program"
    assert calls == [(expected, words.split())]


@pytest.mark.parametrize(
    "words", ["nosuch", "--nosuch", "answers nosuch", "sizes 0", "quality --part nosuch"]
)
def test_wrong_use_ends_with_2_and_measures_nothing(app: typer.Typer, calls: list[Call], words: str) -> None:
    assert CliRunner().invoke(app, words.split()).exit_code == WRONG_USE
    assert calls == []


def test_an_unknown_set_is_wrong_use_and_an_object_with_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.benchmarks.__main__ import run_suite

    monkeypatch.setattr("sys.argv", ["bench", "quality", "--set", "nosuch", "--json"])
    assert run_program(subprocess_commands.build_bench_app(run_suite), "kiosk bench") == WRONG_USE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "invalid"
