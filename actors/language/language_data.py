"""Words and patterns of every language, read once from `data/*.toml`; and regular expressions made of them.

Modules of the answerer collect the words of all languages when they are imported. A request reads no file and compiles
no pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from actors.language.language_schema import LanguageData, PlainQuestionWords
from cluster.errors import Fault

DATA_FOLDER = Path(__file__).parent / "data"
FALLBACK_LANGUAGE = "en"
_UNIVERSAL = "universal"
"The file of signs and patterns without a language."


@cache
def load_languages() -> Mapping[str, LanguageData]:
    """Return the data of all languages by code, in the order of `read_languages`; files are read once."""
    return read_languages(DATA_FOLDER)


def read_languages(folder: Path) -> Mapping[str, LanguageData]:
    """Read all language files of a folder: English first, then by code, signs without a language last.

    Errors:
        Fault: a file can't be read; the message names the file and the key
    """
    names = sorted(
        (file.stem for file in folder.glob("*.toml")),
        key=lambda name: (name == _UNIVERSAL, name != FALLBACK_LANGUAGE, name),
    )
    return MappingProxyType({name: _read_language(folder / f"{name}.toml") for name in names})


def find_plain_questions(language: str) -> PlainQuestionWords | None:
    """Return the plain questions of a language; None: its file has none."""
    data = load_languages().get(language)
    return None if data is None else data.plain_questions


def collect_words(select: Callable[[LanguageData], Iterable[str]]) -> tuple[str, ...]:
    """Return the words of all languages under a key, each word once; English first."""
    return tuple(dict.fromkeys(word for data in load_languages().values() for word in select(data)))


def any_of(fragments: Iterable[str]) -> str:
    """Return a regular expression for any of some fragments; without fragments it never matches."""
    return f"(?:{'|'.join(fragments) or '(?!)'})"


def compile_pattern(text: str, *, ignore_case: bool = True) -> re.Pattern[str]:
    """Compile a pattern made of the files' fragments."""
    return re.compile(text, re.IGNORECASE if ignore_case else 0)


def _read_language(file: Path) -> LanguageData:
    try:
        return LanguageData.model_validate(parse_toml(file.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise Fault(f"{file.name}: {key}: {first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise Fault(f"{file.name}: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML, also in Python 3.10, whose library has no parser for it."""
    try:
        import tomllib as toml  # 3.11 and later
    except ModuleNotFoundError:  # pragma: no cover
        import tomli as toml  # type: ignore[import-not-found,no-redef,unused-ignore]
    return toml.loads(text)
