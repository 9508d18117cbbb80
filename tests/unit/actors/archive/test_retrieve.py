""" """

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from actors.archive import retrieve
from actors.archive.candidates import CandidatePassages, find_nearest
from actors.archive.messages import ArchiveQuery, Snippet
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.archive.question_dates import DateRange, parse_date_range
from actors.archive.retrieve import get_article, is_fast, search_passages
from actors.language.hashing_embedder import HashingEmbedder
from tests.fakes.small_archive import ARTICLES

NOW_MS = 1_717_200_000_000
"2024-06-01"


def documents(records: list[dict[str, Any]] | None = None) -> list[Document]:
    return [
        document
        for record in (records or ARTICLES)
        if (document := document_from_product(record)) is not None
    ]


@pytest.fixture
def library() -> PassageIndex:
    made = PassageIndex(HashingEmbedder(), share=0.1)
    made.put(documents())
    return made


def search(library: PassageIndex, question: str, **more: Any) -> list[Snippet]:
    return list(search_passages(library, ArchiveQuery("news", question, **more), NOW_MS).snippets)


def ids(library: PassageIndex, question: str, **more: Any) -> list[str]:
    return [snippet.product_id for snippet in search(library, question, **more)]


@pytest.mark.parametrize(
    ("question", "product_id"),
    [
        ("Who saved penalties in the final?", "cup-final"),
        ("how many votes opened the dam", "dam-vote"),
        ("rare beetle in orchards", "beetle-count"),
        ("Wer unterzeichnete den Vertrag über den Fluss?", "fluss-vertrag"),
        ("photographs of the southern sky", "star-survey"),
    ],
)
def test_the_right_article_comes_first(library: PassageIndex, question: str, product_id: str) -> None:
    assert ids(library, question)[0] == product_id


def test_a_question_for_news_prefers_the_newer_of_two_alike(library: PassageIndex) -> None:
    assert ids(library, "latest news of the paper mill in Carrow")[0] == "mill-opens"


def test_a_question_that_names_a_year_prefers_it(library: PassageIndex) -> None:
    assert ids(library, "paper mill in Carrow 2023")[0] == "mill-closes"
    assert ids(library, "paper mill in Carrow 2024")[0] == "mill-opens"


def test_yearly_decay_lowers_scores_by_age(library: PassageIndex) -> None:
    plain = {snippet.product_id: snippet.score for snippet in search(library, "paper mill Carrow")}
    aged = {
        snippet.product_id: snippet.score
        for snippet in search(library, "paper mill Carrow", yearly_decay=0.5)
    }
    assert aged["mill-closes"] / aged["mill-opens"] < plain["mill-closes"] / plain["mill-opens"]


def test_context_decides_between_equals_and_never_outweighs_the_question(library: PassageIndex) -> None:
    assert ids(library, "crane", context="strike of dockers, shorter shifts")[0] in (
        "harbour-crane",
        "harbour-strike",
    )
    assert "harbour-strike" in ids(library, "crane", context="strike of dockers")[:2]
    assert ids(library, "river treaty", context="beetles orchards species hermit")[0] == "river-treaty"


def test_one_article_does_not_fill_the_result(library: PassageIndex) -> None:
    assert ids(library, "river water country", per_product=1).count("river-treaty") == 1
    assert len(search(library, "river", rows=2)) == 2


def test_excluded_and_other_types_do_not_come(library: PassageIndex) -> None:
    assert "river-treaty" not in ids(library, "river treaty", exclude=("river-treaty",))
    library.put(
        documents(
            [{"product_id": "map", "type": "ware", "title": "River treaty map", "description": "A map."}]
        )
    )
    assert "map" not in ids(library, "river treaty map")
    assert ids(library, "river treaty map", type=None)[0] == "map"
    assert ids(library, "river treaty map", type="ware") == ["map"]
    assert ids(library, "river", type="nothing") == []


def test_search_returns_the_replacement_of_an_article_only(library: PassageIndex) -> None:
    library.put(
        documents(
            [{**ARTICLES[7], "title": "Zebras", "children": [{"id": "z", "html": "<p>Zebra herd.</p>"}]}]
        )
    )
    assert ids(library, "zebra")[0] == "cup-final"
    assert all(snippet.product_id != "cup-final" for snippet in search(library, "goalkeeper saved penalties"))


