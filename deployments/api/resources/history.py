"""Endpoints of the question history: threads, subscriptions, and notifications of new answers.

Each request is for one user, named by a token, or in the body with a secret key. If the store is unavailable the
reply is a 500: nothing was changed, and the client keeps its view and retries.

Published in `docs/reference/rest.md`, section History.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from actors.history.messages import GenerateUpdate, ThreadChange, ThreadChangeResult, ThreadVerb
from actors.history.tracker import ThreadTracker
from cluster.clock import iso_ms
from cluster.errors import Fault, NotFound, Unauthenticated, Unavailable, messages
from cluster.records.thread import Thread
from deployments.api.http.endpoint import Answer, Endpoint, EndpointTexts
from deployments.api.wire import history as wire
from deployments.api.wire import records
from deployments.api.wire.validation_errors import refuse, validate_body
from deployments.edge.access.admission import AdmissionRules
from deployments.edge.access.tokens import check_same_user
from deployments.edge.http.replies import Reply, message_reply, success, with_etag
from deployments.edge.http.request import ApiRequest


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A user and the validated body."""

    user_id: str
    body: Any


class _ThreadChanges:
    """What both kinds of endpoints share."""

    def __init__(self, client: ThreadTracker) -> None:
        self._client = client

    async def _change(
        self, request: ApiRequest, verb: ThreadVerb, *thread_ids: str, text: str = ""
    ) -> ThreadChangeResult:
        history_request: HistoryRequest = request.parsed
        with store_errors_as_faults():
            return await self._client.change(
                ThreadChange(request.app_id, history_request.user_id, verb, thread_ids=thread_ids, text=text)
            )


class HistoryResource(_ThreadChanges):
    """The endpoints of threads with POST bodies."""

    def body_parser(self, model: wire.Body) -> Callable[[ApiRequest], HistoryRequest]:
        """Return the schema step that validates a body and identifies its user."""

        def read(request: ApiRequest) -> HistoryRequest:
            token_user = request.token.user_id if request.token is not None else ""
            if not token_user and not request.credential.is_secret:
                raise Unauthenticated(messages.USER_REQUIRED)
            body = validate_body(model, request.payload)
            user_id = token_user or body.user_id
            if not user_id:
                refuse("field required", "user_id", kind="value_error.missing")
            return HistoryRequest(user_id, body)

        return read

    async def list(self, request: ApiRequest) -> Reply:
        """Return threads."""
        history_request: HistoryRequest = request.parsed
        body: wire.ThreadList = history_request.body
        with store_errors_as_faults():
            page = await self._client.list_threads(
                request.app_id,
                history_request.user_id,
                rows=body.rows,
                start=body.start,
                before_ms=body.before,
            )
        shown = [_thread_to_dict(thread) for thread in page.threads]
        return success({"threads": shown, "has_more": page.has_more, "start": body.start, "rows": body.rows})

    async def contents(self, request: ApiRequest) -> Reply:
        """Return the questions of a thread."""
        history_request: HistoryRequest = request.parsed
        body: wire.ThreadContents = history_request.body
        with store_errors_as_faults():
            page = await self._client.list_questions(
                request.app_id,
                history_request.user_id,
                body.thread_id,
                rows=body.rows,
                descending=body.order == "desc",
                after=(body.after or "").lower(),
            )
        return success({"question_ids": list(page.question_ids), "has_more": page.has_more})

    async def updates(self, request: ApiRequest) -> Reply:
        """Return whether the user has new answers."""
        history_request: HistoryRequest = request.parsed
        with store_errors_as_faults():
            return success({"has_new": await self._client.has_new(request.app_id, history_request.user_id)})

    async def rename(self, request: ApiRequest) -> Reply:
        """Rename a thread."""
        body: wire.Rename = request.parsed.body
        changed = await self._change(request, "rename", body.thread_id, text=body.title)
        return success({"question_id": changed.thread_id, "title": changed.title})

    async def delete(self, request: ApiRequest) -> Reply:
        """Delete threads."""
        body: wire.Deletion = request.parsed.body
        changed = await self._change(request, "delete", *body.question_ids)
        return success({"deleted_count": changed.count})

    async def touch(self, request: ApiRequest) -> Reply:
        """Set the indicator of a thread; with `generate` first append a new answer.

        Only a subscribed thread takes updates. Any other thread stays as it is, and nothing is generated for it.
        """
        history_request: HistoryRequest = request.parsed
        body: wire.Touch = history_request.body
        if not body.generate:
            return success({"touched": (await self._change(request, "touch", body.thread_id)).count})
        with store_errors_as_faults():
            made = await self._client.generate_update(
                GenerateUpdate(request.app_id, history_request.user_id, body.thread_id)
            )
        if not made.appended:
            return success({"touched": 0, "generated": False})
        return success({"touched": 1, "generated": True, "question_id": made.question_id})

    def build_change(self, verb: ThreadVerb) -> Callable[[ApiRequest], Any]:
        """Return the answer of a change whose reply is only a confirmation."""

        async def answer(request: ApiRequest) -> Reply:
            body = request.parsed.body
            named = (body.thread_id,) if isinstance(body, wire.ThreadBody) else ()
            await self._change(request, verb, *named)
            return message_reply(messages.SUCCESS)

        return answer


