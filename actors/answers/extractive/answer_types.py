"""Classify the type of thing a question asks for, by language."""

from __future__ import annotations

from types import MappingProxyType

from actors.answers.extractive.language_data import FALLBACK_LANGUAGE, compile_pattern, load_languages

_PATTERNS = MappingProxyType(
    {
        language: tuple((kind, compile_pattern(text)) for kind, text in data.answer_types.items())
        for language, data in load_languages().items()
        if data.answer_types
    }
)
"Language -> types in the order they are tried."


def classify_question(question: str, language: str) -> str:
    """Return the type of thing a question asks for; empty: no specific type."""
    patterns = _PATTERNS.get(language) or _PATTERNS[FALLBACK_LANGUAGE]
    return next((kind for kind, pattern in patterns if pattern.search(question)), "")