def test_many_small_uploads_end_as_few_segments_with_the_same_answers(library: PassageIndex) -> None:
    piecemeal = PassageIndex(HashingEmbedder(), share=0.1)
    for _ in range(3):
        for document in documents():
            piecemeal.put([document])
    assert len(piecemeal.segments) <= 5
    assert piecemeal.documents == library.documents == 12
    for question in ("river treaty", "paper mill", "record in the rain"):
        assert ids(piecemeal, question)[0] == ids(library, question)[0]


@pytest.mark.parametrize(
    "question",
    ["", "   ", "\x00", "the of and", "?" * 10_000, "word " * 9_000, "\ud800", "𝕏" * 3_000, "a'b'c'd" * 900],
)
def test_odd_questions_get_an_answer_quickly(library: PassageIndex, question: str) -> None:
    assert isinstance(search(library, question, context=question), list)


@pytest.mark.parametrize("question", ["中文测试 测试", "qwrtz plkjh", "ตัวอย่างภาษาไทย", "1 1 1 1"])
def test_unknown_words_return_nothing_or_low_scores(library: PassageIndex, question: str) -> None:
    assert all(0.2 <= snippet.score < 0.5 for snippet in search(library, question))
    words_alone = PassageIndex(None)
    words_alone.put(documents())
    assert search(words_alone, question) == []


def test_an_archive_that_is_empty_or_was_emptied_answers_with_nothing(library: PassageIndex) -> None:
    empty = PassageIndex(HashingEmbedder(), share=0.1)
    assert (search(empty, "river treaty"), get_article(empty, "river-treaty", 0)) == ([], None)
    library.remove([document.product_id for document in documents()])
    assert (search(library, "river treaty"), get_article(library, "river-treaty", 0)) == ([], None)
    library.put(documents())
    assert ids(library, "river treaty")[0] == "river-treaty"


@pytest.mark.parametrize("question", ["river treaty " * 800, "1 " * 5_000, "19" * 5_000, "U.S. " * 2_000])
def test_ten_kilobytes_of_question_are_read_as_far_as_anybody_types(
    library: PassageIndex, question: str
) -> None:
    assert ids(library, question) == ids(library, question[:4_000])


@pytest.mark.parametrize("language", ["xx", "zz-top", "", None])
def test_an_article_of_an_unknown_language_matches_by_words(
    library: PassageIndex, language: str | None
) -> None:
    library.put(documents([{**ARTICLES[0], "language": language}]))
    assert ids(library, "Who signed the river treaty?")[0] == "river-treaty"


def test_an_article_is_given_for_its_passages_only(library: PassageIndex) -> None:
    whole = get_article(library, "river-treaty", 1)
    assert whole is not None
    assert whole.content.count("## ") == 2
    assert whole.child_title == "The costs"
    assert get_article(library, "river-treaty", 2) is None
    assert get_article(library, "river-treaty", -1) is None
    assert whole.is_article
    library.put(documents([{"product_id": "map", "type": "ware", "title": "Map", "description": "A map."}]))
    ware = get_article(library, "map", 0)
    assert ware is not None
    assert not ware.is_article
    assert get_article(library, "unknown", 0) is None


def test_of_a_very_long_article_the_section_is_given() -> None:
    chapters = [
        {"id": str(at), "title": f"Chapter {at}", "description": f"word{at} " * 3_000} for at in range(5)
    ]
    library = PassageIndex(None)
    library.put(documents([{"product_id": "book", "type": "article", "title": "Book", "children": chapters}]))
    first = search(library, "word3")[0]
    given = get_article(library, "book", first.position)
    assert given is not None
    assert given.child_title == "Chapter 3"
    assert set(given.content.removeprefix("## Chapter 3").split()) == {"word3"}


def test_few_passages_are_searched_on_the_spot_and_a_slow_embedder_never_is(library: PassageIndex) -> None:
    class Slow(HashingEmbedder):
        is_slow = True

    assert is_fast(library)
    assert not is_fast(PassageIndex(Slow(), share=0.5))


