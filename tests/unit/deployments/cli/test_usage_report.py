"""The publisher's report: sums, charts, and the commands over a stopped installation."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Invalid
from cluster.records.apps import App
from cluster.records.archive.archive_client import ArchiveCall
from cluster.store.connect import OpenStores
from deployments.cli.__main__ import command_line
from deployments.cli.framework.chart_files import build_bar_chart
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.insight.report import build_charts, parse_span_ms
from deployments.operations.insight.archive.usage_report import build_usage_report
from jobs.refresh.evaluation.plots import render_svg
from tests.fakes.call_frame import frame_from_calls

DAY = 86_400_000
HOSTILE = '<script>alert("x")</script> \x1b[31m [bold]'


def call(at: int, question: str = "", articles: tuple[str, ...] = (), **more: Any) -> ArchiveCall:
    """Write a call."""
    tool = "ask_archive" if question else "get_archive_article"
    given: dict[str, Any] = {"client": "c-1", "client_name": "Agent", **more}
    return ArchiveCall(at=at, tool=tool, question=question, articles=articles, **given)


CALLS = [
    call(DAY, "river  rules", ("a", "b"), skill_used="brief"),
    call(DAY + 1, "river rules", ("a",), client="c-2"),
    call(DAY + 2, "", ("a",)),
    call(2 * DAY, "comet", (), client_name="Other", client="c-3"),
    call(2 * DAY, outcome="refused", refusal="no such pair", client_name="Other", client="c-3"),
    call(9 * DAY, "too late"),
]


def test_sums_group_calls_by_client_and_tool() -> None:
    report = build_usage_report(frame_from_calls(CALLS), since=DAY, until=3 * DAY)
    assert report.calls == 5
    assert [
        (client.name, client.client_ids, client.asks, client.reads, client.refused)
        for client in report.clients
    ] == [
        ("Agent", ("c-1", "c-2"), 2, 1, 0),
        ("Other", ("c-3",), 1, 0, 1),
    ]
    assert report.skills == [("(direct)", 4), ("brief", 1)]
    assert report.questions == [("river rules", 2), ("comet", 1)]
    assert report.unanswered == [("comet", 1)]
    assert report.articles == [("a", 1, 2), ("b", 0, 1)]
    assert report.refusals == [("no such pair", 1)]
    assert report.days == [("1970-01-02", 3), ("1970-01-03", 2)]
    assert json.loads(json.dumps(report.to_dict()))["calls"] == 5


def test_calls_with_low_coverage_are_unanswered_most_frequent_first_then_newest() -> None:
    calls = [
        call(DAY, "comet", ("a",), coverage=0.2),
        call(DAY + 1, "mulch", ("a",), coverage=0.1),
        call(DAY + 2, "comet", ("b",), coverage=0.3),
        call(DAY + 3, "rates", ("b",), coverage=0.49),
        call(DAY + 4, "river", ("a",), coverage=0.5),
        call(DAY + 5, "earlier release", ("a",)),
        call(DAY + 6, "nothing", ()),
        call(DAY + 7, outcome="refused", refusal="busy"),
    ]
    report = build_usage_report(frame_from_calls(calls), since=DAY, until=2 * DAY)
    assert report.to_dict()["unanswered"] == [
        {"question": "comet", "calls": 2, "last_at": DAY + 2, "coverage": 0.3},
        {"question": "nothing", "calls": 1, "last_at": DAY + 6, "coverage": 0.0},
        {"question": "rates", "calls": 1, "last_at": DAY + 3, "coverage": 0.49},
        {"question": "mulch", "calls": 1, "last_at": DAY + 1, "coverage": 0.1},
    ]
    assert (report.missing_calls, report.question_calls) == (5, 7)
    lenient = build_usage_report(frame_from_calls(calls), since=DAY, until=2 * DAY, unanswered_below=0.0)
    assert lenient.unanswered == [("nothing", 1)]


def test_the_time_calls_took_is_summed_up_by_quantiles() -> None:
    calls = [call(DAY + at, "q", ("a",), took_ms=float(at)) for at in range(101)]
    report = build_usage_report(frame_from_calls(calls), since=0, until=2 * DAY)
    assert report.to_dict()["took_ms"] == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert (
        build_usage_report(frame_from_calls([call(DAY, "q")]), since=0, until=DAY).to_dict()["took_ms"] == {}
    )


def test_lists_have_the_requested_length() -> None:
    calls = [call(DAY, f"question {at}") for at in range(50)]
    assert len(build_usage_report(frame_from_calls(calls), since=0, until=DAY, top=7).questions) == 7


def test_a_call_survives_being_written_and_what_is_none_is_none() -> None:
    written = json.loads(json.dumps(CALLS[0].to_dict()))
    assert ArchiveCall.from_dict(written) == CALLS[0]
    assert [ArchiveCall.from_dict(given) for given in ("", [], {}, {**written, "articles": 1})] == [None] * 4
    assert ArchiveCall.from_dict({**written, "of_a_later_release": 1}) == CALLS[0]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90m", 5_400_000), ("24h", DAY), ("7d", 7 * DAY), ("2W", 14 * DAY), ("999999w", 50 * 365 * DAY)],
)
def test_spans_are_read(text: str, ms: int) -> None:
    assert parse_span_ms(text) == ms


@pytest.mark.parametrize("text", ["", "d", "7", "-1d", "7 years", "1e9d", "99999999d"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="span of time"):
        parse_span_ms(text)


def test_bars_of_a_chart_are_as_long_as_their_numbers() -> None:
    drawing = build_bar_chart("Calls", [("one", 10), ("two", 5)], "note")
    root = ElementTree.fromstring(render_svg(drawing))
    widths = [
        float(rect.attrib["width"])
        for rect in root.iter("{http://www.w3.org/2000/svg}rect")
        if "x" in rect.attrib
    ]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


def test_strangers_words_are_only_words_on_a_chart() -> None:
    drawing = build_bar_chart("Clients", [(HOSTILE, 3), ("日本語 " * 30, 2)])
    root = ElementTree.fromstring(render_svg(drawing))
    assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}


def test_nothing_yet_is_a_chart_too() -> None:
    assert "nothing yet" in render_svg(build_bar_chart("Calls", []))
    assert set(build_charts(build_usage_report(frame_from_calls([]), since=0, until=1))) == {
        "days", "clients", "skills", "questions", "articles", "refusals",
    }  # fmt: skip


# --- commands ----------------------------------------------------------------------------------------------------


def run_json(*words: str) -> Any:
    """Run a command that answers in JSON."""
    result = CliRunner().invoke(command_line(), [*words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_rules_and_report_over_a_stopped_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    now = read_clock_ms()

    async def fill(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        await stores.access.put_app(App(app_id="playground", environment="playground", created_at=0))
        calls = [call(now - 1000, HOSTILE, ("a",), client_name=HOSTILE), call(now - 500, "", ("a",))]
        await stores.archive_calls.append("playground", calls)
        await asyncio.sleep(0)

    Installation().administer(fill)
    part = tmp_path / "agents.csv"
    run_json("report", "mcp", "--by", "agent", "--out", str(part))
    assert part.read_text().splitlines()[0].startswith("agent,calls,asks,reads")
    wrong = CliRunner().invoke(command_line(), ["report", "mcp", "--by", "person", "--out", str(part)])
    assert isinstance(wrong.exception, Invalid)
    report = run_json("report", "mcp", "--charts", str(tmp_path / "charts"), "--forms", "svg,png")
    assert (report["app_id"], report["calls"]) == ("playground", 2)
    assert len(report["charts"]) == 6
    assert all(Path(path).stat().st_size > 200 for path in report["charts"])
    assert run_json("clients", "deny", "Greedy Bot")["decision"] == "deny"
    assert run_json("clients", "rate", "greedy bot", "30")["calls_per_minute"] == 30
    listed = run_json("clients", "list")
    assert [(rule["client"], rule["decision"], rule["calls_per_minute"]) for rule in listed["rules"]] == [
        ("greedy bot", "deny", 30.0)
    ]
    assert {client["client_name"] for client in listed["seen"]} == {"Agent", HOSTILE}
    shown = CliRunner().invoke(command_line(), ["report", "mcp"])
    assert shown.exit_code == 0
    assert "\x1b[31m" not in shown.output
    assert run_json("clients", "forget", "GREEDY BOT")["forgotten"] is True
