"""Link the key terms of an answer to a search for them: names in the answer, each once."""

from __future__ import annotations

import re
from urllib.parse import quote

from actors.answers.extractive.entity_patterns import find_name_spans
from actors.answers.extractive.language_data import FALLBACK_LANGUAGE, load_languages
from actors.language.stopwords import STOP_WORDS

PLACEHOLDER = "%s"
"Placeholder of the term in the template."
MAX_TERMS = 8

_TERM = re.compile(r"[\w’'][\w’' .&-]*[\w’']")

_CALENDAR = load_languages()[FALLBACK_LANGUAGE].calendar
_DATES = frozenset((*_CALENDAR.months, *_CALENDAR.weekdays))


class TermLinks:
    """The links of one answer; `template` is an address with one `%s`."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._linked: set[str] = set()

    def select_terms(self, text: str) -> list[tuple[str, str]]:
        """Return the terms of a sentence that are not linked yet, each with its address."""
        results = []
        for start, end in find_name_spans(text):
            term = _normalize_name(text[start:end], at_start=start == 0)
            if len(self._linked) >= MAX_TERMS:
                break
            if term and term.casefold() not in self._linked:
                self._linked.add(term.casefold())
                results.append((term, self._template.replace(PLACEHOLDER, quote(term, safe=""))))
        return results


def _normalize_name(name: str, *, at_start: bool) -> str:
    """Remove the articles of a name; empty when it may be an ordinary word at the start of a sentence."""
    words = name.split()
    kept = words[next((at for at, word in enumerate(words) if word.lower() not in STOP_WORDS["en"]), 0) :]
    is_name = len(kept) > 1 or not at_start or len(kept) < len(words)
    term = " ".join(kept)
    if term.lower() in _DATES:
        return ""
    return term if is_name and len(term) > 2 and _TERM.fullmatch(term) and not term.isdigit() else ""
