"""The rows of the history of questions in the table of endpoints: the calls in use, and the same by resources.

Source: reference section 2, 36 to 46; 8.11
"""

from __future__ import annotations

from typing import Any

from actors.history.messages import ThreadVerb
from deployments.api.http.endpoint import Answer, Endpoint, EndpointTexts
from deployments.api.resources.history import HistoryResource
from deployments.api.resources.threads import NAMED, ThreadsResource
from deployments.api.wire import history as shape
from deployments.api.wire import records as wire
from deployments.edge.admission import AdmissionRules

BASE = "/v1/ask/user_history"
_TAG = "History"
_READ = AdmissionRules(publishable=True, body="json", reads_token=True, token_in_body=True)
_CHANGE = AdmissionRules(publishable=True, writes=True, body="json", reads_token=True, token_in_body=True)
_OPERATE = AdmissionRules(writes=True, body="json", reads_token=True, token_in_body=True)


def build_history_endpoints(desk: HistoryResource) -> tuple[Endpoint, ...]:
    """Make the rows."""

    def row(
        name: str, path: str, rules: AdmissionRules, answer: Answer, body: shape.Body, reply: Any, about: str, *,
        hot: bool = False, thread: bool = False,
    ) -> Endpoint:  # fmt: skip
        replies: dict[int, Any] = {200: reply}
        if thread:
            replies[404] = wire.MessageReply
        return Endpoint(
            f"history.{name}", "POST", BASE + path, rules, "detail", answer,
            schema=desk.body_parser(body), hot=hot, about=EndpointTexts(about, _TAG, body, replies, needs_user=True),
        )  # fmt: skip

    def change(name: ThreadVerb, body: shape.Body, about: str, path: str = "") -> Endpoint:
        answer, of_thread = desk.build_change(name), issubclass(body, shape.ThreadBody)
        path = path or f"/thread/updates/{name}"
        return row(name, path, _CHANGE, answer, body, wire.MessageReply, about, thread=of_thread)

    enveloped = wire.build_envelope
    return (
        row(
            "list", "/list", _READ, desk.list, shape.ThreadList, enveloped(shape.Threads),
            "List the threads of a user",
        ),
        row(
            "thread", "/thread", _READ, desk.contents, shape.ThreadContents, enveloped(shape.ThreadQuestions),
            "List the questions of a thread", thread=True,
        ),
        row(
            "rename", "/thread/rename", _CHANGE, desk.rename, shape.Rename, enveloped(shape.Renamed),
            "Give a thread another title", thread=True,
        ),
        row(
            "delete", "/delete", _CHANGE, desk.delete, shape.Deletion, enveloped(shape.DeletedThreads),
            "Delete threads",
        ),
        change("delete_all", shape.UserBody, "Delete all threads of a user", "/delete_all"),
        row(
            "updates", "/thread/updates", _READ, desk.updates, shape.UserBody, enveloped(shape.Updates),
            "Check for news", hot=True,
        ),
        change("subscribe", shape.ThreadBody, "Watch a thread for news"),
        change("unsubscribe", shape.ThreadBody, "Stop watching a thread"),
        change("dismiss_thread", shape.ThreadBody, "Clear a thread's indicator"),
        change("dismiss_overall", shape.UserBody, "Clear the account's indicator"),
        row(
            "touch", "/thread/updates/touch", _OPERATE, desk.touch, shape.Touch, enveloped(shape.Touched),
            "Set a thread's indicator", thread=True,
        ),
    )  # fmt: skip


_FETCH = AdmissionRules(publishable=True, reads_token=True)
_STEP = AdmissionRules(publishable=True, writes=True, reads_token=True)
_READER = {"user_id": {"type": "string"}}


def build_thread_endpoints(desk: ThreadsResource) -> tuple[Endpoint, ...]:
    """Make the rows of threads and notifications as resources."""
    threads, notifications = f"{BASE}/threads", f"{BASE}/notifications"
    one = f"{threads}/{{{NAMED}}}"
    enveloped = wire.build_envelope

    def row(
        name: str, method: str, path: str, answer: Answer, about: str, reply: Any = wire.MessageReply,
        body: shape.Body | None = None,
    ) -> Endpoint:  # fmt: skip
        rules = _FETCH if method == "GET" else _STEP if body is None else _CHANGE
        replies = {200: reply, **({404: wire.MessageReply} if path.startswith(one) else {})}
        return Endpoint(
            f"history.{name}", method, path, rules, "detail", answer,
            schema=desk.body_parser(body or shape.UserBody), about=EndpointTexts(about, _TAG, body, replies,
            _READER, True),
        )  # fmt: skip

    def change(name: str, verb: ThreadVerb, about: str) -> Endpoint:
        return row(f"threads.{name}", "POST", f"{one}/{name}", desk.build_change(verb), about)

    return (
        row("threads.list", "GET", threads, desk.list, "List the threads of a user", enveloped(shape.ThreadResources)),
        row("threads.show", "GET", one, desk.show, "Read a thread", enveloped(shape.WholeThread)),
        row(
            "threads.rename", "PUT", one, desk.rename, "Give a thread another title", enveloped(shape.WholeThread),
            shape.NewTitle,
        ),
        row("threads.delete", "DELETE", one, desk.delete_one, "Delete a thread"),
        row(
            "threads.delete_many", "POST", f"{threads}/_delete", desk.delete_many, "Delete threads",
            enveloped(shape.DeletedThreads), shape.ThreadDeletion,
        ),
        row("threads.delete_all", "POST", f"{threads}/_delete_all", desk.delete_all, "Delete all threads of a user"),
        change("read", "dismiss_thread", "Clear a thread's indicator"),
        change("subscribe", "subscribe", "Watch a thread for news"),
        change("unsubscribe", "unsubscribe", "Stop watching a thread"),
        row(
            "notifications", "GET", notifications, desk.notifications, "Count unread updates",
            enveloped(shape.Notifications),
        ),
        row("notifications.dismiss", "POST", f"{notifications}/dismiss", desk.dismiss, "Clear the account's indicator"),
    )  # fmt: skip
