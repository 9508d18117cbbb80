"""Which sentence answers a question: its rare words, near each other, and something of the kind that is asked for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.language.analysis import Analyzer

_NUMBER = re.compile(r"\d")
_YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-ÞŁŚŻŽŠČ][\w’'-]+")
_MONTH = re.compile(
    r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|ene|abr|ago|dic|mär|mai|okt|dez|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|century|siglo|jahrhundert)\w*",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(?:in|at|near|from|en|de|bei|aus|nach)\s+(?:the\s+)?[A-ZÀ-Þ]\w+")
_REASON = re.compile(
    r"\b(?:because|since|due|caused?|causes|reason|result|therefore|thus|so that|"
    r"porque|debido|causa|weil|wegen|da|grund)\b",
    re.IGNORECASE,
)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("count", re.compile(r"\b(?:how (?:many|much|long|old|far|large|big|tall|high|deep|often)|"
                         r"what (?:percent\w*|number|year)|"
                         r"cuánt[oa]s?|wie ?viele?|wie (?:lange|alt|hoch|groß|weit|oft))\b", re.IGNORECASE)),
    ("time", re.compile(r"\b(?:when|what (?:year|date|day|month|century|time)|in which (?:year|month|century)|"
                        r"cuándo|wann|"
                        r"en qué (?:año|fecha|siglo)|in welchem jahr)\b", re.IGNORECASE)),
    ("person", re.compile(r"\b(?:who|whom|whose|quién(?:es)?|wer|wen|wem|wessen)\b", re.IGNORECASE)),
    ("place", re.compile(r"\b(?:where|which (?:country|city|state|place)|dónde|wo|wohin|woher)\b", re.IGNORECASE)),
    ("reason", re.compile(r"\b(?:why|por qué|warum|weshalb|wieso)\b", re.IGNORECASE)),
)  # fmt: skip

Rarity = Callable[[int], float]
"Says how much a term tells: more for rarer ones."


@dataclass(frozen=True, slots=True)
class Question:
    """A question, cut once."""

    text: str
    weights: dict[int, float]
    "Term -> how much it tells."
    pairs: frozenset[tuple[int, int]]
    kind: str
    numbers: frozenset[str]

    @classmethod
    def of(cls, text: str, analyzer: Analyzer, rarity: Rarity) -> Question:
        """Cut a question."""
        terms = analyzer.terms(text)
        return cls(
            text=text,
            weights={term: rarity(term) for term in terms},
            pairs=frozenset(itertools.pairwise(terms)),
            kind=kind_of(text),
            numbers=frozenset(re.findall(r"\d+(?:[.,]\d+)*", text)),
        )

    @property
    def total(self) -> float:
        """What a sentence with all words would be worth."""
        return sum(self.weights.values())


def kind_of(text: str) -> str:
    """Say what is asked for: count, time, person, place, reason, or nothing in particular."""
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "")


def worth(question: Question, texts: Sequence[str], analyzer: Analyzer) -> list[float]:
    """Say how well each of some neighbouring sentences answers a question, about 0 to 1.5.

    Cost:
        30 us for a passage of 150 words
    """
    total = question.total or 1.0
    cut = [analyzer.terms(text) for text in texts]
    covered = [set(terms) & question.weights.keys() for terms in cut]
    found = []
    for at, (text, terms) in enumerate(zip(texts, cut, strict=True)):
        own = sum(question.weights[term] for term in covered[at]) / total
        around = set()
        if at:
            around |= covered[at - 1] - covered[at]
        if at + 1 < len(texts):
            around |= covered[at + 1] - covered[at]
        near = sum(question.weights[term] for term in around) / total
        pairs = sum(pair in question.pairs for pair in set(itertools.pairwise(terms)))
        fresh = len(set(terms) - question.weights.keys())
        score = (
            own
            + 0.15 * near * (own > 0)
            + 0.04 * min(pairs, 3)
            + 0.12 * _holds(question, text) * (own > 0.15)
        )
        found.append(score - 0.05 * (fresh < 2))
    return found


def _holds(question: Question, text: str) -> float:
    """Does a sentence hold something of the kind that is asked for, and not only what the question said itself?"""
    return _of_kind(question.kind, text, question.numbers)


def _of_kind(kind: str, text: str, said: frozenset[str]) -> float:
    if kind == "count":
        numbers = set(re.findall(r"\d+(?:[.,]\d+)*", text)) - said
        return 1.0 if numbers or _COUNTED.search(text) else 0.0
    if kind == "time":
        fresh = set(_YEAR.findall(text)) - said
        return 1.0 if fresh or _MONTH.search(text) else 0.3 * bool(_NUMBER.search(text))
    if kind == "person":
        return 1.0 if _NAME.search(text) else 0.0
    if kind == "place":
        return 1.0 if _PLACE.search(text) else 0.3 * bool(_NAME.search(text))
    if kind == "reason":
        return 1.0 if _REASON.search(text) else 0.0
    return 0.0


_COUNTED = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundred|thousand|million|billion|"
    r"dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn)\b",
    re.IGNORECASE,
)