def test_several_segments_answer_as_one(library: PassageIndex) -> None:
    whole, apart = PassageIndex(HashingEmbedder(), share=0.1), PassageIndex(HashingEmbedder(), share=0.1)
    whole.put(documents())
    for document in documents():
        apart.put([document])
    assert len(apart.segments) > 1
    for question in ("Who saved penalties in the final?", "river treaty", "hermit beetle orchards"):
        # passages are weighed by the mean length known when they came, so scores may differ a little
        first, second = search(whole, question)[0], search(apart, question)[0]
        assert (first.product_id, first.position) == (second.product_id, second.position)


@pytest.mark.parametrize("per_product", [0, 1])
def test_what_is_near_in_meaning_is_looked_for_only_when_words_leave_room(
    monkeypatch: pytest.MonkeyPatch, per_product: int
) -> None:
    scans: list[str] = []

    def counted(*given: Any) -> CandidatePassages:
        scans.append(given[1].question)
        return find_nearest(*given)

    monkeypatch.setattr(retrieve, "find_nearest", counted)
    library = PassageIndex(HashingEmbedder(), share=0.1)
    orchards = [_about("Hermit beetles live here.", product_id=f"orchard-{at}") for at in range(6)]
    library.put(documents(orchards))
    hits = search(library, "hermit beetles", rows=4, per_product=per_product)
    assert len(hits) == 4
    assert not scans, "four by words leave no place for what is only near"
    assert hits[0].meaning > 0, "meaning orders them all the same"
    search(library, "hermit beetles", rows=8, per_product=per_product)
    assert scans == ["hermit beetles"], "two places were left"


def test_other_articles_come_beside_one_that_holds_all_the_words() -> None:
    library = PassageIndex(HashingEmbedder(), share=0.1)
    padding = "Nobody had counted them there. " * 40
    chapters = [f"Hermit beetles live in orchard {at}. {padding}" for at in range(12)]
    others = [record for record in ARTICLES if record["product_id"] != "beetle-count"]
    library.put(documents([_about(*chapters, product_id="long"), *others]))
    hits = search(library, "hermit beetles", rows=5, per_product=2)
    assert len(hits) == 5
    assert {hit.product_id for hit in hits} > {"long"}


def _about(*texts: str, product_id: str) -> dict[str, Any]:
    chapters = [
        {"id": f"{product_id}-{at}", "title": "", "html": f"<p>{text}</p>"} for at, text in enumerate(texts)
    ]
    return {"product_id": product_id, "type": "article", "title": "Orchards", "children": chapters}


EPOCH = date(1970, 1, 1).toordinal()


def days(first: str, last: str) -> DateRange:
    return DateRange(
        first=date.fromisoformat(first).toordinal() - EPOCH, last=date.fromisoformat(last).toordinal() - EPOCH
    )


@pytest.mark.parametrize(
    ("question", "period"),
    [
        ("Who won in 2019?", days("2019-01-01", "2019-12-31")),
        ("floods in March 2024", days("2024-03-01", "2024-03-31")),
        ("What happened on 4 January 2019?", days("2019-01-04", "2019-01-04")),
        ("What happened on January 4, 2019?", days("2019-01-04", "2019-01-04")),
        ("2024-02 elections", days("2024-02-01", "2024-02-29")),
        ("Hochwasser im Dezember 2023", days("2023-12-01", "2023-12-31")),
        ("inondations en AOÛT 2023", days("2023-08-01", "2023-08-31")),
        # a long s, and i with a dot above and without one, match s and i of a pattern that ignores case
        ("in augu\u017ft 2020", days("2020-08-01", "2020-08-31")),
        ("am 4. Apr\u0130l 2020", days("2020-04-04", "2020-04-04")),
        ("en abr\u0131l de 2020", days("2020-04-01", "2020-04-30")),
        ("lluvia el 3 de marzo de 2024", days("2024-03-03", "2024-03-03")),
        ("latest news on the mill", DateRange(recent=True)),
        ("aktuelle Lage am Fluss", DateRange(recent=True)),
        ("How deep is the river?", DateRange()),
        ("What may the council decide?", DateRange()),
        ("February 31, 2024", DateRange()),
    ],
)
def test_a_question_tells_when_it_is_about(question: str, period: DateRange) -> None:
    assert parse_date_range(question) == period
