"""The playground's own questions are answered from its newspaper as well as it was promised."""

from __future__ import annotations

from tests.benchmarks.answers import definitions
from tests.benchmarks.answers.quality import CITATIONS, REFUSED, playground, tally
from tests.fakes.golden_questions import read_golden_questions


def test_answers_cite_their_support_and_unknowns_are_refused() -> None:
    library = playground()
    for part in ("tune", "held"):
        counted = tally(library, [question for question in read_golden_questions() if question.part == part])
        assert counted.precision >= CITATIONS, (part, counted)
        assert counted.refused_share >= REFUSED, (part, counted)
        assert counted.answered_share >= 0.7, (part, counted)
        assert counted.supported_share >= 0.9, (part, counted)


def test_plain_questions_are_answered_right_or_refused() -> None:
    questions = definitions.definition_questions()
    whole = definitions.score(questions)
    assert whole.precision >= definitions.PRECISION, whole
    assert whole.recall >= definitions.RECALL, whole
    for language in definitions.LANGUAGES:
        score = definitions.score([question for question in questions if question.language == language])
        assert score.precision >= 0.9, (language, score)
        assert score.recall >= definitions.RECALL, (language, score)
