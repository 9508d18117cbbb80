"""Compose an answer from sentences of passages, in order, or refuse.

Pure functions: passages come in, sentences with their places come out.

    analyze    the question: its answer type and subject
    score      every sentence of the passages; drop sentences that give orders to a language model
    refuse     when even the best sentence is unlikely to be the answer
    select     the best sentence, the context that it needs, and other answers that do not repeat it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.answers.extractive.answer_evidence import has_evidence, is_complete
from actors.answers.extractive.answer_form import score_form
from actors.answers.extractive.injection_filter import clean_text, has_instructions
from actors.answers.extractive.question_analysis import QuestionAnalysis, analyze_question
from actors.answers.extractive.sentence_features import (
    CandidateSentence,
    build_candidate_sentences,
    starts_with_reference,
)
from actors.answers.extractive.sentence_scorer import (
    THRESHOLD,
    build_certainty_features,
    build_ranking_features,
    estimate_certainty,
    is_unsupported,
    score_quality,
)
from actors.answers.extractive.support_scorer import MIN_SUPPORT, score_support
from actors.answers.extractive.text_tokens import TextTokenizer
from actors.archive.messages import Snippet
from actors.language.analysis import Analyzers
from actors.language.analysis import split_words as words_of

RULES_VERSION = 3
"Grows when the same passages get another answer: earlier answers are not reused then."
_READ = 1_000
"Characters of a question that are read."
_PASSAGES = 10
_BROAD = frozenset(["", "reason", "manner"])
"Answer types that one sentence seldom covers."
_MOST = 4
_LEAST_LEFT = 3
_MAX_RANKED = 8
"Sentences from which an answer is selected."
_RELATIVE_QUALITY = 1.2
"Maximal distance from the best score at which another sentence is shown too."
_WIDEST_GAP = 4.0
_REPEATS = 0.6
_NO_EVIDENCE = 0.5
"Evidence of a sentence whose form does not decide whether it answers a plain question."
_EVIDENT = 0.7
_WORTH_OF_FORM = 5.0
"Weight of evidence 1 beside other features."
_FORM_CERTAINTY = 0.85
"Certainty of a sentence that has the form of an answer."


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of an answer and its place."""

    text: str
    "Plain text; not escaped yet."
    snippet: int
    "Index of its passage, from 0."
    start: int
    "Start in that passage's text, in characters."
    end: int
    support: float
    "0 to 1: how well the passage supports it; 1 for a copied sentence."


@dataclass(frozen=True, slots=True)
class ComposedAnswer:
    """An answer, or a refusal."""

    sentences: tuple[AnswerSentence, ...] = ()
    refused: bool = True
    "The passages do not contain the answer; then there are no sentences."
    confidence: float = 0.0
    "0 to 1: the probability that the first sentence answers the question."


def compose_answer(question: str, snippets: Sequence[Snippet], *, language: str = "") -> ComposedAnswer:
    """Answer a question with sentences of passages, or refuse.

    `language` is the question's (ISO 639-1); when it is empty, the function detects it.

    Cost:
        8 ms for ten passages of 150 words, one core
    """
    analysis, everything = rank_sentences(question, snippets, language)
    ranked = _filter_evident(analysis, everything, snippets)
    if not ranked:
        return ComposedAnswer()
    shows = _score_form(analysis, ranked[0][1], snippets)
    # A plain question has one form of answer; a sentence that only has its words is none.
    if analysis.form is not None and analysis.form.strict and shows < _NO_EVIDENCE:
        return ComposedAnswer()
    sure = _certainty(analysis, ranked[0], everything)
    if shows >= _EVIDENT:
        sure = max(sure, _FORM_CERTAINTY)
    elif is_complete(analysis, ranked[0][1]):
        sure = max(sure, THRESHOLD)
    if sure < THRESHOLD or is_unsupported(analysis, ranked[0][1], snippets):
        # Not above the threshold, since it is a refusal.
        return ComposedAnswer(confidence=round(min(sure, THRESHOLD), 4))
    chosen = _select_sentences(analysis, ranked, snippets)
    shown = _add_context(chosen, [sentence for _, sentence in everything])
    cited = tuple(
        sentence for sentence in (_build_answer_sentence(each, snippets) for each in shown) if sentence
    )
    return ComposedAnswer(cited, not cited, round(sure, 4))


def rank_sentences(
    question: str, snippets: Sequence[Snippet], language: str = ""
) -> tuple[QuestionAnalysis, list[tuple[float, CandidateSentence]]]:
    """Return all sentences with their scores, the best first; the first is safe to show."""
    question = clean_text(question[:_READ])
    spoken = language[:2].lower() or _guess_language(question, snippets)
    analysis = analyze_question(question, spoken, TextTokenizer(spoken))
    if not analysis.weights:
        return analysis, []
    ranked = [
        (
            score_quality(build_ranking_features(analysis, scored))
            # Neutral evidence adds nothing: 5 * (form - 0.5).
            + _WORTH_OF_FORM * (_score_form(analysis, scored, snippets) - _NO_EVIDENCE),
            scored,
        )
        for scored in build_candidate_sentences(analysis, snippets[:_PASSAGES])
    ]
    ranked.sort(key=lambda pair: -pair[0])
    return analysis, _filter_showable(ranked)


