"""The pages agree with the tree: paths, settings, commands; and nothing tells where it was written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from cluster.settings import Settings
from deployments.cli.__main__ import command_line
from tests.house.tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[\w-]*)?\)")
MARKED = re.compile(r"`((?:actors|cluster|deployments|jobs|tests|\.ci)/[^`*<> ]*)`")
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/")
"Directories of somebody's machine."


def pages() -> list[Path]:
    places = (ROOT, ROOT / ".github", ROOT / "cluster" / "decisions", ROOT / "docs")
    return [page for place in places for page in sorted(place.glob("*.md"))]


def tracked() -> list[Path]:
    """All files of the repository, or all files of the product where there is no repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    found = [ROOT / name for name in names if name]
    return [path for path in found if path.is_file()] or list(ROOT.rglob("*.py"))


def test_every_link_of_a_page_leads_somewhere() -> None:
    assert len(pages()) >= 7
    for page in pages():
        for target in LINK.findall(page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} names {target}"


def test_every_path_in_code_marks_exists() -> None:
    for page in pages():
        for marked in re.findall(
            r"`((?:actors|cluster|deployments|jobs|tests|\.ci)/[^`*<> ]*)`", page.read_text("utf-8")
        ):
            assert (ROOT / marked).exists(), f"{page.name} names {marked}"


def test_every_setting_stands_in_the_readme_and_the_other_way_round() -> None:
    ours = {f"KIOSK_{name.upper()}" for name in Settings.model_fields}
    told = set(re.findall(r"`(KIOSK_[A-Z_]+)`", README.split("## Settings")[1].split("\n## ")[0]))
    assert told == ours


def test_defaults_in_the_readme_are_the_defaults() -> None:
    table = README.split("## Settings")[1]
    for row in re.findall(r"^\| (`KIOSK_[^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        names = re.findall(r"KIOSK_([A-Z_]+)", row[0])
        values = re.findall(r"`([^`]+)`", row[1])
        for name, value in zip(names, values, strict=False):
            default = Settings.model_fields[name.lower()].default
            if isinstance(default, str | int | float):
                assert value == str(default).lower(), name


def test_every_command_stands_in_the_readme_and_the_other_way_round() -> None:
    line = command_line()
    ours = {command.name for command in line.registered_commands} | {
        group.name for group in line.registered_groups
    }
    table = README.split("## Commands")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `kiosk ([\w-]+)` ", table, re.MULTILINE)) == ours
    assert set(re.findall(r"`?kiosk (\w[\w-]*)", README.replace("Kiosk", ""))) <= ours


def test_every_word_below_a_command_exists() -> None:
    below = {group.name: group.typer_instance for group in command_line().registered_groups}
    for name, words in re.findall(r"^\| `kiosk (apps|keys|users)` \| (.*) \|$", README, re.MULTILINE):
        known = {command.name for command in below[name].registered_commands}
        assert set(re.findall(r"`(\w+)`", words)) == known


def test_every_decision_has_a_unique_number_and_three_headings() -> None:
    decisions = sorted((ROOT / "cluster" / "decisions").glob("*.md"))
    assert [page.name[:4] for page in decisions] == [f"{at:04d}" for at in range(1, len(decisions) + 1)]
    for page in decisions:
        text = page.read_text("utf-8")
        for heading in ("## Context", "## Decision", "## What it costs"):
            assert heading in text, (page.name, heading)
        assert len(text.split()) < 700, page.name


def test_no_file_names_a_directory_of_somebodys_machine(allow_world: None) -> None:
    strays = []
    for path in tracked():
        if path == Path(__file__) or path.stat().st_size > 2_000_000:
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        strays += [f"{path.relative_to(ROOT)}: {found.group()}" for found in MACHINE.finditer(text)]
    assert strays == []


def test_the_licence_is_apache_2_in_full() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text
