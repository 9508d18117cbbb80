"""The pages agree with the tree: links, paths, commands, decisions; no file names a directory of a machine."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from cluster.settings import Settings
from docs.generate.commands import walk_commands
from tests.house.tree import ROOT

README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#[\w-]*)?\)")
MARKED = re.compile(r"`((?:actors|cluster|deployments|jobs|tests|\.ci)/[^`*<> ]*)`")
MACHINE = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+)/")
"Directories of somebody's machine."
OTHER_VARIABLES = {"KIOSK_CI_VENV", "KIOSK_TEST_DATA", "KIOSK_TEST_CLIENTS"}
"Variables that only tests and the build read."


def pages() -> list[Path]:
    outside = [page for place in (ROOT, ROOT / ".github") for page in sorted(place.glob("*.md"))]
    return [*outside, *sorted((ROOT / "docs").rglob("*.md"))]


@functools.cache
def tracked() -> list[Path]:
    """All files of the repository, or all files of the product where there is no repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    paths = [ROOT / name for name in names if name]
    return [path for path in paths if path.is_file()] or list(ROOT.rglob("*.py"))


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


def test_the_readme_has_at_most_12_kb() -> None:
    assert len(README.encode()) <= 12 * 1024


def test_every_command_and_setting_that_a_page_names_exists() -> None:
    commands = {name.split()[1] for name, _ in walk_commands()}
    settings = {f"KIOSK_{name.upper()}" for name in Settings.model_fields} | OTHER_VARIABLES
    for page in pages():
        text = page.read_text("utf-8").replace(
            "`kiosk reader token`", ""
        )  # a text that a key is derived from
        named = set(re.findall(r"(?:`|^|&& )kiosk ([a-z][\w-]*)", text, re.MULTILINE))
        assert named <= commands, (page.name, named - commands)
        variables = set(re.findall(r"\bKIOSK_[A-Z][A-Z_]*[A-Z]\b", text))
        assert variables <= settings, (page.name, variables - settings)


def test_every_decision_has_a_number_a_status_a_date_and_three_headings() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text("utf-8")
    decisions = sorted(folder.glob("[0-9]*.md"))
    assert [page.name[:4] for page in decisions] == [f"{at:04d}" for at in range(1, len(decisions) + 1)]
    for page in decisions:
        text = page.read_text("utf-8")
        for heading in ("## Context", "## Decision", "## What it costs"):
            assert heading in text, (page.name, heading)
        assert len(text.split()) < 700, page.name
        head = re.match(r"# (\d+)\. (.+)\n\nStatus: (accepted|replaced)\. Date: (\d{4}-\d\d-\d\d)\.\n", text)
        assert head, page.name
        number, title, status, date = head.groups()
        assert f"| {number} | [{title}]({page.name}) | {status} | {date} |" in index, page.name


def test_no_file_names_a_directory_of_somebodys_machine(allow_world: None) -> None:
    strays = []
    for path in tracked():
        if path == Path(__file__) or path.stat().st_size > 2_000_000:
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        strays += [f"{path.relative_to(ROOT)}: {match.group()}" for match in MACHINE.finditer(text)]
    assert strays == []


def test_the_licence_is_apache_2_in_full() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text


OUTSIDE = re.compile(
    r"\b[Rr]eference,? (?:section )?\d[\d.]*|\b[Dd]ecisions? [A-Z]\d+\b|\b[Rr]equirements? \d+"
    r"|\branking (?:notes|protocol)\b|\bopen points? [A-Z]\d|\bfault R\d|\bfinding [A-Z]\d"
    r"|\([SDEIR]\d{1,2}(?:, [SDEIR]\d{1,2})*\)"
)
"Documents that are not in the repository."


def test_texts_cite_no_document_outside_the_repository() -> None:
    citations = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".lua") and not name.startswith("tests/house/"):
            lines = path.read_text("utf-8").splitlines()
            citations += [f"{name}:{at}" for at, line in enumerate(lines, 1) if OUTSIDE.search(line)]
    assert citations == []
