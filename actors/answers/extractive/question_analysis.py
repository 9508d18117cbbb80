"""Analyze a question once: answer type, subject and words; and score whether a sentence contains such an answer.

Classify the entity type that a question asks for, by language.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from actors.answers.extractive.entity_recognition import (
    CharSpan,
    find_entities,
    find_name_spans,
    find_numbers,
    find_role,
)
from actors.answers.extractive.question_templates import QuestionForm, parse_form
from actors.answers.extractive.text_tokens import TextToken, TextTokenizer, select_names
from actors.language.analysis import STOP_WORDS
from actors.language.language_data import (
    FALLBACK_LANGUAGE,
    any_of,
    collect_words,
    compile_pattern,
    find_plain_questions,
    load_languages,
)
from actors.language.language_schema import QuestionWords

_PATTERNS = MappingProxyType(
    {
        language: tuple((kind, compile_pattern(text)) for kind, text in data.answer_types.items())
        for language, data in load_languages().items()
        if data.answer_types
    }
)
"Language -> types in the order they are tried."


def classify_question(question: str, language: str) -> str:
    """Return the entity type that a question asks for; empty: no specific type."""
    patterns = _PATTERNS.get(language) or _PATTERNS[FALLBACK_LANGUAGE]
    return next((kind for kind, pattern in patterns if pattern.search(question)), "")


_NUMBERS = re.compile(r"\d{1,15}(?:[.,]\d{1,15}){0,4}")
_YEARS = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
_QUESTION_PHRASE = compile_pattern(
    rf"\b{any_of(collect_words(lambda data: data.question.phrases))}\s{{1,3}}((?:[\w’'-]{{1,40}}\s?){{1,7}})"
)
_AUXILIARIES = frozenset(collect_words(lambda data: data.question.auxiliaries))
_SUPPORT_VERBS = frozenset(collect_words(lambda data: data.question.support_verbs))
_LOW_CONTENT = frozenset(collect_words(lambda data: data.question.low_content))
_NOUN_LAST = frozenset(code for code, data in load_languages().items() if data.question.head_noun_last)
"Languages in which the counted noun comes last."
_NEAR_NUMBER = 30
_NEAR_NAME = 20
_FULL_NAME = re.compile(r"[^\W\d_a-zß-ÿ]\S{0,40}(?: [^\W\d_a-zß-ÿ]\S{0,40}){1,5}")
"A name of several words without `of`: no office."
_QUOTATION_MARKS = '“„«"'
_PARTS = re.compile(r"[’'.]")


@dataclass(frozen=True)
class QuestionAnalysis:
    """An analyzed question."""

    text: str
    answer_type: str
    words: tuple[TextToken, ...]
    weights: Mapping[str, float]
    "Stem -> its weight."
    names: frozenset[str]
    "Stems of words that are written like names."
    years: frozenset[str]
    numbers: frozenset[str]
    focus: tuple[str, ...]
    "The counted or picked noun (how many *ships*): the required stem, then optional ones."
    name_runs: tuple[tuple[int, ...], ...]
    "Names of several words, as places in `weights`: the last word represents the whole name."
    tokenizer: TextTokenizer = field(repr=False)
    form: QuestionForm | None = None
    "The form of a plain question."
    predicate: tuple[int, ...] = ()
    "What happens to the subject (when was the bridge *opened*), as places in `weights`: no names, no numbers."

    is_generic_count: bool = False
    "Whether the counted noun fits nearly every number: how many *people*."

    asks_for_change: bool = False
    "Whether the predicate begins with a verb such as *become*, whose object alone says nothing of the event."

    @property
    def total_weight(self) -> float:
        """Return the weight of all words together."""
        return sum(self.weights.values()) or 1.0


def analyze_question(text: str, language: str, wording: TextTokenizer) -> QuestionAnalysis:
    """Analyze a question."""
    words = [word for word in wording.tokenize(text) if word.stem]
    form = parse_form(text, language)
    if form is not None:
        words = [word for word in words if _is_content(word, form)] or words
    names = {word.stem for word in select_names(text, words) if not word.is_number}
    answer_type = classify_question(text, language)
    is_counted = answer_type in _COUNTED
    focus = _find_focus(text, wording, language, is_counted=is_counted)
    counted = focus[:1] if is_counted else ()
    predicate = _find_predicate(words, names.union(counted))
    stems = list(dict.fromkeys(word.stem for word in words))
    data = load_languages().get(language)
    lists = data.question if data is not None else QuestionWords()
    # `Which firm` names no firm, though German writes the noun with a capital
    names.difference_update(counted if _has_capital_nouns(language) else ())
    return QuestionAnalysis(
        text=text,
        answer_type=answer_type,
        words=tuple(words),
        weights={word.stem: _weigh_word(word, names) for word in words},
        names=frozenset(names),
        years=frozenset(_YEARS.findall(text)),
        numbers=frozenset(_NUMBERS.findall(text)),
        focus=focus,
        name_runs=_find_name_runs(words, names),
        tokenizer=wording,
        form=form,
        predicate=predicate,
        is_generic_count=bool(focus) and _is_listed(focus[0], wording, lists.generic_nouns),
        asks_for_change=bool(predicate) and _is_listed(stems[predicate[0]], wording, lists.change_verbs),
    )


_COUNTED = frozenset(["many", "which", "share", "amount"])
"Answer types whose focus is the thing that is counted or picked, not what happens."


def _find_predicate(words: Sequence[TextToken], others: set[str]) -> tuple[int, ...]:
    """Return the places of words that tell what happens; every language writes them small."""
    # Places count each stem once, as `weights` does.
    places = {stem: at for at, stem in enumerate(dict.fromkeys(word.stem for word in words))}
    return tuple(
        dict.fromkeys(
            places[word.stem]
            for word in words
            if word.stem not in others and not word.is_number and word.text.lower() not in _LOW_CONTENT
        )
    )


def _is_content(word: TextToken, form: QuestionForm) -> bool:
    small = word.text.lower()
    return small in form.content or any(part in form.content for part in _PARTS.split(small))


def _find_name_runs(words: Sequence[TextToken], names: set[str]) -> tuple[tuple[int, ...], ...]:
    places = {stem: at for at, stem in enumerate(dict.fromkeys(word.stem for word in words))}
    runs: list[list[int]] = []
    # Before any text, so that the first name begins a run.
    end = -9
    for word in words:
        if word.is_name and word.stem in names:
            # One blank between both: neighbours of one name.
            if runs and word.start - end == 1:
                runs[-1].append(places[word.stem])
            else:
                runs.append([places[word.stem]])
            end = word.end
    return tuple(tuple(run) for run in runs if len(run) > 1)


def _weigh_word(word: TextToken, names: set[str]) -> float:
    if word.stem in names:
        return 1.5
    return 0.5 if word.text.lower() in _LOW_CONTENT else 1.0


def _find_focus(
    text: str, wording: TextTokenizer, language: str, *, is_counted: bool = False
) -> tuple[str, ...]:
    """Return the counted, picked or done thing: the first content words behind the question word.

    Where nouns have capitals, what is counted or picked is the first noun: `welche christlichen Akademien`.
    """
    match = _QUESTION_PHRASE.search(text)
    if match is None:
        return ()
    stop = STOP_WORDS.get(language, STOP_WORDS["en"])
    run: list[str] = []
    following = before = ""
    for word in re.findall(r"[\w’'-]+", match[1]):
        small = word.lower()
        if small in stop or small in _AUXILIARIES:
            following = small
            if run:
                break
            before = small
        else:
            following = ""
            run.append(word)
    if before in _SUPPORT_VERBS and following:
        return ()  # what did the crews find in the tunnel: the subject comes first, the object's end is unknown
    nouns = _first_nouns(run) if is_counted and _has_capital_nouns(language) else []
    stems = [stem for stem in map(wording.stem, nouns or _without_names(run)) if stem]
    if language in _NOUN_LAST and (before in _SUPPORT_VERBS or (following in _AUXILIARIES and len(run) > 1)):
        stems.reverse()
    return tuple(stems[:3])


def _is_listed(stem: str, wording: TextTokenizer, words: Sequence[str]) -> bool:
    return any(wording.stem(word) == stem for word in words)


def _has_capital_nouns(language: str) -> bool:
    lists = find_plain_questions(language)
    return lists is not None and lists.nouns_have_capitals


def _first_nouns(run: Sequence[str]) -> list[str]:
    """Return the first words with capitals that follow each other."""
    behind = itertools.dropwhile(lambda word: not word[:1].isupper(), run)
    return list(itertools.takewhile(lambda word: word[:1].isupper(), behind))


def _without_names(run: Sequence[str]) -> Sequence[str]:
    plain = [word for word in run if not word[:1].isupper()]
    return plain or run


@dataclass(frozen=True, slots=True)
class AnswerTypeMatch:
    """An entity of the requested type in a sentence."""

    score: float = 0.0
    spans: tuple[CharSpan, ...] = ()
    "Its range in the sentence."


def match_answer_type(
    analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]
) -> AnswerTypeMatch:
    """Return how likely a sentence contains the requested type of entity, and where."""
    kind = analysis.answer_type
    special = {
        "many": _match_count,
        "age": _match_age,
        "person": _match_person,
        "name": _match_title,
        "place": _match_place,
    }.get(kind)
    if special is not None:
        return special(analysis, sentence, words)
    if kind == "amount":
        return _drop_repeated(analysis, sentence, find_numbers(sentence))
    if kind == "manner":
        return AnswerTypeMatch(1.0 if find_entities("manner", sentence) else 0.5)
    if kind not in _ENTITY_KINDS:
        return AnswerTypeMatch(0.5)
    for other, degree in _ENTITY_KINDS[kind]:
        match = _drop_repeated(analysis, sentence, find_entities(other, sentence), degree)
        if match.score:
            return match
    return AnswerTypeMatch()


_ENTITY_KINDS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "long": (("duration", 1.0), ("length", 1.0)),
    "time": (("time", 1.0), ("duration", 0.4)),
    "reason": (("strong reason", 1.0), ("reason", 0.5)),
    "money": (("money", 1.0),),
    "length": (("length", 1.0),),
    "share": (("share", 1.0),),
    "temperature": (("temperature", 1.0),),
    "speed": (("speed", 1.0),),
    "weight": (("weight", 1.0),),
}
"Entities that also fit a type, and how well."


def score_closeness(match: AnswerTypeMatch, matched: Sequence[TextToken]) -> float:
    """Return from 0 to 1 how close the nearest entity is to a word of the question outside it."""
    best = 0.0
    for start, end in match.spans:
        for word in matched:
            if word.start >= start and word.end <= end:
                continue
            gap = max(word.start - end, start - word.end, 0)
            best = max(best, 1 - gap / _FAR)
    return best


def _drop_repeated(
    analysis: QuestionAnalysis, sentence: str, spans: Sequence[CharSpan], degree: float = 1.0
) -> AnswerTypeMatch:
    """Drop entities that only repeat the question."""
    question_text = analysis.text.lower()
    fresh = tuple((start, end) for start, end in spans if sentence[start:end].lower() not in question_text)
    return AnswerTypeMatch(degree, fresh) if fresh else AnswerTypeMatch()


def _match_count(analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]) -> AnswerTypeMatch:
    """Score a number: best right before the counted noun, less elsewhere in its sentence."""
    match = _drop_repeated(analysis, sentence, find_numbers(sentence))
    if not match.score or not analysis.focus:
        return AnswerTypeMatch(0.6 * match.score, match.spans)
    best = 0.0
    for word in words:
        degree = analysis.tokenizer.similarity(analysis.focus[0], word.stem)
        if degree:
            close = any(-1 <= word.start - end <= _NEAR_NUMBER for _, end in match.spans)
            best = max(best, degree * (1.0 if close else 0.7))
    return AnswerTypeMatch(best, match.spans)


def _match_age(analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]) -> AnswerTypeMatch:
    """Score an age, unless another person is named between the person of the question and the age."""
    ages = _drop_repeated(analysis, sentence, find_entities("age", sentence))
    if not ages.score:
        return ages
    subject = [word.end for word in words if word.stem in analysis.names]
    others = [
        start
        for start, end in find_name_spans(sentence)
        if _FULL_NAME.fullmatch(sentence, start, end)
        and not any(word.stem in analysis.names for word in words if start <= word.start < end)
    ]
    spans = tuple(
        (start, end)
        for start, end in ages.spans
        if not any(
            max((place for place in subject if place <= start), default=start) <= other < start
            for other in others
        )
    )
    return AnswerTypeMatch(ages.score, spans) if spans else AnswerTypeMatch()


def _match_title(analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]) -> AnswerTypeMatch:
    """Score a name: best in quotation marks or beside the named thing."""
    fresh = [word for word in select_names(sentence, words) if word.stem not in analysis.weights]
    spans = tuple((word.start, word.end) for word in fresh)
    if any(mark in sentence for mark in _QUOTATION_MARKS):
        return AnswerTypeMatch(1.0, spans)
    if not spans:
        return AnswerTypeMatch(0.3)
    plain = [word for word in words if word.stem in analysis.weights and word.stem not in analysis.names]
    near = any(
        word.start - end >= -_NEAR_NAME and start - word.end <= _NEAR_NAME
        for start, end in spans
        for word in plain
    )
    return AnswerTypeMatch(1.0 if near else 0.5, spans)


def _match_place(analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]) -> AnswerTypeMatch:
    named = _drop_repeated(analysis, sentence, find_entities("place", sentence))
    if named.score and any(word.stem not in analysis.weights for word in select_names(sentence, words)):
        return named
    there = _drop_repeated(analysis, sentence, find_entities("there", sentence), 0.6)
    return there if there.score else AnswerTypeMatch(0.2 * named.score, named.spans)


def _match_person(analysis: QuestionAnalysis, sentence: str, words: Sequence[TextToken]) -> AnswerTypeMatch:
    """Score a person: best a name of two words or more outside the question, then any name, then a trade."""
    stems = analysis.weights.keys()
    capital = {word.start for word in select_names(sentence, words)}
    best = AnswerTypeMatch()
    for start, end in find_name_spans(sentence):
        parts = [word for word in words if start <= word.start < end]
        fresh = [word for word in parts if word.is_name and word.stem not in stems]
        if not fresh or (len(fresh) < 2 and fresh[0].start not in capital):
            continue
        repeats = any(word.stem in analysis.names for word in parts)
        degree = (0.8 if repeats else 1.0) if len(fresh) >= 2 else (0.4 if repeats else 0.7)
        if _STANDS_AT.search(sentence[max(0, start - 12) : start]):
            degree = 0.2
        spot = (fresh[0].start, fresh[-1].end)
        if degree > best.score:
            best = AnswerTypeMatch(degree, (spot,))
        elif degree == best.score:
            best = AnswerTypeMatch(degree, (*best.spans, spot))
    if best.score >= _TRADE:
        return best
    somebody = find_role(sentence)
    return AnswerTypeMatch(_TRADE, (somebody,)) if somebody else best


_FAR = 60
_TRADE = 0.35
_STANDS_AT = compile_pattern(
    rf"\b{any_of(collect_words(lambda data: data.question.place_prepositions))}"
    rf"(?: {any_of(collect_words(lambda data: data.question.place_articles))})? $"
)
"A name behind one of these is a place more often than a person."
