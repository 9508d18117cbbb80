"""`kiosk experiments` on a stopped installation."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from actors.experiments.report import ExperimentReport, build_report
from actors.experiments.report_data import load_report, validate_snapshots
from cluster.artifacts.segment_format import INTERACTIONS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.experiment import Experiment, Exposure
from deployments.cli.insight.experiments import build_charts, show_report
from jobs.refresh.evaluation.plots import PlotBox, render_svg
from tests.fakes.command_runner import refusal_of, run_command, run_json
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import publish_ring_snapshot
from tests.suites.doing import APP
from tests.suites.test_experiments import an_experiment

TWO = [{"name": "Now"}, {"name": "Blue"}]
_run = partial(run_command, "experiments")
_run_json = partial(run_json, "experiments")
_refusal = partial(refusal_of, "experiments")


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_an_experiment_is_made_started_reported_and_put_away(data_dir: Path) -> None:
    assert run_command("apps", "create", "bookshop").exit_code == 0
    drafts = [
        {"name": n, "reports_exposure": True, "variants": TWO, "layer": "home"} for n in ("Blue", "Red")
    ]
    file = data_dir.parent / "experiments.json"
    file.write_text(json.dumps({"experiments": drafts}))
    made = _run_json("create", "bookshop", str(file))["created"]
    assert [(listed["slug"], listed["status"], listed["starts_at"]) for listed in made] == [
        ("blue", "Draft", None), ("red", "Draft", None),
    ]  # fmt: skip
    assert _run_json("start", "bookshop", "blue")["status"] == "Active"
    assert isinstance(_refusal("start", "bookshop", "red"), Conflict)
    assert (
        "would share users" in _refusal("schedule", "bookshop", "red", "--at", "2099-01-01T00:00:00Z").message
    )
    assert "blue is Active; from there" in _refusal("archive", "bookshop", "blue").message
    after = _run_json("edit", "bookshop", "blue", "--weight", "blue=3", "--name", "Bluer")
    assert ([variant["weight"] for variant in after["variants"]], after["name"]) == ([1, 3], "Bluer")
    assert after["weights_at"] is not None
    assert "traffic can only go up from 1" in _refusal("edit", "bookshop", "blue", "--traffic", "0.5").message
    assert "since" in _run("report", "bookshop", "blue").output
    report = _run_json("report", "bookshop", "blue", "--charts", str(data_dir.parent / "charts"))
    assert [line["people"] for line in report["variants"]] == [0, 0]
    assert len(report["charts"]) == 4
    for path in report["charts"]:
        ElementTree.parse(path)
    assert "not enough yet" in _run("report", "bookshop", "blue").output
    assert "Now" not in _run("list", "bookshop").output
    assert "blue" in _run("show", "bookshop", "blue").output
    for step in ("pause", "start", "complete", "archive"):
        assert _run(step, "bookshop", "blue").exit_code == 0
    assert [experiment["status"] for experiment in _run_json("list", "bookshop")["experiments"]] == [
        "Archived",
        "Draft",
    ]
    lost = {"name": "Lost", "variants": [{"name": "a"}, {"name": "b", "snapshot": "v9"}]}
    assert _run("create", "bookshop", "-", typed=json.dumps(lost)).exit_code == 0
    assert "engine default has no snapshot 'v9'" in _refusal("start", "bookshop", "lost").message
    assert isinstance(_refusal("show", "bookshop", "green"), NotFound)
    assert isinstance(_refusal("list", "nobody"), NotFound)
    shutil.rmtree(data_dir)


def test_faults_of_options_and_files_are_reported_before_anything_is_opened(data_dir: Path) -> None:
    for text, words in (
        ("[", "is not what JSON should be"),
        ("[]", "there are no experiments in the file"),
        ('{"name": "a", "name": "b"}', "is not what JSON should be"),
    ):
        assert words in _refusal("create", "bookshop", "-", typed=text).message
    assert "can't be read" in _refusal("create", "bookshop", str(data_dir.parent / "none.json")).message
    assert isinstance(_refusal("schedule", "bookshop", "x", "--at", "tomorrow"), Invalid)
    for words in (
        (),
        ("--weight", "blue"),
        ("--weight", "blue=much"),
        ("--slice", "half"),
        ("--until", "soon"),
    ):
        assert isinstance(_refusal("edit", "bookshop", "x", *words), Invalid)


def test_a_snapshot_has_to_be_on_the_shelf(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    version = publish_ring_snapshot(SnapshotStore(artifacts), tmp_path / "one", APP, seed=6)

    def pinned(snapshot: str, **fields: Any) -> Experiment:
        variants = [{"variant_id": "a", "name": "a", "slug": "a", "snapshot": snapshot, **fields}]
        return an_experiment(app_id=APP, variants=variants)

    validate_snapshots(pinned(version), artifacts)
    validate_snapshots(pinned(""), artifacts)
    for wrong in (pinned("v9"), pinned(version, engine_id="news")):
        with pytest.raises(NotFound, match=r"variant a: engine .* has no snapshot"):
            validate_snapshots(wrong, artifacts)


async def test_conversions_come_from_settled_interactions_of_any_id_of_a_person(tmp_path: Path) -> None:
    stores, experiment = memory_stores(), an_experiment(goal=("click", "like"))
    at_ms = 1_700_000_000_000
    for user_keys in (["a:x"], ["u:ada", "a:x"], ["a:y"], ["u:eve"]):
        await stores.experiments.assign(experiment, user_keys, Exposure("b", at_ms), "take")
    await stores.interactions.append(APP, b"[]", [("bob", "y", b"")])
    rows = [
        ("u:ada", "click", 1),
        ("u:bob", "like", 2),
        ("u:eve", "click", -1),
        ("u:eve", "share", 3),
        ("u:z", "click", 4),
    ]
    table = pa.Table.from_pylist(
        [
            {"reader": user_key, "type": kind, "at_ms": at_ms + ms, "json": b"{}"}
            for user_key, kind, ms in rows
        ],
        schema=INTERACTIONS,
    )
    SegmentStore(ArtifactStore.open(tmp_path)).append(APP, "interaction", table, first="1-0", last="5-0")
    report = await load_report(stores, ArtifactStore.open(tmp_path), experiment)
    assert [(line.people, line.converted, line.conversions) for line in report.lines] == [
        (0, 0, 0),
        (3, 2, 2),
    ]


async def test_conversions_of_the_last_moment_are_announced_and_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stores, experiment = memory_stores(), an_experiment(goal=("checkout",))
    at_ms = 1_700_000_000_000
    items = []
    for number in range(84):
        await stores.experiments.assign(experiment, [f"u:{number}"], Exposure("b", at_ms), "take")
        moment = iso_ms(at_ms + 1 + number)
        items += [{"type": "checkout", "user_id": str(number), "timestamp": moment, "product_ids": ["p"]}]
    items += [
        {"type": "click", "user_id": "1", "timestamp": iso_ms(at_ms + 1), "product_ids": ["p"]},
        {"type": "checkout", "user_id": "1", "timestamp": iso_ms(at_ms - 1), "product_ids": ["p"]},
        {"type": "checkout", "anonymous_id": "nobody", "timestamp": iso_ms(at_ms + 1), "product_ids": ["p"]},
    ]
    await stores.interactions.append(APP, orjson.dumps(items), [])
    report = await load_report(stores, ArtifactStore.open(tmp_path), experiment)
    assert (report.settling, report.lines[1].converted) == (84, 0)
    assert report.to_dict()["settling"] == 84
    show_report(report)
    assert "84 more conversions are settling" in " ".join(capsys.readouterr().out.split())


def _build_example_report(people: int = 4_000) -> ExperimentReport:
    exposures = [(f"u:{n}", Exposure("ab"[n % 2], 1_700_000_000_000, person=f"u:{n}")) for n in range(people)]
    converted = [(f"u:{n}", 1_700_000_000_001) for n in range(people) if n % 20 == 0 or n % 4 == 1]
    served = {"a:10": 500, "b:10": 400, "b:over": 100}
    return build_report(an_experiment(name="<b>&"), exposures, converted, links={}, served=served)


def test_a_report_is_drawn_as_svg_with_its_intervals() -> None:
    for drawing in build_charts(_build_example_report()).values():
        root = ElementTree.fromstring(render_svg(drawing))
        assert root.tag.endswith("svg")
        assert "<b>&" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for report, count in ((_build_example_report(), 3), (_build_example_report(10), 1)):
        shapes = build_charts(report)["difference"].shapes
        assert sum(isinstance(shape, PlotBox) for shape in shapes) == count


def test_a_report_lists_better_worse_and_broken_results(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(_build_example_report())
    shown = capsys.readouterr().out
    assert "better" in shown
    assert "worse: latency" in shown
    assert "control" in shown
    assert "Traffic split is healthy" in shown
