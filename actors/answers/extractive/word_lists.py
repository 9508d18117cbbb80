"""Word lists by language, read once from `data/*.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict

LANGUAGES = ("en", "de", "es", "fr")


class PassiveWords(BaseModel):
    """Words by which a passive sentence is recognized, and the questions that ask for whoever acts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verb_last: bool
    "May other words stand between auxiliary and participle?"
    active_endings: tuple[str, ...]
    "Verbs that end so are not passive behind an auxiliary either: `is pruning`."
    participle_marks: tuple[str, ...]
    "Unless one of these stands in them: `werden ... gesehen`."
    auxiliaries: frozenset[str]
    agents: frozenset[str]
    "Prepositions in front of whoever acts: `by`."
    reflexive: frozenset[str]
    "Words that make the verb behind them passive: Spanish `se`."
    person: frozenset[str]
    skip: frozenset[str]
    "What may stand between `who` and the verb."
    not_a_deed: frozenset[str]
    "What in place of the verb asks for something else: `who is`."


class WordLists(BaseModel):
    """What the answerer knows of a language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nouns_have_capitals: bool
    definite_is_generic: bool
    "May a question about a kind of thing have the definite article?"
    families: tuple[str, ...] = ()
    "Further families of words that mean nearly the same, each with blanks between its words."
    indefinite: frozenset[str]
    definite: frozenset[str]
    pronouns: frozenset[str]
    copulas: frozenset[str]
    adverbs: frozenset[str]
    place: frozenset[str]
    "Prepositions that may say where a defined word is used."
    prepositions: frozenset[str]
    "A subject with one of these is no plain term."
    not_a_kind: frozenset[str]
    "Behind a copula these do not begin a definition."
    not_a_kind_endings: tuple[str, ...]
    naming: frozenset[str]
    naming_before: frozenset[str]
    passive: PassiveWords
    forms: Mapping[str, tuple[str, ...]]
    cues: Mapping[str, tuple[str, ...]]

    @property
    def articles(self) -> frozenset[str]:
        """Return all articles."""
        return self.indefinite | self.definite


@cache
def load_word_lists(language: str) -> WordLists | None:
    """Read the lists of a language; None: there are none."""
    if language not in LANGUAGES:
        return None
    text = (files("actors.answers.extractive") / "data" / f"{language}.toml").read_text("utf-8")
    return WordLists.model_validate(_parse_toml(text))


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        import tomllib as toml  # 3.11 and later
    except ModuleNotFoundError:  # pragma: no cover
        import tomli as toml  # type: ignore[import-not-found,no-redef,unused-ignore]
    return toml.loads(text)