def _thread_to_dict(thread: Thread) -> wire.Shown:
    return {
        "id": thread.thread_id,
        "question_id": thread.thread_id,
        "title": thread.title,
        "time": iso_ms(thread.time_ms),
        "subscribed": thread.subscribed,
        "has_new": thread.has_new,
    }


@contextmanager
def store_errors_as_faults() -> Iterator[None]:
    """Turn an unavailable store into a 500, as the specification of these endpoints requires.

    Errors:
        Fault: the store does not answer
    """
    try:
        yield
    except Unavailable as error:
        raise Fault(f"history: {error.message}") from error


NAMED = "thread_id"
_ALL = 10_000

Read = Callable[[ApiRequest], HistoryRequest]


class ThreadsResource(_ThreadChanges):
    """The endpoints of one user's threads and notifications as resources."""

    def body_parser(self, model: wire.Body = wire.UserBody) -> Read:
        """Return the schema step that identifies the user and validates the body, if there is one."""

        def read(request: ApiRequest) -> HistoryRequest:
            given = request.payload if isinstance(request.payload, dict) else {}
            body = validate_body(model, {"user_id": request.query.get("user_id"), **given})
            return HistoryRequest(_find_user(request, body.user_id or ""), body)

        return read

    async def list(self, request: ApiRequest) -> Reply:
        """Return all threads, latest activity first."""
        return with_etag(
            success({"threads": [_resource_from_thread(thread) for thread in await self._threads(request)]})
        )

    async def show(self, request: ApiRequest) -> Reply:
        """Return a thread with its questions."""
        return with_etag(success(await self._thread(request)))

    async def rename(self, request: ApiRequest) -> Reply:
        """Rename a thread."""
        body: wire.NewTitle = request.parsed.body
        await self._change(request, "rename", _named_thread(request), text=body.title)
        return success(await self._thread(request))

    async def delete_one(self, request: ApiRequest) -> Reply:
        """Delete a thread."""
        thread = await self._thread(request)
        await self._change(request, "delete", thread["thread_id"])
        return message_reply(messages.SUCCESS)

    async def delete_many(self, request: ApiRequest) -> Reply:
        """Delete threads; unknown ids are skipped."""
        body: wire.ThreadDeletion = request.parsed.body
        return success({"deleted_count": (await self._change(request, "delete", *body.thread_ids)).count})

    async def delete_all(self, request: ApiRequest) -> Reply:
        """Delete all threads of the user."""
        await self._change(request, "delete_all")
        return message_reply(messages.SUCCESS)

    def build_change(self, verb: ThreadVerb) -> Callable[[ApiRequest], Awaitable[Reply]]:
        """Return the answer of a change of one thread whose reply is only a confirmation."""

        async def answer(request: ApiRequest) -> Reply:
            await self._change(request, verb, _named_thread(request))
            return message_reply(messages.SUCCESS)

        return answer

    async def notifications(self, request: ApiRequest) -> Reply:
        """Return whether the user has new answers, the number of unread threads, and the time of the last update."""
        history_request: HistoryRequest = request.parsed
        threads = await self._threads(request)
        with store_errors_as_faults():
            has_new = await self._client.has_new(request.app_id, history_request.user_id)
        last_ms = max((thread.new_at_ms for thread in threads), default=0)
        new = {
            "has_new": has_new,
            "unread_count": sum(thread.has_new for thread in threads),
            "last_update_at": iso_ms(last_ms) if last_ms else None,
        }
        return with_etag(success(new))

    async def dismiss(self, request: ApiRequest) -> Reply:
        """Clear the user's indicator."""
        await self._change(request, "dismiss_overall")
        return message_reply(messages.SUCCESS)

    async def _threads(self, request: ApiRequest) -> tuple[Thread, ...]:
        history_request: HistoryRequest = request.parsed
        with store_errors_as_faults():
            page = await self._client.list_threads(
                request.app_id, history_request.user_id, rows=_ALL, start=0
            )
        return tuple(page.threads)

    async def _thread(self, request: ApiRequest) -> dict[str, Any]:
        thread_id = _named_thread(request)
        thread = next(
            (candidate for candidate in await self._threads(request) if thread_id in candidate.question_ids),
            None,
        )
        if thread is None:
            raise NotFound(messages.NOT_FOUND)
        return {**_resource_from_thread(thread), "questions_ids": list(thread.question_ids)}


