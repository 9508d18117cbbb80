"""`kiosk archive`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from cluster.errors import Invalid
from deployments.cli.__main__ import command_line

pytestmark = pytest.mark.usefixtures("allow_world")


def test_the_file_names_the_public_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIOSK_PUBLIC_URL", "https://news.example.com")
    result = CliRunner().invoke(command_line(), ["archive", "server-json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["name"] == "com.example.news/archive"
    assert document["remotes"] == [{"type": "streamable-http", "url": "https://news.example.com/mcp"}]


def test_an_option_names_another_address_and_name() -> None:
    options = ["--url", "https://a.example/", "--name", "com.example/news"]
    document = json.loads(CliRunner().invoke(command_line(), ["archive", "server-json", *options]).stdout)
    assert document["name"] == "com.example/news"
    assert document["remotes"][0]["url"] == "https://a.example/mcp"


@pytest.mark.parametrize("options", [[], ["--url", "http://localhost:8000"]])
def test_an_archive_that_is_not_public_has_no_file(options: list[str]) -> None:
    result = CliRunner().invoke(command_line(), ["archive", "server-json", *options])
    assert isinstance(result.exception, Invalid)
    assert "public servers only" in str(result.exception)


def test_each_named_archive_has_a_file() -> None:
    options = ["--url", "https://news.example.com", "--app", "sports", "--title", "Sports Archive"]
    document = json.loads(CliRunner().invoke(command_line(), ["archive", "server-json", *options]).stdout)
    assert (document["name"], document["title"]) == ("com.example.news/sports", "Sports Archive")
    assert document["remotes"][0]["url"] == "https://news.example.com/mcp/sports"
    result = CliRunner().invoke(
        command_line(), ["archive", "server-json", "--url", "https://news.example.com", "--app", "../x"]
    )
    assert isinstance(result.exception, Invalid)
