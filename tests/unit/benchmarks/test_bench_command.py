"""`kiosk bench` takes the words of its suites and hands them to the program that measures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jobs.command_line import WRONG_USE, run_program
from tests.benchmarks.command_line import (
    BenchAnswersOptions,
    BenchCompletionsOptions,
    BenchOptions,
    BenchRankingOptions,
    BenchSizesOptions,
    BenchSuiteOptions,
    RankingPart,
    build_bench_app,
)

Call = tuple[BenchOptions, Sequence[str]]


@pytest.fixture
def calls() -> list[Call]:
    return []


@pytest.fixture
def app(calls: list[Call]) -> typer.Typer:
    def execute(options: BenchOptions, words: Sequence[str]) -> int:
        calls.append((options, words))
        return 1

    return build_bench_app(execute)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", BenchSuiteOptions()),
        ("foundation --skip-peer", BenchSuiteOptions(skip_peer=True)),
        ("--port 18081 engine --recipe best", BenchSuiteOptions("engine", 18081, recipe="best")),
        (
            "ingest --products 10 --interactions 20 --json",
            BenchSuiteOptions("ingest", products=10, interactions=20, as_json=True),
        ),
        ("answers", BenchAnswersOptions()),
        ("answers --port 18200", BenchAnswersOptions(port=18200)),
        ("answers speed --port 18200", BenchAnswersOptions("speed", port=18200)),
        ("answers quality --sets en --every 5 --json", BenchAnswersOptions("quality", "en", 5, as_json=True)),
        ("completions --titles 300 --in-process", BenchCompletionsOptions(300, in_process=True)),
        ("completions --recipe=", BenchCompletionsOptions(recipe="")),
        ("sizes", BenchSizesOptions()),
        ("sizes 1000 2000", BenchSizesOptions((1000, 2000))),
        (
            "quality --set a --set b --only time --part ranking --part more",
            BenchRankingOptions(("a", "b"), "time", (RankingPart.RANKING, RankingPart.MORE)),
        ),
        (
            "quality --peers --minutes 2.5 --cache folder",
            BenchRankingOptions(peers=True, minutes=2.5, cache=Path("folder")),
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
    assert run_program(build_bench_app(run_suite), "kiosk bench") == WRONG_USE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "invalid"
