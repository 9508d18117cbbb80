"""Decide whether a sentence has evidence for an answer: an entity of the requested kind, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from actors.answers.extractive.question_analysis import QuestionAnalysis
from actors.answers.extractive.sentence_features import CandidateSentence
from actors.language.language_data import any_of, collect_words, compile_pattern

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

_ALL = 0.95
"Minimal share of the question in a sentence, its title and the sentence before."
_SAME_ROLE = 0.75
"Minimal similarity of a word to the role in the question."
_ROLE_OF = compile_pattern(
    rf"\s(?:{any_of(collect_words(lambda data: data.entities.name_links))}\s){{1,2}}"
    r"((?:[A-ZÀ-Þ][\w’'-]{1,40}\s?){1,5})",
    ignore_case=False,
)
"A name whose role is named before it."


def has_evidence(question: QuestionAnalysis, candidate: CandidateSentence) -> bool:
    """Return whether a sentence has an entity of the requested kind, and a word for what happens to the subject.

    A question for a number, a date, a person or a place has no answer in a sentence without one. A date is no answer
    to `When did she die?` when the sentence tells of her birth.
    """
    kind = question.answer_type
    features = candidate.features
    if kind == "which":
        if features.relation < _RELATED:
            return False
        return features.focus >= _RELATED or (bool(question.predicate) and features.verb >= _RELATED)
    least = _MINIMAL_MATCH.get(kind)
    if least is None:
        return True
    # the counted noun is enough: `400 firefighters` fight a fire, put it out or take part; `400 people` say nothing
    is_enough = kind == "many" and not question.is_generic_count
    if kind == "person" and _is_role_of_another(question, candidate):
        return False
    if kind == "amount" and features.focus < _RELATED:
        return False
    if kind == "time" and question.asks_for_change and features.verb < _RELATED:
        return False
    return features.answer_type >= least and (is_enough or features.relation >= _RELATED)


def is_complete(question: QuestionAnalysis, candidate: CandidateSentence) -> bool:
    """Return whether a sentence that refers to the one before has a date, number or place and, with it, all words.

    `It was opened in 1980` says less of the question than other sentences, so its features alone are no certainty.
    """
    features = candidate.features
    return (
        question.answer_type in _MINIMAL_MATCH
        and question.answer_type != "person"
        and features.has_reference > 0
        and features.answer_type == features.relation == 1.0
        and features.in_sentence + features.title + features.before >= _ALL
    )


def _is_role_of_another(question: QuestionAnalysis, candidate: CandidateSentence) -> bool:
    """Return whether the question asks for the role of a name, and the sentence has that role of another name only."""
    role = _ROLE_OF.search(question.text)
    if role is None or not question.focus:
        return False
    names = {token.stem for token in question.tokenizer.tokenize(role[1])}
    # Names that stand right behind a word for the role.
    owners = [
        owner
        for word in candidate.words
        if question.tokenizer.similarity(question.focus[0], word.stem) >= _SAME_ROLE
        and (owner := _ROLE_OF.match(candidate.sentence.text, word.end))
    ]
    # One owner of that name is enough; without any owner nothing speaks against the sentence.
    return bool(owners) and all(
        names.isdisjoint(token.stem for token in question.tokenizer.tokenize(owner[1])) for owner in owners
    )