def _find_user(request: ApiRequest, named: str) -> str:
    token = request.token
    if token is not None and token.user_id:
        check_same_user(token, named)
        return token.user_id
    # Threads are a person's questions, and anybody can write a user id into a request.
    if not request.credential.is_secret:
        raise Unauthenticated(messages.USER_REQUIRED)
    if not named:
        refuse("field required", "user_id", kind="value_error.missing", within="query")
    return named


def _named_thread(request: ApiRequest) -> str:
    return request.ids[NAMED].lower()


def _resource_from_thread(thread: Thread) -> dict[str, Any]:
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "updated_at": iso_ms(thread.time_ms),
        "subscribed": thread.subscribed,
        "has_new": thread.has_new,
    }


ROOT = "/v1/ask/user_history"
_TAG = "History"
_READ = AdmissionRules(publishable=True, body="json", reads_token=True, token_in_body=True)
_CHANGE = AdmissionRules(publishable=True, writes=True, body="json", reads_token=True, token_in_body=True)
_OPERATE = AdmissionRules(writes=True, body="json", reads_token=True, token_in_body=True)


def build_history_endpoints(resource: HistoryResource) -> tuple[Endpoint, ...]:
    """Return the endpoints of threads with POST bodies."""

    def row(
        name: str,
        path: str,
        rules: AdmissionRules,
        answer: Answer,
        body: wire.Body,
        reply: Any,
        about: str,
        *,
        hot: bool = False,
        thread: bool = False,
    ) -> Endpoint:
        replies: dict[int, Any] = {200: reply}
        if thread:
            replies[404] = records.MessageReply
        return Endpoint(
            f"history.{name}", "POST", ROOT + path, rules, "detail", answer,
            schema=resource.body_parser(body), hot=hot,
            about=EndpointTexts(about, _TAG, body, replies, needs_user=True),
        )  # fmt: skip

    def change(name: ThreadVerb, body: wire.Body, about: str, path: str = "") -> Endpoint:
        answer = resource.build_change(name)
        of_thread = issubclass(body, wire.ThreadBody)
        path = path or f"/thread/updates/{name}"
        return row(name, path, _CHANGE, answer, body, records.MessageReply, about, thread=of_thread)

    enveloped = records.build_envelope
    return (
        row(
            "list", "/list", _READ, resource.list, wire.ThreadList, enveloped(wire.Threads),
            "List the threads of a user",
        ),
        row(
            "thread", "/thread", _READ, resource.contents, wire.ThreadContents, enveloped(wire.ThreadQuestions),
            "List the questions of a thread", thread=True,
        ),
        row(
            "rename", "/thread/rename", _CHANGE, resource.rename, wire.Rename, enveloped(wire.Renamed),
            "Give a thread another title", thread=True,
        ),
        row(
            "delete", "/delete", _CHANGE, resource.delete, wire.Deletion, enveloped(wire.DeletedThreads),
            "Delete threads",
        ),
        change("delete_all", wire.UserBody, "Delete all threads of a user", "/delete_all"),
        row(
            "updates", "/thread/updates", _READ, resource.updates, wire.UserBody, enveloped(wire.Updates),
            "Check for news", hot=True,
        ),
        change("subscribe", wire.ThreadBody, "Watch a thread for news"),
        change("unsubscribe", wire.ThreadBody, "Stop watching a thread"),
        change("dismiss_thread", wire.ThreadBody, "Clear a thread's indicator"),
        change("dismiss_overall", wire.UserBody, "Clear the account's indicator"),
        row(
            "touch", "/thread/updates/touch", _OPERATE, resource.touch, wire.Touch, enveloped(wire.Touched),
            "Set a thread's indicator", thread=True,
        ),
    )  # fmt: skip


