"""Find the passages that may answer a question: the best by words and the nearest by meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.archive.joined_postings import SegmentRun
from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import LibraryView, PassageIndex
from actors.archive.segment import PassageSegment
from actors.retrieval.lexical.bm25 import compute_idf
from actors.retrieval.lexical.passage_postings import find_step
from actors.vectors.quantization import search_parts
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Mask, Rows, Scores, Vector

CANDIDATES = 100
"Candidates of each list."
MAX_QUESTION_CHARS = 4_000
"Characters of a question or context that are read."
_CONTEXT_WEIGHT = 0.15
"Weight of a word of the context; a word of the question has 1."
_CONTEXT_WORDS = 12
_QUESTION_WORDS = 64
"Maximal number of words that are searched; later words of a question are ignored."


@dataclass(frozen=True, slots=True)
class CandidatePassages:
    """Candidates of one list: rows numbered over all segments, and their scores."""

    rows: Rows
    scores: Scores
    coverage: float = 0.0
    """Of a search by words: the best BM25 score divided by the score of a reference passage, 1 at most.

    The reference passage has mean length and contains every word of the question once. Words that the archive does not
    know count as its rarest.
    """


def no_candidates() -> CandidatePassages:
    """Return an empty list."""
    return CandidatePassages(np.zeros(0, np.int64), np.zeros(0, np.float32))


def find_by_words(library: PassageIndex, view: LibraryView, query: ArchiveQuery) -> CandidatePassages:
    """Return the passages with the best BM25 scores, best first."""
    question_terms = library.analyzers.query_terms(query.question[:MAX_QUESTION_CHARS], view.languages)[
        :_QUESTION_WORDS
    ]
    term_counts: Counter[int] = Counter(code for codes in question_terms for code in codes)
    weights = _idf_weights(view, dict(term_counts))
    if not weights:
        return no_candidates()
    whole = _full_match_score(question_terms, weights, view.passages)
    if query.context:
        around = library.analyzers.query_terms(query.context[:MAX_QUESTION_CHARS], view.languages)
        fresh = dict.fromkeys(code for codes in around for code in codes if code not in term_counts)
        telling = sorted(_idf_weights(view, dict.fromkeys(fresh, 1)).items(), key=lambda entry: -entry[1])
        weights.update({code: _CONTEXT_WEIGHT * weight for code, weight in telling[:_CONTEXT_WORDS]})
    # Joined postings must give the candidates and scores of the segments, also for equal scores.
    step = 0.0
    if len(view.accesses) > 1:
        step = find_step(weights)
        library.count_search(view)
    run_candidates = [
        run.postings.find_best(weights, CANDIDATES, _allowed_in_run(run, query), step=step)
        for run in view.runs
    ]
    gathered = _merge_candidates(run_candidates, view.run_offsets, keep_order=bool(step))
    best = float(gathered.scores.max(initial=0.0))
    # The context brings passages nearer, but only words of the question say how much of it a passage covers.
    if query.context and len(gathered.rows):
        of_question = {code: weights[code] for code in term_counts if code in weights}
        best = _best_score(view, gathered.rows, of_question)
    # Bounded: a short passage may score above the match of mean length that counts as whole.
    return replace(gathered, coverage=min(best / whole, 1.0))


def embed_query(library: PassageIndex, query: ArchiveQuery) -> Vector | None:
    """Embed the question; None if vectors have no weight or the embedder knows no word of it.

    Shapes:
        returns: float32 [d]
    """
    if library.embedder is None or not library.vector_share:
        return None
    texts = [query.question[:MAX_QUESTION_CHARS]] + (
        [query.context[:MAX_QUESTION_CHARS]] if query.context else []
    )
    vectors = library.embedder.embed(texts)
    vector: Vector = vectors[0]
    if not vector.any():
        return None
    if query.context:
        vector = vector + np.float32(_CONTEXT_WEIGHT) * vectors[1]
        # Of length 1 again: similarities are compared with thresholds for cosines.
        vector = vector / np.linalg.norm(vector)
    return vector


def find_nearest(view: LibraryView, query: ArchiveQuery, vector: Vector) -> CandidatePassages:
    """Return the passages nearest in meaning, best first.

    Shapes:
        vector: float32 [d], the question's vector
    """
    searched = [
        (segment.vectors, _allowed_mask(segment, query), offset)
        for segment, offset in zip(view.segments, view.offsets, strict=False)
        if segment.vectors
    ]
    if not searched:
        return no_candidates()
    results = search_parts([(vectors, allowed) for vectors, allowed, _ in searched], vector, CANDIDATES)
    return _merge_candidates(results, [offset for *_, offset in searched])


def score_similarity(view: LibraryView, rows: Rows, vector: Vector) -> Scores:
    """Return the similarity of passages and a question; 0 for passages without vectors.

    Shapes:
        rows: int64 [m]
        returns: float32 [m]
    """
    scores = np.zeros(len(rows), np.float32)
    for segment, offset in zip(view.segments, view.offsets, strict=False):
        segment_rows = np.flatnonzero((rows >= offset) & (rows < offset + len(segment)))
        if segment.vectors is not None and len(segment_rows):
            scores[segment_rows] = segment.vectors.score(vector, rows[segment_rows] - offset)
    return scores


def _idf_weights(view: LibraryView, term_counts: dict[int, int]) -> dict[int, float]:
    """Multiply weights by the rarity of terms over all segments; drop unknown terms."""
    codes = list(term_counts)
    counts = [0] * len(codes)
    for run in view.runs:
        for at, (_, start, end) in enumerate(run.postings.find_spans(codes)):
            counts[at] += end - start
    return {
        code: term_counts[code] * compute_idf(count, view.passages)
        for code, count in zip(codes, counts, strict=True)
        if count
    }


def _full_match_score(
    question_terms: Sequence[tuple[int, ...]], weights: Mapping[int, float], passages: int
) -> float:
    """Return the score of a passage of mean length that contains every word of a question once."""
    rarest = compute_idf(0, passages)
    words = Counter(question_terms)
    return sum(
        sum(weights[code] for code in codes if code in weights) or count * rarest
        for codes, count in words.items()
    )


def _best_score(view: LibraryView, rows: Rows, weights: Mapping[int, float]) -> float:
    """Score given passages by other weights and return the best score."""
    best = 0.0
    for segment, offset in zip(view.segments, view.offsets, strict=False):
        segment_rows = rows[(rows >= offset) & (rows < offset + len(segment))]
        if len(segment_rows):
            best = max(best, float(segment.postings.score(weights, segment_rows - offset).max()))
    return best


def _allowed_mask(segment: PassageSegment, query: ArchiveQuery) -> Mask | None:
    """Return the mask of the passages that a query allows; None when it allows all."""
    allowed = segment.mask_of_type(query.type)
    return allowed if query.only is None else segment.mask_of_products(query.only, allowed)


def _allowed_in_run(run: SegmentRun, query: ArchiveQuery) -> Mask | None:
    """Return the mask of the passages of a run that a query allows; None when it allows all."""
    masks = [_allowed_mask(segment, query) for segment in run.segments]
    if len(masks) == 1:
        return masks[0]
    if all(mask is None for mask in masks):
        return None
    return np.concatenate(
        [
            np.ones(len(segment), np.bool_) if mask is None else mask
            for segment, mask in zip(run.segments, masks, strict=True)
        ]
    )


def _merge_candidates(
    candidates: Sequence[tuple[Rows, Scores]], offsets: Sequence[int], *, keep_order: bool = False
) -> CandidatePassages:
    """Number the candidates of parts by `offsets` and return the best; with `keep_order` the first of equal ones."""
    if not candidates:
        return no_candidates()
    if len(candidates) == 1 and not offsets[0]:
        return CandidatePassages(*candidates[0])
    rows = np.concatenate([rows + offset for (rows, _), offset in zip(candidates, offsets, strict=False)])
    scores = np.concatenate([scores for _, scores in candidates])
    top = np.argsort(-scores, kind="stable")[:CANDIDATES] if keep_order else best_rows(scores, CANDIDATES)
    return CandidatePassages(rows[top], scores[top])
