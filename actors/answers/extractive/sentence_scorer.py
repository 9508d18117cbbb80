"""Score which sentence answers best, and whether it answers at all, by weighted features.

The weights were fitted on the public question sets (odd questions; English, Spanish and German; also without
their paragraphs) and on half of the playground's questions. `kiosk bench answers` measures them on the rest.
The scorer uses only the order of search scores, because their values depend on the size of an archive and its
embedder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from actors.answers.extractive.question_analysis import QuestionAnalysis
from actors.answers.extractive.sentence_features import CandidateSentence
from actors.archive.messages import Snippet

THRESHOLD = 0.6
"Minimal certainty of an answer; below it the answer is a refusal."

_MEASURED = frozenset(
    ["age", "money", "share", "temperature", "speed", "time", "length", "long", "amount", "many", "weight"]
)
"Answer types that are easy to recognize in a sentence."
_WIDEST_GAP = 4.0

_RANK_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "sentence": 1.38,
        "special": 2.87,
        "rare": 4.78,
        "title": 3.64,
        "before": 1.91,
        "after": 0.78,
        "passage": 0.23,
        "article": -0.22,
        "pairs": 0.51,
        "looks": 1.58,
        "close": 0.8,
        "focus": 0.28,
        "fresh": -0.8,
        "leans before": 1.13,
        "leans title": 0.03,
        "score": 5.26,
        "looks sentence": 0.84,
        "looks special": -1.04,
        "looks focus": 0.13,
        "close focus": 0.28,
        "no looks": 0.41,
        "person sentence": -0.88,
        "person rare": -1.12,
        "person looks": 0.82,
        "person focus": 1.13,
        "person close focus": -0.28,
        "person looks focus": 0.78,
        "measured looks": 0.94,
        "measured looks special": -2.49,
        "measured looks rare": 1.64,
        "names said": -1.75,
    }
)
_CERTAINTY_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "sentence": 0.36,
        "special": 0.25,
        "rare": 0.69,
        "title": 1.07,
        "before": 0.55,
        "after": -0.12,
        "passage": -0.26,
        "article": 0.1,
        "pairs": 0.95,
        "close": 0.05,
        "focus": 0.22,
        "fresh": 0.05,
        "leans before": 0.13,
        "leans title": 0.25,
        "score": 2.32,
        "looks sentence": 0.19,
        "looks special": -0.22,
        "looks focus": 0.22,
        "close focus": 0.18,
        "no looks": -0.51,
        "person sentence": -0.31,
        "person rare": -0.15,
        "person looks": -0.07,
        "person focus": 0.12,
        "person looks focus": 0.15,
        "measured looks": -0.12,
        "measured looks special": -0.07,
        "measured looks rare": 0.4,
        "names said": -0.12,
        "gap": 2.32,
        "worst": -0.93,
        "missing": -0.88,
        "names missing": -0.53,
        "a name missing": -0.62,
        "focus missing": 0.38,
        "person without focus": -0.5,
        "measured without looks": -0.52,
        "counted without": 0.49,
        "always": -3.78,
    }
)


def build_ranking_features(analysis: QuestionAnalysis, scored: CandidateSentence) -> dict[str, float]:
    """Return the features of a sentence for ranking."""
    facts = scored.features
    person = float(analysis.answer_type == "person")
    measured = float(analysis.answer_type in _MEASURED)
    return {
        "sentence": facts.in_sentence,
        "special": facts.special,
        "rare": facts.rare,
        "title": facts.title,
        "before": facts.before,
        "after": facts.after,
        "passage": facts.passage,
        "article": facts.article,
        "pairs": facts.pairs,
        "looks": facts.answer_type,
        "close": facts.closeness,
        "focus": facts.focus,
        "fresh": facts.fresh,
        # Products of features: a linear score can't say "this counts only together with that".
        "leans before": facts.has_reference * facts.before,
        "leans title": facts.has_reference * facts.title,
        "score": facts.score,
        "looks sentence": facts.answer_type * facts.in_sentence,
        "looks special": facts.answer_type * facts.special,
        "looks focus": facts.answer_type * facts.focus,
        "close focus": facts.closeness * facts.focus,
        "no looks": float(facts.answer_type < 0.3),
        "person sentence": person * facts.in_sentence,
        "person rare": person * facts.rare,
        "person looks": person * facts.answer_type,
        "person focus": person * facts.focus,
        "person close focus": person * facts.closeness * facts.focus,
        "person looks focus": person * facts.answer_type * facts.focus,
        "measured looks": measured * facts.answer_type,
        "measured looks special": measured * facts.answer_type * facts.special,
        "measured looks rare": measured * facts.answer_type * facts.rare,
        "names said": sum(
            analysis.weights[stem] * degree
            for stem, degree in zip(analysis.weights, scored.matched, strict=True)
            if stem in analysis.names
        )
        / analysis.total_weight,
    }


def build_certainty_features(
    analysis: QuestionAnalysis, scored: CandidateSentence, gap: float
) -> dict[str, float]:
    """Return features for and against the best sentence as an answer; `gap` is its lead in score."""
    facts = scored.features
    around = dict(zip(analysis.weights, scored.around, strict=True))
    missing = {
        stem: analysis.weights[stem] * (1 - degree) / analysis.total_weight for stem, degree in around.items()
    }
    person = analysis.answer_type == "person"
    focus = around.get(analysis.focus[0], 1.0) if analysis.focus else 1.0
    return {
        # Cut off, as a lead beyond the widest gap says nothing more.
        "gap": min(gap, _WIDEST_GAP) / _WIDEST_GAP,
        "worst": max(missing.values(), default=0.0),
        "missing": sum(degree < 0.5 for degree in around.values()) / 5,
        "names missing": sum(share for stem, share in missing.items() if stem in analysis.names),
        "a name missing": float(
            any(degree < 0.5 for stem, degree in around.items() if stem in analysis.names)
        ),
        "focus missing": float(focus < 0.5),
        "person without focus": float(person and facts.focus < 0.5),
        "measured without looks": float(analysis.answer_type in _MEASURED and facts.answer_type < 0.3),
        "counted without": float(analysis.answer_type == "many" and facts.answer_type < 0.5),
    }


def score_quality(features: Mapping[str, float]) -> float:
    """Return the weighted sum of ranking features: a higher score is a better answer."""
    return sum(weight * features.get(name, 0.0) for name, weight in _RANK_WEIGHTS.items())


def estimate_certainty(features: Mapping[str, float]) -> float:
    """Return the probability, 0 to 1, that the best sentence is an answer."""
    total = _CERTAINTY_WEIGHTS.get("always", 0.0) + sum(
        weight * features.get(name, 0.0) for name, weight in _CERTAINTY_WEIGHTS.items()
    )
    # 1 / (1 + e^-x); the bound keeps `exp` from overflowing.
    return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


def is_unsupported(
    analysis: QuestionAnalysis, scored: CandidateSentence, snippets: Sequence[Snippet]
) -> bool:
    """Return whether a year, a number or a name of the question is missing from the sentence's source."""
    if _lacks_name(analysis, scored):
        return True
    snippet = snippets[scored.snippet]
    same_article = [other for other in snippets if other.product_id == snippet.product_id]
    text = " ".join([snippet.title, *(f"{other.child_title} {other.text}" for other in same_article)])
    # Exact, not by similarity: another number answers another question.
    if any(number not in text for number in analysis.numbers - analysis.years):
        return True
    # "in 2024" often occurs only in the date of the article
    return any(year not in text and not snippet.published.startswith(year) for year in analysis.years)


def _lacks_name(analysis: QuestionAnalysis, scored: CandidateSentence) -> bool:
    """Return whether a name is missing from the article; unknown where all nouns or words have capitals."""
    if analysis.tokenizer.language == "de" or 2 * len(analysis.names) > len(analysis.weights) + 1:
        return False
    return any(
        degree < _NAME_MATCH and stem in analysis.names
        for stem, degree in zip(analysis.weights, scored.around, strict=True)
    )


_NAME_MATCH = 0.5
