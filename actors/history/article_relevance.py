"""Decide whether an article is news for a thread, with a score and a reason, before the question is repeated.

    coverage  share of the question's words in one passage, weighted by rarity                  0 to 1
    about     share of that which the title, the lead or several passages contain              0 to 1
    meaning   cosine of question and best passage                                              0 to 1
    score     coverage x (0.5 + 0.3 about + 0.2 meaning)

Content that is older than the user's last content, or repeats it in other words, has a score of 0.

Read uploaded articles for the monitor, and sketch them to recognize the same news in other words.

Source:
    Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002 (random hyperplanes)
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, log, pi
from typing import Any

import mmh3
import numpy as np

from actors.language.analysis import Analyzers
from actors.language.folding import tokenize
from actors.language.hashing_embedder import Embedder, Vectors

SKETCH_BITS = 128
_MOST_WORDS = 1_500


@dataclass(frozen=True, slots=True)
class UploadedArticle:
    """One uploaded article."""

    product_id: str
    title: str
    passages: tuple[str, ...]
    "Its text in passages of about 150 words, each with its titles."
    language: str = ""
    "Empty: the monitor detects it."
    published_ms: int | None = None


ReadArticle = Callable[[Mapping[str, Any]], UploadedArticle | None]
"Reads a stored product; None when the product can't be news."


def compute_simhash(passages: Sequence[str]) -> str:
    """Return the sketch of a text: 128 signs, written as 32 hex digits; empty when it has no words.

    Cost:
        1 ms for 1,000 words
    """
    # Cut by characters before words, since a text may be one endless word.
    words = tokenize(" ".join(passages)[: _MOST_WORDS * 8])[:_MOST_WORDS]
    if not words:
        return ""
    # Pairs of neighbours keep some order; a single word has none, so it stands alone.
    pairs = {f"{first} {second}" for first, second in itertools.pairwise(words)} or set(words)
    # uint8 [pairs * 16]
    digests = np.frombuffer(b"".join(mmh3.hash_bytes(pair, seed=29) for pair in pairs), np.uint8)
    # [pairs, 128]
    bits = np.unpackbits(digests.reshape(len(pairs), SKETCH_BITS // 8), axis=1)
    # Sign of the sum of each column: the side of a random hyperplane. A share above one half is a 1.
    return np.packbits(bits.sum(axis=0) * 2 > len(pairs)).tobytes().hex()


def estimate_similarity(sketch: str, other: str) -> float:
    """Return the estimated similarity of two sketched texts.

    Units:
        cosine over pairs of words: 1 for the same text, about 0 for texts with nothing in common
    """
    if len(sketch) != len(other) or not sketch:
        return 0.0
    # cos(pi * share of differing bits) estimates the cosine.
    apart = bin(int(sketch, 16) ^ int(other, 16)).count("1")
    return max(0.0, cos(pi * apart / SKETCH_BITS))


THRESHOLD = 0.5
"From this score on content is significant, unless the app sets another."
OLD_MS = 7 * 86_400_000
"Content published longer than this before the thread's last activity is no news to its user."
DUPLICATE_SIMILARITY = 0.8
"From this similarity on it is the same news in other words."
_ABOUT = 0.3
_MEANING = 0.2
_SEVERAL = 3
"""Minimal number of passages with half of the question's words that makes the content relevant, whatever
its title is."""
_CLOSE = 0.5
"Cosine of the built-in embedder that counts as full similarity."
_MOST_TERMS = 400_000
_MOST_QUESTIONS = 20_000


@dataclass(frozen=True, slots=True)
class ThreadSubject:
    """The question of a thread and the content that its user already knows."""

    user_id: str
    thread_id: str
    text: str
    words: tuple[tuple[int, ...], ...]
    "Each word of the question as its terms in the languages it may be written in."
    judged_offset: str = ""
    since_ms: int = 0
    "The thread's last activity."
    sketches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArticleRelevance:
    """How relevant an article is as news for a thread."""

    score: float
    reason: str
    sketch: str = ""


class TermFrequencies:
    """Frequencies of terms in recent articles."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._seen = 0
        self.epoch = 0
        "Changes each time the number of articles grew by a quarter: weights are constant in between."
        self._weights: dict[tuple[int, ...], float] = {}
        self._weighed = -1

    def add(self, terms: Iterable[int]) -> None:
        """Count the different terms of one article."""
        self._seen += 1
        self.epoch = int(4 * log(1 + self._seen))
        self._counts.update(iter(terms))
        # Halved, and terms that occurred once go: memory is bounded and the newest articles count most.
        if len(self._counts) > _MOST_TERMS:
            self._counts = Counter({term: count // 2 for term, count in self._counts.items() if count > 1})
            self._seen //= 2

    def weight(self, word: tuple[int, ...]) -> float:
        """Return the weight of a word: rare words weigh more; with few articles all words weigh the same.

        Cost:
            0.2 us, because a weight is computed once an epoch
        """
        if self._weighed != self.epoch:
            self._weighed = self.epoch
            self._weights.clear()
        weight = self._weights.get(word)
        if weight is None:
            # Of several languages the commonest reading: a word that is common in one of them tells little.
            commonest = max((self._counts[term] for term in word), default=0)
            weight = self._weights[word] = log(2 + self._seen / (1 + commonest))
        return weight


class QuestionEmbeddings:
    """Caches the vectors of questions and passages."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._questions: dict[str, Vectors] = {}
        self._passages: dict[int, Vectors] = {}
        self._of: UploadedArticle | None = None

    def similarity(self, question: str, content: UploadedArticle, passage: int) -> float:
        """Return the similarity of a question and a passage of the current article.

        Units:
            cosine, 0 instead of negative values
        """
        if content is not self._of:
            self._of = content
            self._passages.clear()
        if passage not in self._passages:
            self._passages[passage] = self._embedder.embed([content.passages[passage]])[0]
        question_vector = self._questions.get(question)
        if question_vector is None:
            if len(self._questions) >= _MOST_QUESTIONS:
                self._questions.clear()
            question_vector = self._questions[question] = self._embedder.embed([question])[0]
        return max(0.0, float(question_vector @ self._passages[passage]))


@dataclass(slots=True)
class ArticleTerms:
    """The terms of an article, passage by passage."""

    article: UploadedArticle
    places: Mapping[int, Sequence[int]]
    "Term -> the passages that contain it."
    lead: frozenset[int]
    "Terms of its title and its first passage."
    _sketch: str | None = None

    @property
    def sketch(self) -> str:
        """Return the sketch of the article; the first call computes it."""
        if self._sketch is None:
            self._sketch = compute_simhash(self.article.passages)
        return self._sketch


def extract_terms(content: UploadedArticle, analyzers: Analyzers) -> ArticleTerms:
    """Return the terms of an article.

    Cost:
        0.2 ms for 1,000 words that the analyzer has cached
    """
    head = content.passages[0] if content.passages else ""
    analyzer = analyzers.get(content.language or analyzers.detect_language(head[:2_000]))
    passages = tuple(frozenset(analyzer.terms(passage)) for passage in content.passages)
    title = frozenset(analyzer.terms(content.title))
    places: dict[int, list[int]] = {term: [] for term in title}
    for at, terms in enumerate(passages):
        for term in terms:
            places.setdefault(term, []).append(at)
    return ArticleTerms(content, places, title | (passages[0] if passages else frozenset()))


def score_article(
    subject: ThreadSubject,
    article: ArticleTerms,
    frequencies: TermFrequencies,
    meanings: QuestionEmbeddings,
    *,
    threshold: float = THRESHOLD,
) -> ArticleRelevance:
    """Return the relevance of one article for one thread."""
    weights = [frequencies.weight(word) for word in subject.words]
    whole = sum(weights)
    shares = _passage_weights(subject, weights, article)
    if not whole or not shares:
        return ArticleRelevance(0.0, "there is nothing to compare")
    # The first of equals, so that the reason is the same at every run.
    best = max(shares, key=lambda at: (shares[at], -at))
    coverage = shares[best] / whole
    if coverage < threshold:  # the other factors can only lower it
        return ArticleRelevance(coverage, f"holds {coverage:.0%} of the question")
    several = min(1.0, sum(share >= whole / 2 for share in shares.values()) / _SEVERAL)
    about = max(_covered_weight(subject, weights, article.lead) / whole, several)
    meaning = min(1.0, meanings.similarity(subject.text, article.article, best) / _CLOSE)
    # score = coverage * (0.5 + 0.3 about + 0.2 meaning)
    score = coverage * (1 - _ABOUT - _MEANING + _ABOUT * about + _MEANING * meaning)
    words = f"holds {coverage:.0%} of the question, about it by {about:.0%}, meaning {meaning:.0%}"
    if score < threshold:
        return ArticleRelevance(score, words)
    return _filter_repeated(subject, article, score, words)


def _filter_repeated(
    subject: ThreadSubject, article: ArticleTerms, score: float, words: str
) -> ArticleRelevance:
    published = article.article.published_ms
    if published is not None and published < subject.since_ms - OLD_MS:
        return ArticleRelevance(0.0, "published long before the user's last answer")
    sketch = article.sketch
    for earlier_sketch in subject.sketches:
        if estimate_similarity(sketch, earlier_sketch) >= DUPLICATE_SIMILARITY:
            return ArticleRelevance(0.0, "the same as an earlier notification")
    return ArticleRelevance(score, words, sketch)


def _passage_weights(
    subject: ThreadSubject, weights: Sequence[float], article: ArticleTerms
) -> dict[int, float]:
    """Return the share of a question that each passage contains; passages without a word of it are absent."""
    shares: dict[int, float] = defaultdict(float)
    for word, weight in zip(subject.words, weights, strict=True):
        results = [article.places[term] for term in word if term in article.places]
        # The union: a passage counts a word once, however many of its readings it has.
        for at in results[0] if len(results) == 1 else set[int]().union(*results):
            shares[at] += weight
    return shares


def _covered_weight(subject: ThreadSubject, weights: Sequence[float], terms: frozenset[int]) -> float:
    return sum(
        weight
        for word, weight in zip(subject.words, weights, strict=True)
        if any(term in terms for term in word)
    )
