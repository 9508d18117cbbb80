"""Score whether a sentence has the form of an answer: a definition, a material, an action, an agent.

Sentences are split into words and marks once, and compared with the word lists of the language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from actors.answers.extractive.question_templates import QuestionForm
from actors.answers.extractive.sentence_features import CandidateSentence
from actors.answers.extractive.text_tokens import TextTokenizer
from actors.language.language_data import find_plain_questions
from actors.language.language_schema import PlainQuestionWords

_TOKEN = re.compile(r"[^\W_]{1,60}|[,;:()–—“”„\"«»]")
_MOST_TOKENS = 120
_LONGEST_ASIDE = 14
_NAMED_WITHIN = 14
_QUOTES = frozenset('“”„"«»')
_CLAUSE = frozenset([",", ";", ":", "(", ")", "–", "—"])
_MARKS = _QUOTES | _CLAUSE
_SAME = 0.75
"Minimal similarity of a word to a word of the question."
_SAME_VERB = 0.6
"Minimal similarity of a word to the verb of the question; a participle is a compound of it (`gepflückt`)."
_NAMES_SOMEBODY = 0.35
NEUTRAL = 0.7
"Minimal share of the question in a sentence, or in the sentence before one that refers to it."


@dataclass(frozen=True, slots=True)
class _TokenizedSentence:
    """A sentence as words and marks."""

    words: tuple[str, ...]
    "As written."
    small: tuple[str, ...]
    stems: tuple[str, ...]
    "Empty for marks and stop words."


def score_form(form: QuestionForm, scored: CandidateSentence, wording: TextTokenizer, title: str) -> float:
    """Return from 0 to 1 whether a sentence has the form of an answer; 0.5 where the form does not decide."""
    lists = find_plain_questions(wording.language)
    if lists is None:
        return 0.5
    cut = _tokenize(scored.sentence.text, wording)
    subject = tuple(filter(None, map(wording.stem, form.subject)))
    if not subject:
        return 0.5
    if form.kind == "definition":
        return max(
            _score_definition(cut, subject, lists),
            _score_titled_definition(cut, subject, lists, scored, title, wording),
        )
    if form.kind == "agent":
        return _score_agent(cut, form.subject[0], scored, wording, lists)
    leans = scored.features.has_reference or float(cut.small[:1] != () and cut.small[0] in lists.pronouns)
    if (
        scored.features.in_sentence + leans * (scored.features.title + scored.features.before) < NEUTRAL
        and form.kind != "effect"
    ):
        return 0.0
    if form.kind == "deeds":
        return _score_action(cut, subject, lists)
    if form.kind == "effect":
        acted_on = all(
            wording.best_similarity(stem, cut.stems) >= _SAME
            for stem in filter(None, map(wording.stem, form.rest))
        )
        return 0.6 if acted_on and not _score_definition(cut, subject, lists) else 0.0
    return 1.0 if any(_has_cue(cut.small, cue) for cue in _load_cues(wording.language, form.kind)) else 0.0


def _tokenize(text: str, wording: TextTokenizer) -> _TokenizedSentence:
    # Bounded: a table without a full stop is one sentence of any length.
    words = tuple(_TOKEN.findall(text)[:_MOST_TOKENS])
    stems = tuple("" if word in _MARKS else wording.stem(word) for word in words)
    return _TokenizedSentence(words, tuple(word.lower() for word in words), stems)


def _score_definition(cut: _TokenizedSentence, subject: Sequence[str], lists: PlainQuestionWords) -> float:
    best = 0.0
    for start, end in _find_subject(cut, subject):
        begins = _begins_clause(cut, start, lists)
        # `mulch is ...` defines mulch only where the clause begins: `layers of mulch are ...` do not.
        if begins:
            best = max(best, _score_copula(cut, end, lists), _score_colon(cut, start, end, lists))
        best = max(best, _score_apposition(cut, end, lists), _score_naming(cut, start, lists))
    return best


def _find_subject(cut: _TokenizedSentence, subject: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Return the place of the subject; stop words may occur inside it (`a layer of mulch`)."""
    # Content words only, so stop words inside the subject do not matter.
    at = [place for place, stem in enumerate(cut.stems) if stem]
    size = len(subject)
    for first in range(len(at) - size + 1):
        places = at[first : first + size]
        if all(cut.stems[place] == stem for place, stem in zip(places, subject, strict=True)) and not any(
            cut.words[place] in _MARKS for place in range(places[0], places[-1])
        ):
            yield places[0], places[-1] + 1