_FETCH = AdmissionRules(publishable=True, reads_token=True)
_STEP = AdmissionRules(publishable=True, writes=True, reads_token=True)
_USER_ID = {"user_id": {"type": "string"}}


def build_thread_endpoints(resource: ThreadsResource) -> tuple[Endpoint, ...]:
    """Return the endpoints of threads and notifications as resources."""
    threads = f"{ROOT}/threads"
    notifications = f"{ROOT}/notifications"
    item = f"{threads}/{{{NAMED}}}"
    enveloped = records.build_envelope

    def row(
        name: str,
        method: str,
        path: str,
        answer: Answer,
        about: str,
        reply: Any = records.MessageReply,
        body: wire.Body | None = None,
    ) -> Endpoint:
        rules = _FETCH if method == "GET" else _STEP if body is None else _CHANGE
        replies = {200: reply, **({404: records.MessageReply} if path.startswith(item) else {})}
        return Endpoint(
            f"history.{name}",
            method,
            path,
            rules,
            "detail",
            answer,
            schema=resource.body_parser(body or wire.UserBody),
            about=EndpointTexts(about, _TAG, body, replies, _USER_ID, True),
        )

    def change(name: str, verb: ThreadVerb, about: str) -> Endpoint:
        return row(f"threads.{name}", "POST", f"{item}/{name}", resource.build_change(verb), about)

    return (
        row(
            "threads.list", "GET", threads, resource.list, "List the threads of a user",
            enveloped(wire.ThreadResources),
        ),
        row("threads.show", "GET", item, resource.show, "Read a thread", enveloped(wire.WholeThread)),
        row(
            "threads.rename", "PUT", item, resource.rename, "Give a thread another title", enveloped(wire.WholeThread),
            wire.NewTitle,
        ),
        row("threads.delete", "DELETE", item, resource.delete_one, "Delete a thread"),
        row(
            "threads.delete_many", "POST", f"{threads}/_delete", resource.delete_many, "Delete threads",
            enveloped(wire.DeletedThreads), wire.ThreadDeletion,
        ),
        row(
            "threads.delete_all", "POST", f"{threads}/_delete_all", resource.delete_all, "Delete all threads of a user",
        ),
        change("read", "dismiss_thread", "Clear a thread's indicator"),
        change("subscribe", "subscribe", "Watch a thread for news"),
        change("unsubscribe", "unsubscribe", "Stop watching a thread"),
        row(
            "notifications", "GET", notifications, resource.notifications, "Count unread updates",
            enveloped(wire.Notifications),
        ),
        row(
            "notifications.dismiss", "POST", f"{notifications}/dismiss", resource.dismiss,
            "Clear the account's indicator",
        ),
    )  # fmt: skip
