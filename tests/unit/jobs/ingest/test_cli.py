"""What the command line of an ingest understands, and what it asks of a mapping file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import Invalid
from jobs.ingest.cli import parse_arguments, read_mapping_rules

WORDS = ("rows.csv", "--noun", "user", "--app", "shop")


def test_rules_of_a_file_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "users.map"
    file.write_bytes(b"\xef\xbb\xbf# people of the old shop\r\nuser_id=nr\r\n\r\n  name=full name\r\n")
    arguments = parse_arguments([*WORDS, "--map", "country:=GB", "--map-file", str(file)])
    assert read_mapping_rules(arguments) == ("user_id=nr", "name=full name", "country:=GB")
    assert read_mapping_rules(parse_arguments(WORDS)) == ()


@pytest.mark.parametrize("content", [None, b"\xff\xfeu\x00"])
def test_an_unreadable_mapping_file_has_a_clear_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "users.map"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Invalid, match=r"users\.map"):
        read_mapping_rules(parse_arguments([*WORDS, "--map-file", str(file)]))


@pytest.mark.parametrize("option", ["--chunk", "--at-once"])
@pytest.mark.parametrize("value", ["0", "-1", "1000000000", "many"])
def test_counts_out_of_range_are_refused(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([*WORDS, f"{option}={value}"])
    assert option in capsys.readouterr().err
