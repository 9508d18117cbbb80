"""Reads the texts of one language."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent


class ConsoleTexts:
    """The texts of one language."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        tables = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
        self.texts: dict[str, str] = dict(_flatten(tables))

    def __call__(self, key: str, **values: Any) -> str:
        """Return a text with its values filled in."""
        text = self.texts[key]
        return text.format_map(values) if values else text


def _flatten(tables: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    texts: list[tuple[str, str]] = []
    for name, value in tables.items():
        key = f"{before}{name}"
        texts += _flatten(value, f"{key}.") if isinstance(value, dict) else [(key, str(value))]
    return texts
