"""docs/concepts/scoring.md shows the defaults of the code, and numbers its equations without a gap."""

from __future__ import annotations

import re

from actors.models import cohorts
from actors.recommender.ranking import score as ranking_score
from actors.recommender.ranking import session_context, user_profile
from actors.recommender.rerank import exploration, rerank
from actors.recommender.state import cold_start, live_cohorts, serving_model
from actors.recommender.state.cooccurrence import CooccurrenceTable
from actors.recommender.state.engine_state import BlendWeights
from actors.recommender.state.events import EVENT_WEIGHTS
from tests.house.tree import ROOT, sources

PAGE = (ROOT / "docs" / "concepts" / "scoring.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^`|]+)` \| ([^|]+) \| ", re.MULTILINE)


def defaults() -> dict[str, str]:
    """Read the table of defaults: symbol and value."""
    section = PAGE.partition("### Defaults")[2].partition("\n## ")[0]
    return dict(ROW.findall(section))


def test_the_defaults_are_those_of_the_code() -> None:
    weights, table = BlendWeights(), CooccurrenceTable()
    ours = {
        "a_trend": weights.trend,
        "a_popular": weights.popular,
        "a_tail": weights.long_tail,
        "a_pairs": weights.together,
        "a_content": weights.content,
        "a_related": weights.related,
        "a_prior": weights.prior_in_similar,
        "a_rerank": weights.profile_in_trending,
        "H_profile": user_profile._HALF_LIFE_ITEMS,
        "N_profile": user_profile.MOST_ROWS,
        "N_pairs": ranking_score._MOST_TOGETHER,
        "W_pairs": table._width,
        "D_pairs": table._half_ms / 86_400_000,
        "c_context": session_context._WEIGHT,
        "V": cold_start.ENOUGH_VOTES,
        "K": cold_start._NEIGHBOURS,
        "g": cold_start._POWER,
        "c_inherit": cold_start._INHERITED,
        "c_feature": serving_model._CONTENT,
        "D_cohort": live_cohorts._HALF_LIFE_DAYS,
        "users_min": cohorts.LEAST_USERS,
        "B": rerank.BLOCK_SIZE,
        "E": exploration.BLOCK_SIZE,
    }
    shown = defaults()
    assert shown.pop("m_min, m_max") == f"{cohorts.LEAST_PRIOR:,.0f}, {cohorts.MOST_PRIOR:,.0f}"
    assert {name: float(text.replace(",", "")) for name, text in shown.items()} == ours


def test_the_weights_of_interactions_are_those_of_the_code() -> None:
    section = PAGE.partition("### 2.")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert set(EVENT_WEIGHTS) <= named


def test_equations_are_numbered_without_a_gap() -> None:
    headings = [int(number) for number in re.findall(r"^### (\d+)\. ", PAGE, re.MULTILINE)]
    assert headings == list(range(1, len(headings) + 1))
    numbers = [int(number) for number in re.findall(r" \((\d+)\)$", PAGE, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    anchors = [int(number) for number in re.findall(r"\{ #equation-(\d+) \}$", PAGE, re.MULTILINE)]
    assert set(numbers) <= set(anchors)


def test_every_equation_that_the_code_cites_exists() -> None:
    last = max(int(number) for number in re.findall(r" \((\d+)\)$", PAGE, re.MULTILINE))
    for source in sources():
        for numbers in re.findall(r"scoring\.md,? equations? ([\d, and]+)", source.text):
            assert all(int(number) <= last for number in re.findall(r"\d+", numbers)), source.name
