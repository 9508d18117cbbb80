"""Plain questions: what something is, is made of, is for, does; how it helps; who does something.

A question has a form when a template of its language fits all of it. The words of the template are no content: a
sentence need not repeat `define` or `used for`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from actors.language.language_data import find_plain_questions
from actors.language.language_schema import PlainQuestionWords

_TOKEN = re.compile(r"[^\W_]{1,60}")
_MOST_TOKENS = 16
"Longer questions are not plain."
_MOST_SUBJECT = 4
_SLOTS = frozenset(["X", "Y"])

Template = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """The form of a plain question."""

    kind: str
    "`definition`, `material`, `purpose`, `deeds`, `effect` or `agent`."
    subject: tuple[str, ...]
    "Words of the subject, without articles; of an `agent` question the verb."
    rest: tuple[str, ...] = ()
    "Further content words."
    strict: bool = False
    "An answer must show evidence for this form."

    @property
    def content(self) -> frozenset[str]:
        """Return the words that a sentence should contain, in lower case."""
        return frozenset(word.lower() for word in (*self.subject, *self.rest))


def parse_form(question: str, language: str) -> QuestionForm | None:
    """Return the form of a question; None: it has none."""
    lists = find_plain_questions(language)
    words = _TOKEN.findall(question)
    # Before the templates: matching with two slots takes quadratic time.
    if lists is None or not 1 < len(words) <= _MOST_TOKENS:
        return None
    small = [word.lower() for word in words]
    for kind, template in _load_templates(language):
        slots = _match_template(template, small)
        if slots is not None:
            return _build_form(kind, lists, {name: words[start:end] for name, (start, end) in slots.items()})
    return _parse_agent(words, small, lists)


@cache
def _load_templates(language: str) -> tuple[tuple[str, Template], ...]:
    lists = find_plain_questions(language)
    forms = lists.forms if lists is not None else {}
    return tuple(
        (kind, tuple(frozenset(part.split("|")) for part in text.split()))
        for kind, texts in forms.items()
        for text in texts
    )


def _match_template(
    template: Template, words: Sequence[str], at: int = 0
) -> dict[str, tuple[int, int]] | None:
    """Match a template to all words from a place on; a slot takes as few words as it can."""
    if not template:
        return {} if at == len(words) else None
    first = template[0]
    rest = template[1:]
    slot = first & _SLOTS
    if not slot:
        return _match_template(rest, words, at + 1) if at < len(words) and words[at] in first else None
    for end in range(at + 1, len(words) + 1):
        slots = _match_template(rest, words, end)
        if slots is not None:
            return {next(iter(slot)): (at, end), **slots}
    return None


def _build_form(kind: str, lists: PlainQuestionWords, slots: dict[str, list[str]]) -> QuestionForm | None:
    words = slots["X"]
    article = words[0].lower() if words[0].lower() in lists.articles and len(words) > 1 else ""
    words = words[1:] if article else words
    if kind == "definition" or kind == "past_definition":
        return _build_definition(kind, lists, article, words)
    subject = tuple(word for word in words if word.lower() not in lists.articles)
    acted_on = tuple(word for word in slots.get("Y", ()) if word.lower() not in lists.articles)
    if not subject or len(subject) > _MOST_SUBJECT or (kind == "effect" and not acted_on):
        return None
    return QuestionForm(kind, subject, acted_on, strict=kind == "material")


def _build_definition(
    kind: str, lists: PlainQuestionWords, article: str, words: Sequence[str]
) -> QuestionForm | None:
    where = next((at for at, word in enumerate(words) if word.lower() in lists.place), len(words))
    subject = tuple(words[:where])
    rest = tuple(words[where + 1 :])
    small = [word.lower() for word in (*subject, *rest)]
    # An `s` alone is what the tokens keep of a genitive.
    is_plain = (
        0 < len(subject) <= _MOST_SUBJECT
        and not any(word in lists.prepositions or word == "s" or word.isdecimal() for word in small)
        and (not rest or article in lists.indefinite)
    )
    if not is_plain or (kind == "past_definition" and article not in lists.indefinite):
        return None
    rest = tuple(word for word in rest if word.lower() not in lists.articles)
    return QuestionForm("definition", subject, rest, strict=_is_term(lists, article, subject))


def _is_term(lists: PlainQuestionWords, article: str, subject: Sequence[str]) -> bool:
    """Return whether the subject is a kind of thing, unlike `What is the capital` and `What is Velmora`."""
    if not lists.nouns_have_capitals and any(word[0].isupper() for word in subject):
        return False
    if article in lists.definite:
        return lists.definite_is_generic and len(subject) == 1
    return True


def _parse_agent(
    words: Sequence[str], small: Sequence[str], lists: PlainQuestionWords
) -> QuestionForm | None:
    """Parse `who prunes pears`."""
    passive = lists.passive
    if small[0] not in passive.person:
        return None
    at = 1
    while at < len(small) and small[at] in passive.skip:
        at += 1
    if at >= len(small) or small[at] in passive.not_a_deed or small[at] in lists.articles:
        return None
    return QuestionForm("agent", (words[at],), (*words[1:at], *words[at + 1 :]), strict=True)