def _guess_language(question: str, snippets: Sequence[Snippet]) -> str:
    """Guess a question's language by its stop words; without any (`Define mulch`), by the best passage."""
    analyzers = Analyzers()
    guessed = analyzers.detect_language(question)
    # No stop word was found: as many terms as words.
    if snippets and len(analyzers.get(guessed).terms(question)) == len(words_of(question)):
        return analyzers.detect_language(snippets[0].text[:_READ])
    return guessed


def _filter_showable(
    ranked: Sequence[tuple[float, CandidateSentence]],
) -> list[tuple[float, CandidateSentence]]:
    """Drop sentences that must not be shown; only the first ones are checked."""
    first: list[tuple[float, CandidateSentence]] = []
    for at, pair in enumerate(ranked):
        # Only these can be shown, so the rest is not checked.
        if len(first) == _MAX_RANKED:
            return [*first, *ranked[at:]]
        if _is_showable(pair[1]):
            first.append(pair)
    return first


def _filter_evident(
    analysis: QuestionAnalysis, ranked: Sequence[tuple[float, CandidateSentence]], snippets: Sequence[Snippet]
) -> list[tuple[float, CandidateSentence]]:
    """Keep sentences with evidence for an answer; only the best are checked."""
    if analysis.form is not None and analysis.form.strict:
        return list(ranked[:_MAX_RANKED])
    return [
        (value, scored)
        for value, scored in ranked[:_MAX_RANKED]
        if has_evidence(analysis, scored) or _score_form(analysis, scored, snippets) > _NO_EVIDENCE
    ]


def _score_form(analysis: QuestionAnalysis, scored: CandidateSentence, snippets: Sequence[Snippet]) -> float:
    """Score whether a sentence has the form of an answer to a plain question; neutral for any other question."""
    if analysis.form is None:
        return _NO_EVIDENCE
    return score_form(analysis.form, scored, analysis.tokenizer, snippets[scored.snippet].title)


def _is_showable(scored: CandidateSentence) -> bool:
    text = scored.sentence.text
    plain = clean_text(text)
    if plain != text and len(plain.split()) < _LEAST_LEFT:
        return False  # nearly nothing but markup
    return len(scored.words) > 1 and not text.rstrip("\"”»'").endswith("?") and not has_instructions(text)


def _certainty(
    analysis: QuestionAnalysis,
    first: tuple[float, CandidateSentence],
    everything: Sequence[tuple[float, CandidateSentence]],
) -> float:
    """Estimate the certainty of a sentence; its lead counts over all sentences, also those without evidence."""
    value, best = first
    gap = value - max(
        (other for other, scored in everything if scored is not best), default=value - _WIDEST_GAP
    )
    return estimate_certainty(
        {**build_ranking_features(analysis, best), **build_certainty_features(analysis, best, gap)}
    )


def _select_sentences(
    analysis: QuestionAnalysis, ranked: Sequence[tuple[float, CandidateSentence]], snippets: Sequence[Snippet]
) -> list[CandidateSentence]:
    """Select the best sentence, and others with similar scores and different content."""
    limit = _MOST if analysis.answer_type in _BROAD else 1
    first, best = ranked[0]
    chosen = [best]
    for value, scored in ranked[1:]:
        if len(chosen) >= limit or value < first - _RELATIVE_QUALITY:
            break
        if _score_form(analysis, scored, snippets) < _NO_EVIDENCE:
            continue
        if scored.features.in_sentence > 0 and not any(_repeats(scored, other) for other in chosen):
            chosen.append(scored)
    return chosen


def _repeats(scored: CandidateSentence, other: CandidateSentence) -> bool:
    """Return whether two sentences have nearly the same words."""
    left = {word.stem for word in scored.words}
    right = {word.stem for word in other.words}
    return len(left & right) >= _REPEATS * min(len(left), len(right))


def _add_context(
    chosen: Sequence[CandidateSentence], weighed: Sequence[CandidateSentence]
) -> list[CandidateSentence]:
    """Add the sentence before to a sentence that refers to it; sentences of one passage stay in order."""
    at = {(scored.snippet, scored.sentence_number): scored for scored in weighed}
    shown: dict[tuple[int, int], CandidateSentence] = {}
    passages = list(dict.fromkeys(scored.snippet for scored in chosen))
    for passage in passages:
        numbers = {scored.sentence_number for scored in chosen if scored.snippet == passage}
        for number in sorted(numbers):
            before = at.get((passage, number - 1))
            if (
                before
                and number - 1 not in numbers
                and _is_showable(before)
                and starts_with_reference(at[passage, number].sentence.text)
            ):
                shown[passage, number - 1] = before
            shown[passage, number] = at[passage, number]
    return list(shown.values())


def _build_answer_sentence(scored: CandidateSentence, snippets: Sequence[Snippet]) -> AnswerSentence | None:
    text = clean_text(scored.sentence.text)
    passage = snippets[scored.snippet].text
    # Cleaning may have changed the sentence, so it is checked again.
    support = 1.0 if text == scored.sentence.text else score_support(text, clean_text(passage))
    if not text or support < MIN_SUPPORT:
        return None
    return AnswerSentence(text, scored.snippet, scored.sentence.start, scored.sentence.end, support)
