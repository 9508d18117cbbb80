"""The history of questions: threads, and whether something new was said since.

Every call is one reader's, who is named by a token or, by a server with its secret key, in the body. What the store
can't answer is a 500: nothing was changed, and the caller keeps what it shows and retries.

Source: reference 8.9, 5.7, 3.4
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from actors.history.client import LocalHistoryClient
from actors.history.messages import GenerateUpdate, ThreadChange, ThreadChangeResult, ThreadVerb
from cluster.clock import iso_ms
from cluster.errors import Fault, Unauthenticated, Unavailable, messages
from cluster.records.thread import Thread
from deployments.api.wire import history as wire
from deployments.api.wire.faults import refuse, unprocessable_from
from deployments.edge.envelope import Reply, message_reply, success
from deployments.edge.request import ApiRequest


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    """A reader and what they want."""

    user_id: str
    body: Any


class HistoryResource:
    """Endpoints 36 to 46."""

    def __init__(self, client: LocalHistoryClient) -> None:
        self._client = client

    def body_parser(self, model: wire.Body) -> Callable[[ApiRequest], HistoryRequest]:
        """Make the step that reads a body and finds out whose history it is."""

        def read(request: ApiRequest) -> HistoryRequest:
            token_user = request.token.user_id if request.token is not None else ""
            if not token_user and not request.credential.is_secret:
                raise Unauthenticated(messages.READER_REQUIRED)
            try:
                body = model.model_validate(request.payload)
            except ValidationError as error:
                raise unprocessable_from(error) from error
            user_id = token_user or body.user_id
            if not user_id:
                refuse("field required", "user_id", kind="value_error.missing")
            return HistoryRequest(user_id, body)

        return read

    async def list(self, request: ApiRequest) -> Reply:
        """List threads."""
        wanted: HistoryRequest = request.parsed
        body: wire.ThreadList = wanted.body
        with store_errors_as_faults():
            page = await self._client.list_threads(
                request.app_id, wanted.user_id, rows=body.rows, start=body.start, before_ms=body.before
            )
        shown = [_thread_to_dict(thread) for thread in page.threads]
        return success({"threads": shown, "has_more": page.has_more, "start": body.start, "rows": body.rows})

    async def contents(self, request: ApiRequest) -> Reply:
        """List the questions of a thread."""
        wanted: HistoryRequest = request.parsed
        body: wire.ThreadContents = wanted.body
        with store_errors_as_faults():
            page = await self._client.list_questions(
                request.app_id,
                wanted.user_id,
                body.thread_id,
                rows=body.rows,
                descending=body.order == "desc",
                after=(body.after or "").lower(),
            )
        return success({"question_ids": list(page.question_ids), "has_more": page.has_more})

    async def updates(self, request: ApiRequest) -> Reply:
        """Tell the account's indicator."""
        wanted: HistoryRequest = request.parsed
        with store_errors_as_faults():
            return success({"has_new": await self._client.has_new(request.app_id, wanted.user_id)})

    async def rename(self, request: ApiRequest) -> Reply:
        """Give a thread another title."""
        body: wire.Rename = request.parsed.body
        changed = await self._change(request, "rename", body.thread_id, text=body.title)
        return success({"question_id": changed.thread_id, "title": changed.title})

    async def delete(self, request: ApiRequest) -> Reply:
        """Delete threads."""
        body: wire.Deletion = request.parsed.body
        changed = await self._change(request, "delete", *body.question_ids)
        return success({"deleted_count": changed.count})

    async def touch(self, request: ApiRequest) -> Reply:
        """Raise a thread's indicator; with `generate` append a new answer first.

        Only a subscribed thread takes updates (reference 8.9), so another one is neither touched nor generated for.
        """
        wanted: HistoryRequest = request.parsed
        body: wire.Touch = wanted.body
        if not body.generate:
            return success({"touched": (await self._change(request, "touch", body.thread_id)).count})
        with store_errors_as_faults():
            made = await self._client.generate_update(
                GenerateUpdate(request.app_id, wanted.user_id, body.thread_id)
            )
        if not made.appended:
            return success({"touched": 0, "generated": False})
        return success({"touched": 1, "generated": True, "question_id": made.question_id})

    def build_change(self, verb: ThreadVerb) -> Callable[[ApiRequest], Any]:
        """Make the answer of a change that is told nothing but that it happened."""

        async def answer(request: ApiRequest) -> Reply:
            body = request.parsed.body
            named = (body.thread_id,) if isinstance(body, wire.ThreadBody) else ()
            await self._change(request, verb, *named)
            return message_reply(messages.SUCCESS)

        return answer

    async def _change(
        self, request: ApiRequest, verb: ThreadVerb, *thread_ids: str, text: str = ""
    ) -> ThreadChangeResult:
        wanted: HistoryRequest = request.parsed
        with store_errors_as_faults():
            return await self._client.change(
                ThreadChange(request.app_id, wanted.user_id, verb, thread_ids=thread_ids, text=text)
            )


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
    """Say as a 500 that the store is away: callers of these endpoints expect exactly that."""
    try:
        yield
    except Unavailable as error:
        raise Fault(f"history: {error.message}") from error
