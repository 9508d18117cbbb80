"""Scorers beside libraries: files of splits and lists, settings, budgets, paired differences and the page."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.errors import Invalid
from docs.generate import peers as page
from jobs.refresh.data.dataset import interactions_from_frame
from jobs.refresh.data.split import EvaluationSplit, leave_last_out, split_by_time
from jobs.refresh.evaluation.evaluate import evaluate
from tests.benchmarks import quality_peers, quality_peers_report
from tests.benchmarks.peers import environment
from tests.benchmarks.peers.kiosk_lists import rank_split
from tests.benchmarks.peers.ranking import Popular
from tests.benchmarks.peers.split_files import read_lists, write_lists, write_split

ENVIRONMENT = quality_peers_report.CACHE / "environment"


@pytest.fixture(scope="module")
def split() -> EvaluationSplit:
    rng = np.random.default_rng(3)
    rows = [(f"u{user}", f"i{item}") for user in range(60) for item in rng.choice(30, 8, replace=False)]
    frame = pl.DataFrame(rows, ["reader", "item"], orient="row").with_row_index("at")
    return leave_last_out(interactions_from_frame(frame)).test


def test_files_have_what_a_peer_may_know_and_no_target(split: EvaluationSplit, tmp_path: Path) -> None:
    write_split(split, tmp_path)
    history, query, hidden = (
        pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("history", "query", "hidden")
    )
    assert json.loads((tmp_path / "split.json").read_text()) == {
        "users": 60, "items": 30, "queries": 60, "clock": True, "places": 20,
    }  # fmt: skip
    assert len(pl.read_parquet(tmp_path / "train.parquet")) == len(split.train) == len(history) == len(hidden)
    assert query["user"].to_list() == list(range(60))
    targets = pl.DataFrame({"query": split.targets.owners(), "item": split.targets.items})
    assert not len(history.join(targets, on=["query", "item"]))


def test_a_session_of_nobody_who_was_trained_has_no_user(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        [("a", "x", 1), ("a", "y", 2), ("b", "y", 3), ("b", "x", 9)], ["reader", "item", "at"], orient="row"
    )
    test = split_by_time(interactions_from_frame(frame), at_s=2.5).test
    write_split(test, tmp_path)
    assert pl.read_parquet(tmp_path / "query.parquet")["user"].to_list() == [-1]


def test_figures_of_lists_equal_those_of_an_evaluation(split: EvaluationSplit, tmp_path: Path) -> None:
    scorer = Popular(split.train)
    write_lists(rank_split(scorer, split), tmp_path / "lists.parquet")
    figures = quality_peers.compute_figures(read_lists(tmp_path / "lists.parquet", split), split)
    expected = evaluate(scorer, split).figures
    for name, values in figures.items():
        assert values == pytest.approx(expected[name]), name


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"query": 60, "place": 0, "item": 0}, "does not have"),
        ({"query": 0, "place": 20, "item": 0}, "does not have"),
        ({"query": 0, "place": 0, "item": 30}, "does not have"),
        ({"query": 0, "place": 1, "item": None}, "twice"),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    split: EvaluationSplit, tmp_path: Path, row: dict[str, int | None], words: str
) -> None:
    target = int(split.targets.items[0])
    rows = [{"query": 0, "place": 0, "item": target}] if row["item"] is None else []
    rows.append({name: target if value is None else value for name, value in row.items()})
    pl.DataFrame(rows).write_parquet(tmp_path / "lists.parquet")
    with pytest.raises(Invalid, match=words):
        read_lists(tmp_path / "lists.parquet", split)


def test_a_list_with_a_hidden_item_is_refused(split: EvaluationSplit, tmp_path: Path) -> None:
    seen = int(split.histories.items[0])
    pl.DataFrame({"query": [0], "place": [0], "item": [seen]}).write_parquet(tmp_path / "lists.parquet")
    with pytest.raises(Invalid, match="hides"):
        read_lists(tmp_path / "lists.parquet", split)


def test_settings_that_differ_in_epochs_share_a_training() -> None:
    assert quality_peers.plan_tests({"epochs": 3}, {"epochs": 10}) == {"test": {"epochs": [3, 10]}}
    assert quality_peers.plan_tests({"epochs": 3}, {"epochs": 10, "n_factors": 64}) == {
        "recommended": {"epochs": [3]},
        "test": {"epochs": [10], "n_factors": 64},
    }
    assert quality_peers.plan_tests({}, {}) == {"test": {}}
    assert quality_peers.plan_tests({}, {"K": 100}) == {"recommended": {}, "test": {"K": 100}}


_PROGRAM = """
import json, resource, sys
folder, behaviour, seconds = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
open(folder + "/runs.json", "w").write(json.dumps({"version": "1", "rows": [{"settings": {}}]}))
while behaviour == "loops":
    pass
if behaviour == "fails":
    raise ValueError("only for users it was trained with")
