"""The options of `kiosk ingest`, and what they ask of a mapping file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.errors import Invalid
from jobs.ingest.cli import IngestOptions, build_ingest_app

WORDS = ("rows.csv", "--noun", "user", "--app", "shop")


def parse(*words: str) -> IngestOptions:
    """Parse words as the command does."""
    seen: list[IngestOptions] = []

    def execute(options: IngestOptions, words: Sequence[str]) -> int:
        seen.append(options)
        return 0

    done = CliRunner().invoke(build_ingest_app(execute), list(words))
    assert done.exit_code == 0, done.output
    (options,) = seen
    return options


def test_rules_of_a_file_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "users.map"
    file.write_bytes(b"\xef\xbb\xbf# people of the old shop\r\nuser_id=nr\r\n\r\n  name=full name\r\n")
    options = parse(*WORDS, "--map", "country:=GB", "--map-file", str(file))
    assert options.build_order().mapping == ("user_id=nr", "name=full name", "country:=GB")
    assert parse(*WORDS).build_order().mapping == ()


@pytest.mark.parametrize("content", [None, b"\xff\xfeu\x00"])
def test_an_unreadable_mapping_file_has_a_clear_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "users.map"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Invalid, match=r"users\.map"):
        parse(*WORDS, "--map-file", str(file)).build_order()


@pytest.mark.parametrize("option", ["--chunk", "--at-once"])
@pytest.mark.parametrize("value", ["0", "-1", "1000000000", "many"])
def test_counts_out_of_range_are_refused(option: str, value: str) -> None:
    done = CliRunner().invoke(build_ingest_app(lambda options, words: 0), [*WORDS, f"{option}={value}"])
    assert done.exit_code == 2
    assert option in done.output


def test_options_may_stand_before_the_address_and_a_path_may_be_any_word() -> None:
    options = parse("--noun", "user", "--app", "shop", "ADDRESS")
    assert (options.address, options.noun) == ("ADDRESS", "user")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["fields", "--help"]])
def test_help_is_shown(words: list[str]) -> None:
    done = CliRunner().invoke(build_ingest_app(lambda options, words: 0), words)
    assert done.exit_code == 0
    assert "--json" in done.output


def test_fields_of_an_unknown_noun_are_wrong_use() -> None:
    done = CliRunner().invoke(build_ingest_app(lambda options, words: 0), ["fields", "nothing"])
    assert done.exit_code == 2
    assert "product" in done.output + done.stderr
