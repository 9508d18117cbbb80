"""Compare every sentence of the passages with a question: which of its words occur in it, around it, and in its title.

    own           in the sentence
    title         in the title of the article or the section
    before ...    in the sentence before it
    passage       anywhere in its passage
    after ...     in the sentence after it
    article       in another passage of its article

Each is the share of the question's weight that is new there: words of the sentence are not counted again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from actors.answers.archive.messages import Snippet
from actors.answers.extractive.language_data import any_of, collect, compile_pattern
from actors.answers.extractive.question_analysis import QuestionAnalysis, match_answer_type, score_closeness
from actors.answers.extractive.text_tokens import Sentence, SimilarityCache, TextToken, split_sentences

_MOST_CHARACTERS = 6_000
"Maximal characters of a passage; passages of the archive have about 1,000."
_REFERENCE_START = compile_pattern(rf"{any_of(collect(lambda data: data.sentences.references))}\b")
_MENTIONED = 0.7
_LEAD_SENTENCES = 2
"First sentences of an article, for which its headline is evidence."
_BY_LAST_NAME = 0.9


@dataclass(frozen=True, slots=True)
class SentenceFeatures:
    """Features of a sentence for a question; shares of the question's weight, 0 to 1."""

    in_sentence: float
    title: float
    before: float
    after: float
    passage: float
    article: float
    special: float
    "Words in the sentence that the title does not contain."
    rare: float
    "As `own`; words weigh less if more sentences of the article contain them."
    pairs: float
    "Neighbouring words of the question that are neighbours in the sentence, at most 3, as a share."
    answer_type: float
    closeness: float
    "Closeness of the requested entity to a word of the question."
    focus: float
    "Whether the sentence contains the counted, picked or done thing."
    fresh: float
    "Whether it contains words beyond the question."
    has_reference: float
    "Whether it begins with a word that refers to the text before."
    score: float
    "Score of the passage in the search."
    relation: float = 1.0
    "Degree to which it contains any word for what happens to the subject; 1 when the question has none."
    verb: float = 1.0
    "The same for the first of these words, mostly the verb."


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """A candidate for the answer or a part of it."""

    snippet: int
    sentence_number: int
    "Place of the sentence in its passage."
    sentence: Sentence
    words: tuple[TextToken, ...]
    matched: tuple[float, ...]
    "Degree to which the sentence contains each word of the question."
    around: tuple[float, ...]
    "The same for the sentence, the text around it and its title."
    features: SentenceFeatures


@dataclass(frozen=True, slots=True)
class _TokenizedPassage:
    """A passage as sentences and words."""

    sentences: list[Sentence]
    words: list[list[TextToken]]
    matched: list[list[float]]
    title: list[float]
    whole: list[float]
    "Degree to which the passage contains each word of the question."


@dataclass(frozen=True, slots=True)
class _QuestionWeights:
    """Weights of a question's words, overall and inside one article."""

    question: QuestionAnalysis
    weights: Sequence[float]
    spread: Sequence[float]
    pairs: frozenset[tuple[str, str]]
    plain: frozenset[int]
    "Words of the question that are no names."
    similarity: SimilarityCache

    def has_mention(self, stem: str) -> bool:
        return any(
            degree >= _MENTIONED and at in self.plain for at, degree in self.similarity.similarities(stem)
        )

    def weighted_share(self, matched: Sequence[float]) -> float:
        return sum(w * m for w, m in zip(self.weights, matched, strict=True)) / (sum(self.weights) or 1.0)

    def rare_share(self, matched: Sequence[float]) -> float:
        return sum(w * m for w, m in zip(self.spread, matched, strict=True)) / (sum(self.spread) or 1.0)


def score_sentences(wanted: QuestionAnalysis, snippets: Sequence[Snippet]) -> list[ScoredSentence]:
    """Score all sentences of all passages, in order.

    Cost:
        3 ms for ten passages of 150 words
    """
    stems = list(wanted.weights)
    beside = SimilarityCache(wanted.tokenizer, stems)
    pages = [_tokenize_passage(wanted, beside, snippet) for snippet in snippets]
    weights = [wanted.weights[stem] for stem in stems]
    asked_pairs = frozenset(itertools.pairwise(word.stem for word in wanted.words))
    plain = frozenset(at for at, stem in enumerate(stems) if stem not in wanted.names)
    results: list[ScoredSentence] = []
    for at, (snippet, page) in enumerate(zip(snippets, pages, strict=True)):
        own = [other for other, one in enumerate(snippets) if one.product_id == snippet.product_id]
        siblings = [pages[other].whole for other in own if other != at]
        article = _column_max(siblings, len(stems))
        spread = _article_weights([row for other in own for row in pages[other].matched], page.title, weights)
        scale = _QuestionWeights(wanted, weights, spread, asked_pairs, plain, beside)
        results += (
            _score_sentence(scale, at, number, snippet, page, article)
            for number in range(len(page.sentences))
        )
    return results


