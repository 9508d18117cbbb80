"""What an evaluation says beside its figures: segments, intervals of others, round ticks, and why protocols differ."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.evaluation.evaluate import LIGHT_USER_BELOW, EvaluationResult
from jobs.refresh.evaluation.plots import (
    PlotBar,
    PlotLabel,
    choose_ticks,
    draw_bars,
    draw_reports,
    render_svg,
)
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.reports import (
    SEGMENT_NOTE,
    markdown_from_reports,
    protocol_note,
    report_comparison,
    report_evaluation,
    shared_last_timestamp_share,
)


def _examined(seed: int) -> EvaluationResult:
    rng = np.random.default_rng(seed)
    names = ("ndcg@10", "recall@10", "hit_rate@10", "mrr@10")
    figures = {name: rng.random(60) for name in names}
    return EvaluationResult("by time", 10, figures, np.arange(60) % 20, np.ones(5, np.bool_), 5)


@pytest.fixture
def report() -> EvaluationReport:
    ours, popularity = _examined(1), _examined(2)
    rng = np.random.default_rng(3)
    evaluation = report_evaluation(ours, rng)
    beside = {"popularity": report_comparison(popularity, ours, "ndcg@10", rng)}
    return evaluation.model_copy(update={"beside": beside, "recipe": "fast", "protocol": "by_time"})


def test_popularity_has_an_interval_in_text_and_picture(report: EvaluationReport) -> None:
    popularity = report.beside["popularity"]
    for name in ("ndcg@10", "mrr@10"):
        low, high = popularity.intervals["all"][name]
        assert low < popularity.segments["all"][name] < high
    assert set(popularity.intervals) == {"all", "new", "light", "heavy"}
    low, high = popularity.intervals["all"]["ndcg@10"]
    text = markdown_from_reports([report], "shop/default")
    assert f"({low:.4f} to {high:.4f})" in text.split("| popularity |")[1]
    assert "new: no event before the test" in text.lower()
    whiskers = [
        shape for shape in draw_reports([report])["by_time-segments"].shapes if hasattr(shape, "to_x")
    ]
    ours_alone = draw_bars("x", {"g": {"this recipe": PlotBar(0.5, 0.4, 0.6)}})
    grid = [shape for shape in ours_alone.shapes if hasattr(shape, "to_x")]
    assert len(whiskers) > len(grid)


def test_intervals_of_others_change_nobody_elses(report: EvaluationReport) -> None:
    rng = np.random.default_rng(3)
    report_evaluation(_examined(1), rng)
    first = report_comparison(_examined(2), _examined(1), "ndcg@10", rng)
    assert first == report.beside["popularity"]


@pytest.mark.parametrize("most", [0.0, 0.0103, 0.0321, 0.0642, 0.1, 0.3333, 0.642, 1.0, 1.7, 30.0])
def test_ticks_are_round_and_reach_the_highest_value(most: float) -> None:
    marks = choose_ticks(most)
    assert marks[0] == 0
    assert marks[-1] >= most
    assert 3 <= len(marks) <= 8
    step = marks[1]
    factor = step / 10 ** np.floor(np.log10(step) + 1e-9)
    assert min(abs(factor - round_factor) for round_factor in (1, 2, 5)) < 1e-9
    assert np.allclose(np.diff(marks), step)
    chart = draw_bars("t", {"g": {"x": PlotBar(most)}})
    texts = [shape.words for shape in chart.shapes if isinstance(shape, PlotLabel) and shape.anchor == "end"]
    assert [float(text) for text in texts] == pytest.approx(marks)
    assert "0.642" not in texts


def test_the_axis_is_labelled() -> None:
    groups = {
        "ndcg@10": {"this recipe": PlotBar(0.3333, 0.31, 0.35), "popularity": PlotBar(0.12, 0.11, 0.13)}
    }
    words = {
        element.text
        for element in ElementTree.fromstring(render_svg(draw_bars("by time: fast", groups))).iter()
    }
    assert "mean over users (0 to 1); lines: 95 % intervals" in words


def test_segments_are_defined_as_they_are_counted() -> None:
    assert f"light: 1 to {LIGHT_USER_BELOW - 1} events; heavy: {LIGHT_USER_BELOW} or more" in SEGMENT_NOTE


def _data(*rows: tuple[str, str, float]) -> Interactions:
    return interactions_from_frame(
        pl.DataFrame(list(rows), ["reader", "item", "at"], orient="row"), FrameColumns()
    )


def test_baskets_with_one_time_explain_leave_last_out() -> None:
    baskets = _data(*[(f"r{n}", f"i{item}", float(item // 3)) for n in range(10) for item in range(6)])
    assert shared_last_timestamp_share(baskets) == 1.0
    note = protocol_note("leave_last_out", baskets)
    assert note.startswith("100% of the users end with several products at one instant")
    assert "Expect lower figures than by_time" in note
    assert protocol_note("by_time", baskets) == ""
    steps = _data(*[(f"r{n}", f"i{item}", float(item)) for n in range(10) for item in range(6)])
    assert (shared_last_timestamp_share(steps), protocol_note("leave_last_out", steps)) == (0.0, "")
    repeated = _data(*[(f"r{n}", "i1", 5.0) for n in range(10) for _ in range(3)])
    assert shared_last_timestamp_share(repeated) == 0.0
