"""Feedback on answers in the search report: counted by question, the worst answers first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from actors.answers.render import answer_to_json
from cluster.artifacts.logs.query_log import COLUMNS
from cluster.artifacts.segment_format import INTERACTIONS
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.records.question import Answer, Question
from cluster.records.validation.upload import ORIGIN
from cluster.store.stores import Stores
from deployments.cli.insight.report import print_search_report
from deployments.operations.insight.feedback_report import (
    FeedbackReport,
    build_feedback_report,
    read_judgements,
    read_questions,
)
from deployments.operations.insight.search_report import build_search_report
from tests.fakes.stores.memory import memory_stores

APP = "shop"
AT = 1_700_000_000_000


async def note_question(stores: Stores, question_id: str, text: str, rewritten: str = "") -> None:
    question = Question(question_id=question_id, app_id=APP, text=text, asked_at=AT, deadline_at=AT + 60_000)
    answer = Answer(finish_reason="success", question=rewritten)
    await stores.questions.ask(question, answer, answer_to_json(question, answer), holder="", until_ms=0)


def judged(user_id: str, question_id: str, value: str, at_ms: int = AT, **more: Any) -> dict[str, Any]:
    item = {"type": "feedback", "question_id": question_id, "value": value, "result_type": "answer", **more}
    return {**item, "user_id": user_id, "timestamp": iso_ms(at_ms)}


async def report_of(
    stores: Stores, tmp_path: Path, settled: list[dict[str, Any]], waiting: list[dict[str, Any]]
) -> FeedbackReport:
    segments = SegmentStore(ArtifactStore.open(tmp_path))
    if settled:
        rows = [
            {"reader": f"u:{item['user_id']}", "type": item["type"], "at_ms": AT, "json": orjson.dumps(item)}
            for item in settled
        ]
        table = pa.Table.from_pylist(rows, schema=INTERACTIONS)
        segments.append(APP, "interaction", table, first="1-0", last="5-0")
    if waiting:
        await stores.interactions.append(APP, orjson.dumps(waiting), [])
    judgements = await read_judgements(stores, segments, APP, AT - 1, AT + 100)
    return build_feedback_report(judgements, await read_questions(stores, APP, judgements))


async def test_the_worst_rated_answers_come_first(tmp_path: Path) -> None:
    stores = memory_stores()
    await note_question(stores, "q1", "When do I plant tulips?")
    await note_question(stores, "q2", "when do I plant TULIPS?")
    await note_question(stores, "q3", "And how do I prune them?", "How do I prune tulips?")
    settled = [
        judged("ada", "q3", "not helpful"),
        judged("bob", "q3", "Not  Helpful"),
        judged("cy", "q1", "helpful"),
    ]
    waiting = [
        judged("dee", "q2", "helpful", AT + 1), judged("eve", "q1", "sort of"), judged("fay", "gone", "not helpful"),
        judged("ada", "", "helpful"), {"type": "click", "user_id": "x", "timestamp": iso_ms(AT), "product_ids": ["p"]},
    ]  # fmt: skip
    report = await report_of(stores, tmp_path, settled, waiting)
    assert (report.helpful, report.not_helpful, report.other, report.without_question) == (3, 3, 1, 1)
    assert [
        (line.question, line.helpful, line.not_helpful, line.other, line.answers) for line in report.questions
    ] == [
        ("How do I prune tulips?", 0, 2, 0, 1), ("", 0, 1, 0, 1), ("when do I plant TULIPS?", 2, 0, 1, 2),
    ]  # fmt: skip
    assert report.questions[1].question_id == "gone"


async def test_a_reader_counts_once_and_may_take_a_judgement_back(tmp_path: Path) -> None:
    stores = memory_stores()
    await note_question(stores, "q1", "What is mulch?")
    waiting = [
        judged("ada", "q1", "helpful"), judged("ada", "q1", "not helpful", AT + 1),
        judged("bob", "q1", "helpful"), judged("bob", "q1", "unselected", AT + 2),
        *(judged(f"v{n}", "q1", "not helpful", AT + 3, **{ORIGIN: "0123456789abcdef"}) for n in range(500)),
        judged("late", "q1", "helpful", AT + 5_000),
    ]  # fmt: skip
    report = await report_of(stores, tmp_path, [], waiting)
    assert (report.helpful, report.not_helpful) == (0, 2)


async def test_judgements_of_erased_readers_are_gone(tmp_path: Path) -> None:
    stores = memory_stores()
    await note_question(stores, "q1", "What is mulch?")
    await stores.interactions.append(APP, orjson.dumps([judged("ada", "q1", "not helpful")]), [])
    await stores.interactions.erase(APP, ["ada"])
    report = await report_of(stores, tmp_path, [], [])
    assert report == FeedbackReport()


async def test_the_search_report_holds_the_feedback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stores = memory_stores()
    await note_question(stores, "q1", "What is mulch?")
    feedback = await report_of(stores, tmp_path, [], [judged("ada", "q1", "not helpful")])
    report = build_search_report(COLUMNS.empty_table(), [], since=AT, until=AT + 1, feedback=feedback)
    assert json.loads(json.dumps(report.to_dict()))["feedback"]["questions"][0] == {
        "question": "What is mulch?", "helpful": 0, "not_helpful": 1, "other": 0, "answers": 1, "question_id": "q1",
        "sources": 0,
    }  # fmt: skip
    print_search_report(report, APP)
    shown = capsys.readouterr().out
    assert "1 not helpful" in shown
    assert "What is mulch?" in shown
