"""Use cases of snapshots: figures beside each other, the gate's verdict, promotion and rollback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Conflict, Forbidden, NotFound, Unprocessable
from deployments.operations.models.evaluations import build_plots
from jobs.refresh.evaluation.report_models import EvaluationReport
from tests.fakes.model_shop import APP, ModelShop, evaluation, open_model_shop

ENGINE = {"engine_id": "default"}


@pytest.fixture
async def shop(tmp_path: Path) -> ModelShop:
    return await open_model_shop(tmp_path)


async def _serve(shop: ModelShop, folder: Path) -> tuple[str, str]:
    """Let a first snapshot serve, and publish a second one that was compared with it."""
    first = shop.publish(folder / "first", 6)
    await shop.perform("promotions.promote", **ENGINE, version=first)
    second = shop.publish(folder / "second", 7, **evaluation(0.02, serving=first).to_dict())
    return first, second


async def test_a_snapshot_is_previewed_promoted_and_rolled_back(shop: ModelShop, tmp_path: Path) -> None:
    first, second = await _serve(shop, tmp_path)
    preview = (await shop.perform("promotions.preview", role="viewer", **ENGINE, version=second)).to_dict()
    assert (preview["allowed"], preview["serving"], preview["is_current"]) == (True, first, True)
    assert preview["verdict"].startswith("certainly better: ndcg@10 0.2000 against 0.1800 of what serves")
    assert preview["figures"][0]["second"]["mean"] == 0.2
    assert {row["part"] for row in preview["weights"]} >= {"rules", "ease"}
    entry = (await shop.perform("promotions.promote", role="editor", **ENGINE)).entry
    assert (entry.version, entry.before, entry.by, entry.run_id) == (second, first, "ada", "run-1")
    back = (await shop.perform("promotions.roll_back", role="editor", **ENGINE)).entry
    assert (back.version, back.before, back.kind) == (first, second, "rolled_back")
    nothing = (await shop.perform("promotions.roll_back", **ENGINE, to="none")).entry
    assert nothing.version == ""
    history = (await shop.perform("promotions.list", role="viewer", **ENGINE, limit=3)).to_dict()
    assert [entry["version"] for entry in history["history"]] == ["", first, second]
    assert history["serving"] == ""


async def test_the_gate_refuses_what_is_certainly_worse(shop: ModelShop, tmp_path: Path) -> None:
    first, _ = await _serve(shop, tmp_path)
    worse = shop.publish(tmp_path / "worse", 8, **evaluation(-0.02, serving=first).to_dict())
    preview = await shop.perform("promotions.preview", **ENGINE, version=worse)
    assert (preview.allowed, preview.verdict[:15]) == (False, "certainly worse")
    with pytest.raises(Conflict, match="certainly worse"):
        await shop.perform("promotions.promote", **ENGINE, version=worse)
    forced = (
        await shop.perform("promotions.promote", **ENGINE, version=worse[:8], force="autumn range")
    ).entry
    assert (forced.forced, forced.reason) == (True, "autumn range")


async def test_a_verdict_against_something_else_is_compared_anew_or_refused(
    shop: ModelShop, tmp_path: Path
) -> None:
    first, second = await _serve(shop, tmp_path)
    third = shop.publish(tmp_path / "third", 8, **evaluation(0.02, serving=second).to_dict())
    preview = await shop.perform("promotions.preview", **ENGINE, version=third)
    assert (preview.allowed, preview.is_current) == (False, False)
    assert preview.verdict.startswith("not compared with what serves now")
    with pytest.raises(Conflict, match=f"was not compared with {first}, which serves now"):
        await shop.perform("promotions.promote", **ENGINE, version=third)
    comparisons: list[tuple[str, ...]] = []

    async def compare(*words: str) -> EvaluationReport:
        comparisons.append(words)
        return evaluation(0.03, serving=first)

    object.__setattr__(shop.services, "compare_versions", compare)
    entry = (await shop.perform("promotions.promote", **ENGINE, version=third)).entry
    assert comparisons == [(APP, "default", third, first)]
    assert "0.1700 of what serves" in entry.reason


async def test_a_snapshot_of_erased_users_is_not_promoted(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = shop.publish(tmp_path / "first")
    log = ErasureLog(2)
    monkeypatch.setattr(SegmentStore, "erasures", lambda self, app_id: log)
    assert (await shop.perform("snapshots.get", **ENGINE, version=version)).to_dict()["erased_since"] == 2
    preview = await shop.perform("promotions.preview", **ENGINE, version=version)
    assert "erased since" in preview.verdict
    with pytest.raises(Conflict, match="erased since"):
        await shop.perform("promotions.promote", **ENGINE, version=version)


async def test_snapshots_are_listed_newest_first_and_compared(shop: ModelShop, tmp_path: Path) -> None:
    first, second = await _serve(shop, tmp_path)
    listed = (await shop.perform("snapshots.list", role="viewer", **ENGINE)).to_dict()
    assert {snapshot["version"] for snapshot in listed["snapshots"]} == {first, second}
    assert [snapshot["version"] for snapshot in listed["snapshots"] if snapshot["serving"]] == [first]
    page = await shop.perform("snapshots.list", **ENGINE, limit=1, offset=1)
    assert (len(page.snapshots), page.total) == (1, 2)
    compared = (
        await shop.perform("snapshots.compare", role="viewer", **ENGINE, first=first, second=second)
    ).to_dict()
    assert compared["figures"][0] == {
        "figure": "ndcg@10",
        "first": {"mean": 0.2, "low": 0.19, "high": 0.21},
        "second": {"mean": 0.2, "low": 0.19, "high": 0.21},
    }
    assert compared["second"]["run_id"] == "run-1"


async def test_evaluations_have_their_plots_as_data(shop: ModelShop, tmp_path: Path) -> None:
    _, second = await _serve(shop, tmp_path)
    listed = (await shop.perform("evaluations.list", role="viewer", **ENGINE)).to_dict()
    assert listed["total"] == 2
    assert listed["evaluations"][0]["figures"] == {"ndcg@10": 0.2}
    evaluation = (await shop.perform("evaluations.get", role="viewer", **ENGINE, version=second)).to_dict()
    plots = {plot["name"]: plot for plot in evaluation["plots"]}
    assert set(plots) == {"figures", "segments", "weights", "parts"}
    ours, theirs = plots["figures"]["series"]
    assert (ours["low"][0], ours["high"][0]) == (0.19, 0.21)
    assert (theirs["name"], theirs["values"][0], theirs["low"][0]) == ("serving", pytest.approx(0.18), 0.18)


def test_a_reliability_table_is_a_plot() -> None:
    row = {"places": 9, "predicted": 0.124, "observed": 0.11, "low": 0.1, "high": 0.13}
    facts = dict.fromkeys(("users", "depth", "error", "error_low", "error_high", "brier", "brier_of_mean"), 0)
    (plot,) = build_plots(EvaluationReport.model_validate({"calibration": {**facts, "rows": [row]}}))
    observed = {"name": "observed", "values": [0.11], "low": [0.1], "high": [0.13]}
    assert plot == {"name": "calibration", "labels": ["0.12"], "series": [observed]}


async def test_a_report_that_is_too_large_is_not_read(
    shop: ModelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = shop.publish(tmp_path / "first")
    monkeypatch.setattr("deployments.operations.models.evaluations.LARGEST_REPORT", 100)
    with pytest.raises(Exception, match="report is larger than 100 bytes"):
        await shop.perform("evaluations.get", **ENGINE, version=version)
    listed = (await shop.perform("evaluations.list", **ENGINE)).to_dict()
    assert listed["evaluations"][0]["measured"] is False


@pytest.mark.parametrize("version", ["../../../etc", "a/b", "", "x" * 200, "é"])
async def test_a_version_is_no_path(shop: ModelShop, version: str) -> None:
    for operation in ("snapshots.get", "evaluations.get", "promotions.preview"):
        with pytest.raises(Unprocessable):
            await shop.perform(operation, **ENGINE, version=version)


async def test_an_engine_that_is_not_there_is_named(shop: ModelShop) -> None:
    for operation in ("snapshots.list", "evaluations.list", "promotions.list"):
        with pytest.raises(NotFound):
            await shop.perform(operation, engine_id="../x")


async def test_viewers_do_not_promote(shop: ModelShop) -> None:
    for operation in ("promotions.promote", "promotions.roll_back"):
        with pytest.raises(Forbidden, match="needs the role editor"):
            await shop.perform(operation, role="analyst", **ENGINE)
