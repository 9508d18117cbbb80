"""An answer is compared with products that changed: what leaves takes with it what was made of it."""

from __future__ import annotations

import pytest

from actors.answers.citation_recheck import recheck_answer
from actors.archive.passages import document_from_product
from cluster.records.question import Answer, CitedPassage, CitedSentence

TEXTS = {"mill": "The mill burned down in 1911.", "bridge": "The bridge was opened in 1920."}
PASSAGES = {name: CitedPassage(product_id=name, position=0, text=text) for name, text in TEXTS.items()}
ANSWER = Answer(
    finish_reason="success",
    sentences=(CitedSentence(text=TEXTS["mill"], passage=0, end=len(TEXTS["mill"])),),
    passages=(PASSAGES["mill"],),
    related=(PASSAGES["bridge"],),
    followups=("When was the bridge opened?",),
)


@pytest.mark.parametrize("name", TEXTS)
def test_follow_up_questions_leave_with_a_product_beside_the_answer(name: str) -> None:
    revised = recheck_answer(ANSWER, {name: None})
    assert revised is not None
    assert revised.followups == ()
    assert name not in {passage.product_id for passage in (*revised.passages, *revised.related)}
    assert bool(revised.sentences) is (name != "mill")


def test_follow_up_questions_stay_if_another_product_leaves_or_one_stays_as_it_is() -> None:
    mill = document_from_product(
        {"product_id": "mill", "type": "article", "title": "", "paragraphs": [TEXTS["mill"]]}
    )
    assert mill is not None
    assert recheck_answer(ANSWER, {"other": None}) is None
    revised = recheck_answer(ANSWER, {"mill": mill})
    assert revised is None or revised.followups == ANSWER.followups