def starts_with_reference(text: str) -> bool:
    """Return whether a sentence begins with a word that refers to the text before, outside quotations."""
    return _REFERENCE_START.match(text) is not None


def _tokenize_passage(
    wanted: QuestionAnalysis, beside: SimilarityCache, snippet: Snippet
) -> _TokenizedPassage:
    cut = split_sentences(snippet.text[:_MOST_CHARACTERS])
    words = [wanted.tokenizer.tokenize(one.text) for one in cut]
    matched = [_extend_name_matches(wanted, beside.match_stems(word.stem for word in said)) for said in words]
    heading = wanted.tokenizer.tokenize(f"{snippet.title} . {snippet.child_title}")
    title = beside.match_stems(word.stem for word in heading)
    return _TokenizedPassage(cut, words, matched, title, _column_max(matched, len(title)))


def _headline_evidence(
    own: Sequence[float], page: _TokenizedPassage, before: Sequence[float], is_lead: bool, refers: bool
) -> Sequence[float]:
    """Add the words of the headline to a lead sentence; and those before it to one that refers to them."""
    if refers:
        return [max(values) for values in zip(own, page.title, before, strict=True)]
    return [max(values) for values in zip(own, page.title, strict=True)] if is_lead else own


def _extend_name_matches(wanted: QuestionAnalysis, matched: list[float]) -> list[float]:
    """Count the last word of a name as the whole name."""
    for run in wanted.name_runs:
        if matched[run[-1]] == 1.0:
            for at in run:
                matched[at] = max(matched[at], _BY_LAST_NAME)
    return matched


def _column_max(rows: Sequence[Sequence[float]], width: int) -> list[float]:
    return [max(column) for column in zip(*rows, strict=True)] if rows else [0.0] * width


def _article_weights(
    rows: Sequence[Sequence[float]], title: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Weigh words of the question by their rarity among the sentences of an article."""
    spread = []
    for at, weight in enumerate(weights):
        count = sum(row[at] for row in rows) + 2 * title[at]
        spread.append(weight * math.log1p((len(rows) + 1) / (count + 0.5)))
    return spread


def _score_sentence(
    scale: _QuestionWeights,
    at: int,
    number: int,
    snippet: Snippet,
    page: _TokenizedPassage,
    article: Sequence[float],
) -> ScoredSentence:
    own = page.matched[number]
    nothing = [0.0] * len(own)
    before = page.matched[number - 1] if number else nothing
    after = page.matched[number + 1] if number + 1 < len(page.matched) else nothing
    best = list(own)
    shares = [scale.weighted_share(own)]
    for layer in (page.title, before, after, page.whole, article):
        shares.append(scale.weighted_share([max(m - b, 0.0) for m, b in zip(layer, best, strict=True)]))
        best = [max(m, b) for m, b in zip(layer, best, strict=True)]
    words = page.words[number]
    stems = [word.stem for word in words]
    wanted = scale.question
    found = match_answer_type(wanted, page.sentences[number].text, words)
    said = [word for word in words if scale.has_mention(word.stem)]
    refers = starts_with_reference(page.sentences[number].text)
    evidence = _headline_evidence(
        own, page, before, snippet.position == 0 and number < _LEAD_SENTENCES, refers
    )
    said_here, title, around_before, around_after, passage, elsewhere = shares
    facts = SentenceFeatures(
        in_sentence=said_here,
        title=title,
        before=around_before,
        after=around_after,
        passage=passage,
        article=elsewhere,
        special=scale.weighted_share([m * (1 - t) for m, t in zip(own, page.title, strict=True)]),
        rare=scale.rare_share(own),
        pairs=min(len(scale.pairs & set(itertools.pairwise(stems))), 3) / 3,
        answer_type=found.score,
        closeness=score_closeness(found, said),
        focus=wanted.tokenizer.best_similarity(wanted.focus[0], stems) if wanted.focus else 0.5,
        fresh=min(len(set(stems) - scale.question.weights.keys()), 3) / 3,
        has_reference=float(refers),
        score=snippet.score,
        relation=max((evidence[place] for place in wanted.predicate), default=1.0),
        verb=evidence[wanted.predicate[0]] if wanted.predicate else 1.0,
    )
    return ScoredSentence(at, number, page.sentences[number], tuple(words), tuple(own), tuple(best), facts)
