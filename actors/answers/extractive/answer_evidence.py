"""Decide whether a sentence has evidence for an answer: an entity of the requested kind, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from actors.answers.extractive.question_analysis import QuestionAnalysis
from actors.answers.extractive.sentence_features import ScoredSentence

_ANY = 0.01
_MINIMAL_MATCH: Mapping[str, float] = MappingProxyType(
    {
        "age": _ANY,
        "share": _ANY,
        "temperature": _ANY,
        "speed": _ANY,
        "money": _ANY,
        "length": _ANY,
        "long": _ANY,
        "weight": _ANY,
        "amount": _ANY,
        "many": 0.4,
        "time": 0.4,
        "person": 0.35,
        "place": 0.5,
    }
)
"Answer type -> minimal match of a sentence; sentences of other types need none."
_RELATED = 0.5
"Minimal similarity of a word to a word of the question's predicate."


def has_evidence(question: QuestionAnalysis, candidate: ScoredSentence) -> bool:
    """Return whether a sentence has an entity of the requested kind, and a word for what happens to the subject.

    A question for a number, a date, a person or a place has no answer in a sentence without one. A date is no answer
    to `When did she die?` when the sentence tells of her birth.
    """
    kind, features = question.answer_type, candidate.features
    if kind == "which":
        return features.focus >= _RELATED or (bool(question.predicate) and features.verb >= _RELATED)
    least = _MINIMAL_MATCH.get(kind)
    if least is None:
        return True
    # the counted noun is enough: `400 firefighters` fight a fire, put it out or take part
    return features.answer_type >= least and (kind == "many" or features.relation >= _RELATED)