def _step_before(cut: _TokenizedSentence, start: int, lists: PlainQuestionWords) -> tuple[int, str]:
    """Skip quotation marks and one article backwards; return the place before them and the article."""
    at = start - 1
    article = ""
    while at >= 0 and cut.words[at] in _QUOTES:
        at -= 1
    if at >= 0 and cut.small[at] in lists.articles:
        article = cut.small[at]
        at -= 1
    while at >= 0 and cut.words[at] in _QUOTES:
        at -= 1
    return at, article


def _begins_clause(cut: _TokenizedSentence, start: int, lists: PlainQuestionWords) -> bool:
    at, _ = _step_before(cut, start, lists)
    return at < 0 or cut.words[at] in _CLAUSE


def _step_after(cut: _TokenizedSentence, end: int) -> int:
    """Skip a closing quotation mark and an aside between commas or brackets."""
    while end < len(cut.words) and cut.words[end] in _QUOTES:
        end += 1
    if end < len(cut.words) and cut.words[end] in (",", "("):
        close = ")" if cut.words[end] == "(" else ","
        # An aside that does not end soon is none: it is a list or a clause.
        for at in range(end + 1, min(end + _LONGEST_ASIDE, len(cut.words))):
            if cut.words[at] == close:
                return at + 1
    return end


def _score_copula(cut: _TokenizedSentence, end: int, lists: PlainQuestionWords) -> float:
    """Score `mulch is a layer`, `kefir, also known as ..., is a drink`; not `kilns are sold`."""
    at = _step_after(cut, end)
    if at >= len(cut.words) or cut.small[at] not in lists.copulas:
        return 0.0
    at += 1
    while at < len(cut.words) and cut.small[at] in lists.adverbs:
        at += 1
    if len(cut.words) - at < 2:
        return 0.0
    first = cut.small[at]
    second = cut.words[at + 1]
    if first in lists.indefinite:
        return 1.0
    if first in lists.definite:
        return 0.8
    # An adjective, a participle or a number says how something is, not what it is.
    if first in lists.not_a_kind or first[0].isdecimal() or first.endswith(lists.not_a_kind_endings):
        return 0.0
    # German writes nouns with a capital: without one, no kind follows.
    if lists.nouns_have_capitals and not (cut.words[at][0].isupper() or second[0].isupper()):
        return 0.0
    return 0.7


def _score_colon(cut: _TokenizedSentence, start: int, end: int, lists: PlainQuestionWords) -> float:
    at, _ = _step_before(cut, start, lists)
    follows = len(cut.words) - end > 3 and cut.words[end] in (":", "–", "—")
    return 0.8 if at < 0 and follows else 0.0


def _score_apposition(cut: _TokenizedSentence, end: int, lists: PlainQuestionWords) -> float:
    """Score `a sextant, an instrument with two mirrors`."""
    if end + 2 >= len(cut.words) or cut.words[end] not in (",", "(", "–", "—"):
        return 0.0
    return 0.9 if cut.small[end + 1] in lists.indefinite else 0.0


def _score_naming(cut: _TokenizedSentence, start: int, lists: PlainQuestionWords) -> float:
    """Score `called a pound`, `als Watt bezeichnet man`, `se llama acequia`."""
    at, article = _step_before(cut, start, lists)
    has_marker = at >= 0 and cut.small[at] in lists.naming_before
    for place, word in enumerate(cut.small):
        if word not in lists.naming:
            continue
        if has_marker:
            return 0.9
        if 0 < start - place <= _NAMED_WITHIN and article not in lists.definite and not lists.naming_before:
            return 0.9
        if lists.naming_before and 0 < start - place <= 3 and article not in lists.definite:
            return 0.9
    return 0.0


