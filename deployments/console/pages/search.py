"""Pages of search and questions: what is asked and finds nothing, answers with their sources, the question bank."""

from __future__ import annotations

from typing import Any, get_args

from starlette.responses import Response

from cluster.errors import Invalid
from cluster.records.field_types.times import moment_ms
from cluster.records.logged_query import QueryKind
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest
from deployments.operations.content.questions import QuestionState
from deployments.operations.insight.search_activity import SearchActivity
from deployments.operations.insight.search_report import SearchReport

SEARCH = "/apps/{app_id}/search"
QUESTIONS = "/apps/{app_id}/questions"
BANK = "/apps/{app_id}/question-bank"
SPANS = ("24h", "7d", "30d", "90d")
BANK_ROWS = 50
QUESTION_ROWS = 25


async def show_search(request: ConsoleRequest) -> Response:
    """Show what users searched for."""
    since = request.query.get("since", "7d")
    kind = request.query.get("kind", "")
    activity = await request.perform(
        "search.report",
        since=since if since in SPANS else "7d",
        kind=kind if kind in get_args(QueryKind) else "",
        top=20,
        compare=True,
    )
    return request.page(
        "search/search.html",
        activity=activity,
        report=activity.report,
        since=since,
        kind=kind,
        spans=SPANS,
        kinds=get_args(QueryKind),
        chart=_days_chart(request, activity.report),
        totals=_compare_totals(request, activity),
    )


async def show_questions(request: ConsoleRequest) -> Response:
    """Show questions of late with their answers."""
    states = get_args(QuestionState)
    state = request.query.get("state", "all")
    state = state if state in states else "all"
    start = _whole(request.query.get("start", "0"), most=1_000)
    shown = await request.perform("questions.list", state=state, start=start, limit=QUESTION_ROWS)
    return request.page(
        "search/questions.html",
        questions=shown.questions,
        next_start=shown.next_start,
        state=state,
        states=states,
        start=start,
    )


async def show_bank(request: ConsoleRequest) -> Response:
    """Show the question bank."""
    start = _whole(request.query.get("start", "0"), most=100_000)
    contains = request.query.get("contains", "")[:200]
    bank = await request.perform("bank.list", contains=contains, start=start, limit=BANK_ROWS)
    return request.page("search/bank.html", bank=bank, contains=contains, start=start, rows=BANK_ROWS)


async def change_bank(request: ConsoleRequest) -> Response:
    """Add, change or remove a question of the bank."""
    form = request.form
    verb = request.form.get("verb", "")
    question = form.get("question", "").strip()
    if verb == "remove":
        await request.perform("bank.remove", questions=[form.get("question", "")])
    elif verb == "edit":
        await request.perform(
            "bank.edit",
            question=form.get("question", ""),
            new_question=form.get("new_question", "").strip() or None,
            weight=_weight(form.get("weight", "1")),
        )
    else:
        await request.perform("bank.add", question=question, weight=_weight(form.get("weight", "1")))
    return request.redirect(BANK, "search.bank_changed")


def _compare_totals(
    request: ConsoleRequest, activity: SearchActivity
) -> list[tuple[str, float, float | None]]:
    """Return the name of each total with its values in the period and in the period before."""
    report = activity.report
    before = activity.before
    text = request.services.text
    if before is None:
        return []
    kinds = {line.kind: line for line in before.kinds}
    totals: list[tuple[str, float, float | None]] = [
        (text("search.queries"), report.queries, before.queries),
        (text("search.unfound"), report.unfound, before.unfound),
    ]
    for line in report.kinds:
        other = kinds.get(line.kind)
        totals.append((f"{text('search.people')}: {line.kind}", line.readers, other.readers if other else 0))
        totals.append((f"p95 ms: {line.kind}", line.p95_ms, other.p95_ms if other else None))
    return totals


def _days_chart(request: ConsoleRequest, report: SearchReport) -> dict[str, Any] | None:
    days = report.days[-60:]
    if not days:
        return None
    text = request.services.text
    return {
        "label": text("search.by_day"),
        "x": [moment_ms(f"{line.day}T00:00") // 1000 for line in days],
        "series": [
            {"label": text("search.queries"), "values": [line.queries for line in days], "kind": "line"},
            {"label": text("search.nothing"), "values": [line.unfound for line in days], "kind": "line"},
        ],
        "time": True,
    }


def _whole(text: str, *, most: int) -> int:
    return min(int(text), most) if text.isdecimal() and len(text) < 10 else 0


def _weight(text: str) -> float:
    try:
        return float(text.strip()[:40] or "1")
    except ValueError:
        raise Invalid(f"weight: {text.strip()[:40]!r} is no number") from None


PAGES = (
    Page(SEARCH, show_search, role="analyst"),
    Page(QUESTIONS, show_questions, role="analyst"),
    Page(BANK, show_bank),
    FormPage(BANK, change_bank, role="editor"),
)
NAVIGATION = (
    NavigationEntry("search.nav", SEARCH, role="analyst", icon="search", also=(QUESTIONS,)),
    NavigationEntry("search.bank", BANK, icon="list"),
)
