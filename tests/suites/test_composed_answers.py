"""The playground's own questions are answered from its newspaper as well as it was promised."""

from __future__ import annotations

from jobs.playground.golden import golden
from tests.benchmarks.answers.quality import CITATIONS, REFUSED, playground, tally


def test_answers_cite_what_holds_them_and_what_is_not_known_is_refused() -> None:
    library = playground()
    for part in ("tune", "held"):
        counted = tally(library, [one for one in golden() if one.part == part])
        assert counted.precision >= CITATIONS, (part, counted)
        assert counted.refused_share >= REFUSED, (part, counted)
        assert counted.answered_share >= 0.7, (part, counted)
        assert counted.held_share >= 0.9, (part, counted)
