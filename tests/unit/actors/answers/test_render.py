from __future__ import annotations

from typing import Any

import pytest

from actors.answers.render import (
    FAILED,
    NO_ANSWER_TEXT,
    WITHDRAWN,
    find_picture,
    find_question_words,
    highlight,
    render_answer,
)
from cluster.records.question import FETCHING, Answer, CitedPassage, CitedSentence, Format, Picture, Question

TEXT = "Tulips go 15 cm deep in light soil. <b>Lift</b> the bulbs & dry them."


def a_question(**more: Any) -> Question:
    return Question(
        question_id="q", app_id="shop", text="How deep?", asked_at=1_772_442_930_250, deadline_at=0, **more
    )


def an_answer(**more: Any) -> Answer:
    place = {"url": "https://x.example/b", "child_id": "3", "child_title": "Depth"}
    passages = (
        CitedPassage(product_id="b", position=1, text=TEXT, title="Bulbs", **place),
        CitedPassage(product_id="a", position=0, text="Plant in autumn.", title="Autumn"),
    )
    sentences = (
        CitedSentence(text="Tulips go 15 cm deep in light soil.", passage=0, start=0, end=35),
        CitedSentence(text="Plant in autumn.", passage=1, start=0, end=16),
    )
    given = {"revision": 9, "finish_reason": "success", "sentences": sentences, "passages": passages}
    return Answer(**{**given, **more})


def test_sources_stand_in_the_order_of_their_numbers() -> None:
    record = render_answer(a_question(), an_answer())
    assert [source["product_id"] for source in record["sources"]] == ["b", "a"]
    assert record["answer"].index("[1]") < record["answer"].index("[2]")
    assert record["sources"][0] == {
        "product_id": "b",
        "title": "Bulbs",
        "child_id": "3",
        "child_title": "Depth",
        "snippet": "<mark>Tulips go 15 cm deep in light soil.</mark> &lt;b&gt;Lift&lt;/b&gt; the bulbs &amp; dry them.",
    }
    assert "child_id" not in record["sources"][1]


def test_pictures_of_cited_products_come_along() -> None:
    bulbs, autumn = an_answer().passages
    pictured = bulbs.model_copy(update={"picture": Picture(src="https://x.example/b.jpg")})
    assert "images" not in render_answer(a_question(), an_answer())
    assert render_answer(a_question(), an_answer(passages=(pictured, autumn)))["images"] == [
        {
            "product_id": "b",
            "image_src": "https://x.example/b.jpg",
            "image_alt": "Bulbs",
            "title": "Bulbs",
            "url": "https://x.example/b",
        }
    ]
    withdrawn = Answer(finish_reason="success", composer="withdrawn", passages=(pictured,))
    assert "images" not in render_answer(a_question(), withdrawn)


@pytest.mark.parametrize(
    ("product", "picture"),
    [
        ({"cover_image": "https://x.example/c.jpg", "images": ["https://x.example/d.jpg"]}, ("c.jpg", "")),
        ({"images": [{"src": "https://x.example/d.jpg", "alt": "A hoe"}]}, ("d.jpg", "A hoe")),
        ({"images": ["javascript:alert(1)", 7, "https://x.example/e.jpg"]}, ("e.jpg", "")),
        ({"cover_image": "/local.jpg"}, None),
        ({"images": "https://x.example/f.jpg"}, None),
        ({}, None),
    ],
)
def test_a_picture_is_the_cover_or_the_first_image_on_the_web(
    product: dict[str, Any], picture: tuple[str, str] | None
) -> None:
    shown = find_picture(product)
    assert (shown and (shown.src.removeprefix("https://x.example/"), shown.alt)) == picture


def test_the_format_of_a_reading_wins_over_the_questions() -> None:
    question = a_question(format=Format(cite_start="(", cite_end=")"))
    assert "(1)" in render_answer(question, an_answer())["answer"]
    assert "{1}" in render_answer(question, an_answer(), Format(cite_start="{", cite_end="}"))["answer"]


def test_a_refusal_has_another_finish_reason_also_when_it_is_stored_as_a_success() -> None:
    assert render_answer(a_question(), Answer(finish_reason="success"))["finish_reason"] == "no_answer"
    withdrawn = Answer(finish_reason="success", composer="withdrawn")
    assert render_answer(a_question(), withdrawn)["finish_reason"] == "success"


@pytest.mark.parametrize(
    ("answer", "text", "finished"),
    [
        (Answer(stage=FETCHING), FETCHING + " ...", False),
        (Answer(finish_reason="success"), NO_ANSWER_TEXT, True),
        (Answer(finish_reason="success", composer="withdrawn"), WITHDRAWN, True),
        (Answer(finish_reason="error"), FAILED, True),
        (Answer(finish_reason="forbidden", blocked_reason="enough"), "", True),
    ],
)
def test_an_answer_without_sentences_shows_its_state(answer: Answer, text: str, finished: bool) -> None:
    record = render_answer(a_question(), answer)
    assert (record["answer"], record["finished"], record["sources"]) == (text, finished, [])
    assert record.get("blocked_reason", "") == answer.blocked_reason


def test_requested_fields_never_replace_source_fields() -> None:
    passage = (
        an_answer()
        .passages[0]
        .model_copy(update={"fields": {"title": "T", "snippet": "S", "price": 3, "product_id": "x"}})
    )
    source = render_answer(a_question(), an_answer(passages=(passage, an_answer().passages[1])))["sources"][0]
    assert (source["product_id"], source["title"], source["price"]) == ("b", "Bulbs", 3)
    assert source["snippet"] != "S"


def test_a_long_passage_is_cut_around_what_matters() -> None:
    text = "word " * 400 + "the treasure is here " + "more " * 400
    at = text.index("treasure")
    cut = highlight(text, [(at, at + 8)], most_chars=100)
    assert "<mark>treasure</mark>" in cut
    assert cut.startswith("… ")
    assert cut.endswith(" …")
    assert len(cut) < 130


def test_spans_that_make_no_sense_do_no_harm() -> None:
    for spans in ([(5, 2)], [(-9, 4)], [(90, 200)], [(0, 3), (1, 6), (2, 4)], []):
        assert "cm deep in light soil" in highlight(TEXT, spans).replace("<mark>", "").replace("</mark>", "")


def test_question_words_match_in_any_case() -> None:
    assert [TEXT[start:end] for start, end in find_question_words(TEXT, "how DEEP is light soil")] == [
        "deep",
        "light",
        "soil",
    ]
