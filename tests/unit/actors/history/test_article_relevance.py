"""Is this content news for that thread?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.history.article_relevance import (
    OLD_MS,
    THRESHOLD,
    ArticleRelevance,
    QuestionEmbeddings,
    TermFrequencies,
    ThreadSubject,
    UploadedArticle,
    compute_simhash,
    estimate_similarity,
    extract_terms,
    score_article,
)
from actors.history.watched_thread_index import WatchedThreadIndex
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import HashingEmbedder
from cluster.records.thread import Thread, UserThreads

NOW = 1_772_442_930_250
QUESTION = "Who owns the old cement works at Harrow Bay?"
SALE = (
    "The old cement works at Harrow Bay were sold on Monday. The new owner, a cooperative of boat builders, paid two "
    "million and wants to open a yard in spring. The works had stood empty since the kiln went cold eleven years ago."
)
ANALYZERS = Analyzers()
MEANINGS = QuestionEmbeddings(HashingEmbedder())


def thread(text: str = QUESTION, **fields: object) -> UserThreads:
    watched_thread = Thread(
        thread_id="t", title=text, time_ms=NOW, question_ids=("t",), subscribed=True, **fields
    )  # type: ignore[arg-type]
    return UserThreads(threads={"t": watched_thread}, revision=1)


def subject(text: str = QUESTION, **fields: object) -> ThreadSubject:
    watched_threads = WatchedThreadIndex(ANALYZERS)
    watched_threads.put("ada", thread(text))
    (thread_subject,) = watched_threads.subjects
    return replace(thread_subject, **fields)  # type: ignore[arg-type]


def article(title: str, text: str, published_ms: int | None = None) -> UploadedArticle:
    return UploadedArticle(
        "a1", title, tuple(f"{title}\n{part}" for part in text.split("\n\n")), "en", published_ms
    )


def verdict(content: UploadedArticle, on: ThreadSubject | None = None) -> ArticleRelevance:
    return score_article(on or subject(), extract_terms(content, ANALYZERS), TermFrequencies(), MEANINGS)


def test_an_article_about_the_question_is_significant_with_a_reason() -> None:
    relevance = verdict(article("Cement works at Harrow Bay sold", SALE))
    assert relevance.score > 0.7
    assert relevance.reason.startswith("holds ")
    assert len(relevance.sketch) == 32


@pytest.mark.parametrize(
    ("title", "text"),
    [
        (
            "Tulips need cold",
            "Plant the bulbs deep in autumn, for they want weeks of frost before they flower.",
        ),
        (
            "Harrow Bay regatta",
            "Forty boats sailed at Harrow Bay on Sunday in a light wind, and nobody capsized.",
        ),
        (
            "Old town hall painted",
            "The old town hall was painted white. Volunteers did the work within a week.",
        ),
        ("", ""),
    ],
)
def test_an_article_about_something_else_is_not(title: str, text: str) -> None:
    assert verdict(article(title, text)).score < THRESHOLD


def test_a_mention_in_passing_counts_less_than_an_article_about_it() -> None:
    filler = "The council met for five hours and spoke of drains, lamps, benches and the price of salt. " * 5
    passing = article("A long evening", f"{filler}\n\n{filler}\n\n{SALE.split('.')[0]}.")
    about = article("Cement works at Harrow Bay sold", SALE)
    assert verdict(passing).score < verdict(about).score - 0.1


def test_rare_words_weigh_more_than_frequent_ones() -> None:
    frequencies = TermFrequencies()
    for _ in range(500):
        frequencies.add(extract_terms(article("Bay", "The bay is old and calm."), ANALYZERS).places)
    thread_subject = subject()
    calm = extract_terms(article("The old bay", "The old bay is calm."), ANALYZERS)
    assert (
        score_article(thread_subject, calm, frequencies, MEANINGS).score
        < score_article(thread_subject, calm, TermFrequencies(), MEANINGS).score
    )


def test_what_was_published_long_before_the_users_last_answer_is_no_news() -> None:
    old = article("Cement works at Harrow Bay sold", SALE, NOW - OLD_MS - 1)
    assert verdict(old, subject(since_ms=NOW)) == ArticleRelevance(
        0.0, "published long before the user's last answer"
    )
    assert verdict(
        article("Cement works at Harrow Bay sold", SALE, NOW - OLD_MS), subject(since_ms=NOW)
    ).score


def test_the_same_news_in_nearly_the_same_words_is_no_news() -> None:
    first = verdict(article("Cement works at Harrow Bay sold", SALE))
    notified = subject(sketches=(first.sketch,))
    again = SALE.replace("two million", "2 million").replace("on Monday", "on Monday evening")
    assert verdict(article("Cement works at Harrow Bay sold", again), notified).score == 0.0
    other = (
        "Boat builders who bought the old cement works at Harrow Bay have stopped the work: below the kiln lies an "
        "owner's cellar that no plan shows. Archaeologists were called, and the yard will not open before autumn."
    )
    assert verdict(article("Cellar found in cement works at Harrow Bay", other), notified).score > THRESHOLD


def test_sketches_are_alike_as_texts_are() -> None:
    sketch = compute_simhash([SALE])
    assert estimate_similarity(sketch, sketch) == 1.0
    assert (
        estimate_similarity(
            sketch,
            compute_simhash(["Forty boats sailed on Sunday in a light wind and nobody capsized at all."]),
        )
        < 0.4
    )
    assert compute_simhash([""]) == ""
    assert estimate_similarity("", sketch) == 0.0


def test_questions_match_by_words_of_their_language() -> None:
    watched_threads = WatchedThreadIndex(ANALYZERS, ("en",))
    watched_threads.put("ada", thread())
    watched_threads.put("bob", thread("Wem gehört das alte Zementwerk in der Hafenbucht?"))
    german = UploadedArticle(
        "g", "Zementwerk verkauft", ("Das alte Zementwerk in der Hafenbucht gehört nun Bootsbauern.",), "de"
    )
    assert [
        candidate.user_id
        for candidate in watched_threads.find_candidates(extract_terms(german, ANALYZERS), TermFrequencies())
    ] == ["bob"]
    (match,) = watched_threads.find_candidates(
        extract_terms(article("Cement works at Harrow Bay sold", SALE), ANALYZERS), TermFrequencies()
    )
    assert match.user_id == "ada"
    watched_threads.put("ada", UserThreads())
    assert len(watched_threads) == 1
    assert (
        watched_threads.find_candidates(
            extract_terms(article("Cement works at Harrow Bay sold", SALE), ANALYZERS), TermFrequencies()
        )
        == []
    )
    watched_threads.keep_only(set())
    assert len(watched_threads) == 0


def test_a_question_without_words_is_not_watched() -> None:
    watched_threads = WatchedThreadIndex(ANALYZERS)
    watched_threads.put("ada", thread("Who was it?"))
    assert len(watched_threads) == 0