def _score_titled_definition(
    cut: _TokenizedSentence,
    subject: Sequence[str],
    lists: PlainQuestionWords,
    scored: CandidateSentence,
    title: str,
    wording: TextTokenizer,
) -> float:
    """Score `A layer of ...`, `It is a layer of ...` under a heading that equals the subject."""
    if scored.sentence_number or len(cut.words) < 3:
        return 0.0
    if tuple(word.stem for word in wording.tokenize(title)) != tuple(subject):
        return 0.0
    if cut.small[0] in lists.indefinite:
        return 0.7
    is_copula = cut.small[0] in lists.pronouns and (
        cut.small[1] in lists.copulas or cut.small[0] in lists.copulas
    )
    return 0.8 if is_copula and any(word in lists.indefinite for word in cut.small[1:3]) else 0.0


def _score_action(cut: _TokenizedSentence, subject: Sequence[str], lists: PlainQuestionWords) -> float:
    """Score `a farrier trims hooves`, `a farrier is a craftsman who trims hooves`; not `Quill is the farrier`."""
    for start, end in _find_subject(cut, subject):
        before, article = _step_before(cut, start, lists)
        if before >= 0 or end >= len(cut.words) or not (article in lists.indefinite or not article):
            continue
        if cut.small[end] not in lists.copulas:
            return 0.9 if cut.words[end] not in _MARKS else 0.5
        if any(_has_cue(cut.small[end:], cue) for cue in _parse_cues(lists, "relative")):
            return 0.9
    return 0.0


def _score_agent(
    cut: _TokenizedSentence,
    verb: str,
    scored: CandidateSentence,
    wording: TextTokenizer,
    lists: PlainQuestionWords,
) -> float:
    """Score whether the sentence names an agent; `Pear trees are pruned in January` names none."""
    stem = wording.stem(verb)
    passive = lists.passive
    for at, word_stem in enumerate(cut.stems):
        if not word_stem or not stem or wording.similarity(stem, word_stem) < _SAME_VERB:
            continue
        close = cut.small[max(at - 3, 0) : at]
        if _is_passive(cut, at, lists):
            if not passive.agents & set(cut.small):
                return 0.0
            continue
        # After an article the word is a noun of the same stem, not the verb.
        is_noun = bool(close) and (
            close[-1] in lists.articles
            or (len(close) == 3 and close[0] in lists.copulas and close[1] in lists.articles)
        )
        if is_noun and scored.features.answer_type < _NAMES_SOMEBODY:
            return 0.0
    return 0.5


def _is_passive(cut: _TokenizedSentence, at: int, lists: PlainQuestionWords) -> bool:
    passive = lists.passive
    verb = cut.small[at]
    before = cut.small[:at]
    if before[-1:] and before[-1] in passive.reflexive:
        return True
    if verb.endswith(passive.active_endings) and not any(mark in verb for mark in passive.participle_marks):
        return False
    return bool(passive.auxiliaries & set(before if passive.verb_last else before[-2:]))


@cache
def _load_cues(language: str, kind: str) -> tuple[tuple[frozenset[str], ...], ...]:
    lists = find_plain_questions(language)
    return _parse_cues(lists, kind) if lists is not None else ()


def _parse_cues(lists: PlainQuestionWords, kind: str) -> tuple[tuple[frozenset[str], ...], ...]:
    return tuple(
        tuple(frozenset(part.split("|")) for part in cue.split()) for cue in lists.cues.get(kind, ())
    )


def _has_cue(words: Sequence[str], cue: Sequence[frozenset[str]]) -> bool:
    """Return whether the words of a cue follow each other, except at its gaps."""
    return any(_matches_at(words, cue, at) for at in range(len(words)))


def _matches_at(words: Sequence[str], cue: Sequence[frozenset[str]], at: int) -> bool:
    for place, part in enumerate(cue):
        if "_" in part:
            cue_words = cue[place + 1]
            return any(word in cue_words for word in words[at:])
        if at >= len(words) or words[at] not in part:
            return False
        at += 1
    return True