"""


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("ends", ""),
        ("fails", "ValueError: only for users"),
        ("loops", "not finished in 0.0167 min of one core"),
    ],
)
def test_a_process_that_ends_early_gives_the_reason_and_keeps_its_rows(
    tmp_path: Path, behaviour: str, reason: str
) -> None:
    out = tmp_path / "out"
    run = environment.run_process([sys.executable, "-c", _PROGRAM, str(out), behaviour], out, 1)
    assert run.rows == [{"settings": {}}]
    assert run.reason.startswith(reason)
    assert bool(run.reason) == bool(reason)


@pytest.fixture
def run(split: EvaluationSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> quality_peers.PeerRun:
    """A run over one small task whose libraries are replaced by processes that rank by popularity."""

    def run_process(command: Any, out: Path, budget_s: float) -> environment.Run:
        calls.append((command[2] if len(command) == 6 else "recipe", out.name))
        out.mkdir(parents=True, exist_ok=True)
        trial = quality_peers._search_split(whole) if out.name.startswith("search") else whole.test
        lists = rank_split(Popular(trial.train), trial)
        if command[2] == "implicit BM25":
            return environment.Run([], "", budget_s, "not finished in 1 min of one core")
        write_lists(lists, out / "lists-0.parquet")
        settings = json.loads(command[3]) if len(command) == 6 else {"trend": 1.0}
        epochs = settings.get("epochs")
        settings = {**settings, "epochs": epochs[0]} if epochs else settings
        row = {"settings": settings, "fit_s": 1.0, "rank_s": 0.1, "peak_bytes": 1 << 20, "search_s": 2.0}
        return environment.Run([row], "1.0", 1.0)

    whole = leave_last_out(split.train)
    task = quality_peers.quality.Task("toys", "leave last out", lambda: [whole])
    monkeypatch.setattr(quality_peers, "tasks", lambda: {"toys, leave last out": task})
    monkeypatch.setattr(environment, "run_process", run_process)
    monkeypatch.setattr(environment, "make_environment", lambda cache, report: Path("python"))
    calls: list[tuple[str, str]] = []
    measured = quality_peers.PeerRun(tmp_path, 60, lambda line: None)
    measured.calls = calls  # type: ignore[attr-defined]
    return measured


def test_an_interrupted_run_goes_on_and_a_larger_budget_repeats_what_was_cut(
    run: quality_peers.PeerRun, tmp_path: Path
) -> None:
    run.measure(["toys, leave last out"], "implicit")
    assert run.read("toys, leave last out", "implicit ALS").chosen is not None  # type: ignore[union-attr]
    before = len(run.calls)  # type: ignore[attr-defined]
    run.measure(["toys, leave last out"], "implicit")
    assert len(run.calls) == before  # type: ignore[attr-defined]
    larger = quality_peers.PeerRun(tmp_path, 120, lambda line: None)
    larger.measure(["toys, leave last out"], "implicit")
    assert {scorer for scorer, _ in run.calls[before:]} == {"implicit BM25"}  # type: ignore[attr-defined]


def test_a_report_has_paired_differences_and_names_what_is_unfinished(run: quality_peers.PeerRun) -> None:
    run.measure(["toys, leave last out"])
    report = quality_peers_report.build_report(run, ["toys, leave last out"])
    rows = {row["scorer"]: row for row in report["tasks"][0]["scorers"]}
    assert set(rows) == set(quality_peers.SCORERS)
    assert rows["implicit BM25"]["reason"] == "not finished in 1 min of one core"
    assert "figures" not in rows["implicit BM25"]
    against = rows["implicit ALS"]["against"]["kiosk default"]
    assert against == {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}, "the same lists"
    assert json.loads(json.dumps(report)) == report


def _task(name: str, **intervals: tuple[float, float]) -> Mapping[str, Any]:
    def row(scorer: str, value: float, **more: Any) -> dict[str, Any]:
        figures = {"ndcg@10": value, "low": value, "high": value}
        return {"scorer": scorer, "figures": figures, **more}

    tests = {
        recipe.replace("_", " "): {"low": low, "high": high} for recipe, (low, high) in intervals.items()
    }
    return {
        "name": name,
        "scorers": [row("implicit ALS", 0.3, against=tests), row("LensKit ALS", 0.1, against={})],
    }


def test_the_page_names_where_a_recipe_loses_and_what_was_not_run() -> None:
    tasks = [
        _task("a", kiosk_default=(0.1, 0.2)),
        _task("b", kiosk_default=(-0.2, -0.1)),
        _task("c", kiosk_default=(-0.1, 0.1), kiosk_deep=(-0.1, 0.0)),
    ]
    lines = page.list_verdicts(tasks)
    assert lines[0] == "- Kiosk `fast`, 0 of 3 tasks measured."
    assert lines[1] == (
        "- Kiosk `default`, 3 of 3 tasks measured: above the best library on 1, level with the best library on 1 (c), "
        "below the best library on 1 (b)."
    )
    assert lines[2] == "- Kiosk `deep`, 1 of 3 tasks measured: level with the best library on 1 (c)."


def test_the_page_names_what_has_no_figures() -> None:
    tasks = [_task("a"), _task("b")]
    tasks[0]["scorers"].append({"scorer": "kiosk deep", "reason": "not finished in 3 min of one core"})
    report = {"scorers": ["implicit ALS", "kiosk deep", "RecTools HSTU"], "tasks": tasks}
    assert page.list_gaps(report) == [
        "- Kiosk `deep`: not finished in 3 min of one core (a).",
        "- Kiosk `deep`: not run (b).",
        "- RecTools HSTU: not run (all tasks).",
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("peer", [peer.name for peer in quality_peers.LIBRARIES])
def test_a_library_ranks_what_the_files_say(split: EvaluationSplit, tmp_path: Path, peer: str) -> None:
    interpreter = ENVIRONMENT / "bin" / "python"
    if not interpreter.exists():
        pytest.skip(f"the libraries are not in {ENVIRONMENT}; `kiosk bench quality --peers` installs them")
    write_split(split, tmp_path / "split")
    settings = {"epochs": [1, 2]} if peer.startswith("RecTools") else {}
    command = environment.library_command(interpreter, peer, settings, tmp_path / "split", tmp_path / "out")
    run = environment.run_process(command, tmp_path / "out", 300)
    assert not run.reason
    assert [row["settings"] for row in run.rows] == ([{"epochs": 1}, {"epochs": 2}] if settings else [{}])
    lists = read_lists(tmp_path / "out" / "lists-0.parquet", split)
    assert (lists[:, :10] >= 0).all()
