"""What `kiosk bench` can't measure is a line with the reason, and the rest is measured all the same."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tests.benchmarks import __main__ as bench
from tests.benchmarks import completions_served, engine_sizes, quality_report, report, stack
from tests.benchmarks.answers import quality as answers
from tests.benchmarks.answers import speed
from tests.benchmarks.command_line import (
    BenchCompletionsOptions,
    BenchRankingOptions,
    BenchSizesOptions,
    BenchSuiteOptions,
    Suite,
)
from tests.benchmarks.scenarios import Line
from tests.benchmarks.unmeasured import guarded, reason_of

pytestmark = pytest.mark.usefixtures("allow_world")


@pytest.fixture
def no_kiosk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `kiosk up` fail as it does on a machine without room."""
    failing = (sys.executable, "-c", "import sys; sys.exit('error: no room on this machine')")
    monkeypatch.setattr(stack, "KIOSK", failing)


@pytest.mark.parametrize("suite", ["foundation", "engine", "ingest"])
def test_an_installation_that_does_not_start_is_a_line(no_kiosk: None, suite: Suite) -> None:
    with socket.socket() as taken:  # so that the echo does not start either
        taken.bind(("127.0.0.1", 0))
        options = BenchSuiteOptions(
            suite, taken.getsockname()[1], skip_peer=True, products=10, interactions=10
        )
        lines = list(bench.installation_lines(options, Console(quiet=True)))
    named = {line.name: line.reason for line in lines}
    assert "no room on this machine" in named[f"kiosk, {suite}"]
    if suite != "ingest":
        assert "did not answer on port" in named["bare echo"]


def test_completions_in_process_are_measured_without_an_installation(no_kiosk: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        options = BenchCompletionsOptions(titles=300, port=taken.getsockname()[1], recipe="")
        lines = {line.name: line for line in completions_served.completion_lines(options)}
    assert lines["index of 300 titles: built in"].value > 0
    assert "no room on this machine" in lines["completions over HTTP"].reason


def test_answers_of_an_installation_that_does_not_start_are_a_line(
    no_kiosk: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.print_report(speed.served_lines(1)) == 1
    assert "not measured" in capsys.readouterr().out


def test_questions_of_a_missing_set_are_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIOSK_TEST_DATA", str(tmp_path))
    monkeypatch.setattr(answers.definitions, "lines", list)
    monkeypatch.setattr(answers, "_kiosk_lines", list)
    news, paragraphs = answers.lines(("en",))
    assert news.reason.startswith(f"there is no set wikinews in {tmp_path}")
    assert paragraphs.reason.startswith(f"there is no set xquad in {tmp_path}")


def test_missing_sets_are_rows_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIOSK_TEST_DATA", str(tmp_path))
    (tmp_path / "amazon-toys").mkdir()  # a folder without its files
    assert quality_report.print_tables(BenchRankingOptions(as_json=True)) == 1
    rows = json.loads(capsys.readouterr().out)["more"]
    reasons = {row["task"]: row["reason"] for row in rows}
    assert "there is no set ml-latest-small" in reasons["ml-latest-small, by time"]
    assert "FileNotFoundError" in reasons["amazon-toys, leave last out"]
    assert {row["value"] for row in rows} == {None}


def test_a_size_beyond_memory_is_reported_and_the_others_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def costs(size: int) -> Iterator[tuple[str, float]]:
        if size > 10:
            raise MemoryError
        yield "a request|live", 1.0

    monkeypatch.setattr(engine_sizes, "_costs", costs)
    assert engine_sizes.print_sizes(BenchSizesOptions((10, 20))) == 1
    captured = capsys.readouterr()
    assert "a request" in captured.out
    assert "20 products: not measured, there is not enough memory" in captured.err


def test_a_report_with_a_gap_is_whole_json_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    def measure() -> Iterator[Line]:
        yield Line("one", 1.0, "ms", 2.0)
        raise RuntimeError("the moon is [red]in[/] the way\nand more\nask it to leave")

    assert report.print_report(guarded("two", measure), as_json_document=True) == 1
    rows = json.loads(capsys.readouterr().out)["lines"]
    assert [(row["name"], row["value"], row["kept"]) for row in rows] == [
        ("one", 1.0, True),
        ("two", None, None),
    ]
    assert rows[1]["reason"] == "the moon is [red]in[/] the way ask it to leave"
    assert report.print_report(guarded("two", measure)) == 1
    assert "[red]in[/]" in capsys.readouterr().out


def test_reasons_say_what_to_do() -> None:
    assert reason_of(ModuleNotFoundError(name="implicit")).startswith(
        "implicit is not installed; `pip install"
    )
    failed = subprocess.CalledProcessError(3, ["kiosk", "up"], stderr=b"error: no")
    assert reason_of(failed) == "up ended with code 3: error: no"
