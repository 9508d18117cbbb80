"""Modules: each file of the product with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from docs.generate.markdown import write_page, write_table

ROOT = Path(__file__).parents[2]
_PACKAGES = ("deployments", "actors", "jobs", "cluster")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\n")
_INTRO = """
A folder is a heading; a package imports only packages that stand below it on this page. The
[architecture page](../architecture.md) follows requests through them.
"""


def build_page() -> str:
    """Write the page of all modules, folder by folder."""
    sections = []
    for package in _PACKAGES:
        folders = defaultdict[Path, list[Path]](list)
        for path in sorted((ROOT / package).rglob("*.py")):
            folders[path.parent.relative_to(ROOT)].append(path)
        for folder, paths in sorted(folders.items()):
            rows = [(f"`{path.name}`", sentence) for path in paths if (sentence := first_sentence(path))]
            sections.append(f"## {folder.as_posix()}\n\n{write_table(('Module', 'Content'), rows)}")
    return write_page("Modules", _INTRO, sections)


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, as one line."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return " ".join(_SENTENCE_END.split(text, maxsplit=1)[0].split()).replace("|", "\\|")
