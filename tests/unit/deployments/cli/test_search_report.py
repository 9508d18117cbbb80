"""The search report: sums over the shelf and what is on its way, and the command over a stopped installation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.artifacts.logs.query_log import COLUMNS, QueryLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.process.artifact_access import open_artifact_store
from cluster.records.apps import App
from cluster.records.logged_query import UNKNOWN, LoggedQuery
from cluster.store.connect import OpenStores
from deployments.cli.__main__ import command_line
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.insight.report import build_search_charts
from deployments.operations.insight.search_report import SearchReport, build_search_report

DAY = 86_400_000
HOSTILE = '<script>alert("x")</script> \x1b[31m [bold]'


def logged_query(text: str, total: int = 3, at: int = DAY, kind: Any = "search", **more: Any) -> LoggedQuery:
    given = {"language": "en", "served_by": "search", "engine_id": "default", "took_ms": 2.0, **more}
    return LoggedQuery(at=at, kind=kind, text=text, total=total, **given)


def report_of(
    tmp_path: Path, settled: list[LoggedQuery], waiting: list[LoggedQuery], **more: Any
) -> SearchReport:
    artifacts = QueryLogStore(ArtifactStore.open(tmp_path))
    if settled:
        artifacts.append("shop", settled, "1-0")
    return build_search_report(artifacts.read("shop", 0), waiting, **{"since": 0, "until": 10 * DAY, **more})


def test_sums_count_queries_and_those_without_results(tmp_path: Path) -> None:
    settled = [
        logged_query("tulip", 4, reader="a", took_ms=1.0), logged_query("tulip", 0, reader="b", took_ms=3.0),
        logged_query("tulip", 5, reader="b"), logged_query("moss", 0, at=2 * DAY),
        logged_query("moss", 0, at=2 * DAY, language="de"),
    ]  # fmt: skip
    waiting = [logged_query("hoe", 2, at=3 * DAY, kind="autocomplete", served_by="completions")]
    report = report_of(tmp_path, settled, waiting)
    assert (report.queries, report.unfound, report.share) == (6, 3, 0.5)
    assert [
        (line.text, line.kind, line.queries, line.readers, line.unfound, line.found) for line in report.top
    ] == [
        ("tulip", "search", 3, 2, 1, 3.0),
        ("moss", "search", 2, 0, 2, 0.0),
        ("hoe", "autocomplete", 1, 0, 0, 2.0),
    ]
    assert [(line.text, line.queries) for line in report.missing] == [("moss", 2)]
    assert report.texts == [("tulip", 3), ("moss", 2), ("hoe", 1)]
    assert report.missing_texts == [("moss", 2)]
    assert [(line.day, line.queries, line.unfound) for line in report.days] == [
        ("1970-01-02", 3, 1), ("1970-01-03", 2, 2), ("1970-01-04", 1, 0),
    ]  # fmt: skip
    assert [(line.kind, line.queries, line.unfound, line.readers) for line in report.kinds] == [
        ("search", 5, 3, 2), ("autocomplete", 1, 0, 0),
    ]  # fmt: skip
    assert (report.kinds[0].p50_ms, report.kinds[0].p99_ms) == (2.0, 3.0)
    assert report.languages == [("en", 5), ("de", 1)]
    assert report.served_by == [("search", 5), ("completions", 1)]
    assert json.loads(json.dumps(report.to_dict()))["days"][1]["unfound_share"] == 1.0


def test_questions_count_by_source_and_never_as_without_results(tmp_path: Path) -> None:
    settled = [
        logged_query("what is mulch", UNKNOWN, kind="ask", served_by="ask_questions"),
        logged_query("what is mulch", UNKNOWN, kind="ask", served_by="ask_questions"),
        logged_query("mulch", 4, kind="ask", served_by="ask_search"),
        logged_query("moss", 0, kind="ask", served_by="ask_search"),
        logged_query("moss", UNKNOWN, kind="ask", served_by="ask_questions"),
    ]
    report = report_of(tmp_path, settled, [])
    assert (report.queries, report.unfound) == (5, 1)
    assert [(line.text, line.queries, line.found) for line in report.top] == [
        ("moss", 2, 0.0), ("what is mulch", 2, 0.0), ("mulch", 1, 4.0),
    ]  # fmt: skip
    assert report.missing == []
    assert report.served_by == [("ask_questions", 3), ("ask_search", 2)]


def test_a_report_is_of_its_time_and_its_kind(tmp_path: Path) -> None:
    settled = [
        logged_query("before", at=DAY - 1),
        logged_query("in"),
        logged_query("in too", kind="ask"),
        logged_query("after", at=2 * DAY),
    ]
    report = report_of(tmp_path, settled, [], since=DAY, until=DAY, kind="ask")
    assert [line.text for line in report.top] == ["in too"]


def test_keystrokes_on_their_way_count_once(tmp_path: Path) -> None:
    typed = [
        logged_query(text, at=DAY + at, kind="autocomplete", typist="t")
        for at, text in enumerate(("t", "tu"))
    ]
    assert [line.text for line in report_of(tmp_path, [], typed).top] == ["tu"]


def test_lists_have_the_requested_length(tmp_path: Path) -> None:
    report = report_of(tmp_path, [logged_query(f"query {at}", 0) for at in range(50)], [], top=7)
    assert (len(report.top), len(report.missing)) == (7, 7)


def test_an_empty_log_is_a_report_too(tmp_path: Path) -> None:
    report = build_search_report(COLUMNS.empty_table(), [], since=0, until=1)
    assert (report.queries, report.share, report.days, report.kinds) == (0, 0.0, [], [])
    assert set(build_search_charts(report)) == {
        "search-days",
        "search-unfound",
        "search-queries",
        "search-missing",
    }


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_the_report_over_a_stopped_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    now = read_clock_ms()

    async def fill(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        await stores.access.put_app(App(app_id="bookshop", environment="development", created_at=0))
        await stores.queries.append("bookshop", [logged_query(HOSTILE, 0, now - 500)])

    installation = Installation()
    installation.administer(fill)
    artifacts = QueryLogStore(open_artifact_store(installation.settings))
    artifacts.append("bookshop", [logged_query("tulip", 3, now - 1_000)], "1-0")
    words = ["report", "search", "--app", "bookshop"]
    folder = tmp_path / "charts"
    result = CliRunner().invoke(command_line(), [*words, "--charts", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["app_id"], report["queries"], report["unfound"]) == ("bookshop", 2, 1)
    assert report["feedback"]["questions"] == []
    assert len(report["charts"]) == 4
    assert all(Path(path).stat().st_size > 200 for path in report["charts"])
    assert b"<script>" not in (folder / "search-missing.svg").read_bytes()
    shown = CliRunner().invoke(command_line(), words)
    assert shown.exit_code == 0
    assert "tulip" in shown.output
    assert "Where it was asked" in shown.output
    assert "\x1b[31m" not in shown.output
    for wrong in (["--app", "nobodys"], ["--kind", "dance"]):
        assert CliRunner().invoke(command_line(), ["report", "search", *wrong]).exit_code != 0
