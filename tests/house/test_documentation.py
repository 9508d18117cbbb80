"""Documentation agrees with the code: command lines parse, and the site builds and loads nothing."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from deployments.cli.__main__ import command_line
from tests.house.tree import ROOT

TOKEN_LABEL = "kiosk reader token"
"A text that is signed, not a command."
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(kiosk [a-z][^`]*)`")
_LOADED = re.compile(
    r"""<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=["']?(https?:)?//[^"'> ]+"""
)


def command_lines(page: Path) -> Iterator[str]:
    """List the `kiosk` command lines of a page, without comments, pipes and remarks behind them."""
    text = page.read_text("utf-8")
    lines = [line for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    for line in [*lines, *_INLINE.findall(text)]:
        for part in re.split(r" && | \| |\$\(| ; ", line):
            command = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", part.strip())
            if re.match(r"kiosk( [a-z-]|$)", command) and command != TOKEN_LABEL:
                yield re.split(r"\s{3,}| # | > |\)\"", command)[0]


@functools.cache
def root_command() -> Any:
    """Build `kiosk` once; that takes longer than all lookups."""
    return typer.main.get_command(command_line())


def parse(words: list[str]) -> None:
    """Look a command line's words and options up, and run nothing.

    Errors: ValueError for a command or an option that does not exist.
    """
    command = root_command()
    while hasattr(command, "commands") and words:
        default = next(iter(command.commands))
        if default.isupper() and words[0] not in command.commands:
            words = [
                default,
                *words,
            ]  # `kiosk ingest FILE`, `kiosk bench engine`: the command that needs no word
        if words[0] not in command.commands:
            raise ValueError(f"no such command: {words[0]}")
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands"):
        return
    options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    if command.context_settings.get("ignore_unknown_options"):
        return
    for word in words:
        name = word.partition("=")[0]
        if word.startswith("--") and name not in options and name != "--help":
            raise ValueError(f"no such option: {word}")


def test_every_command_line_of_the_pages_parses() -> None:
    parsed, wrong = 0, []
    for page in PAGES:
        for line in command_lines(page):
            parsed += 1
            try:
                parse(shlex.split(line.rstrip(".:,"))[1:])
            except ValueError as error:
                wrong.append(f"{page.relative_to(ROOT)}: {line}: {error}")
    assert wrong == []
    assert parsed > 100


@pytest.mark.parametrize("line", ["kiosk fly", "kiosk apps fly", "kiosk train shop --recip fast"])
def test_a_command_line_that_does_not_exist_is_noticed(line: str) -> None:
    with pytest.raises(ValueError, match="no such"):
        parse(shlex.split(line)[1:])


def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(
    tmp_path: Path, allow_world: None
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = _LOADED.search(page.read_text("utf-8"))
        assert loaded is None, (page.name, loaded)
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?https?:", style.read_text("utf-8")), style.name
