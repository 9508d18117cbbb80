"""The history of questions by resources: threads and notifications under paths of their own, over the same client.

The reader is named by a token or, by a server with its secret key, in the query or the body.

Source: reference 8.11
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from actors.history.client import LocalHistoryClient
from actors.history.messages import ThreadChange, ThreadChangeResult, ThreadVerb
from cluster.clock import iso_ms
from cluster.errors import NotFound, Unauthenticated, messages
from cluster.records.thread import Thread
from deployments.api.resources.history import HistoryRequest, store_errors_as_faults
from deployments.api.wire import history as wire
from deployments.api.wire.faults import refuse, unprocessable_from
from deployments.edge.envelope import Reply, message_reply, success, with_etag
from deployments.edge.request import ApiRequest
from deployments.edge.tokens import check_same_user

NAMED = "thread_id"
_ALL = 10_000

Read = Callable[[ApiRequest], HistoryRequest]


class ThreadsResource:
    """Threads and notifications of one reader."""

    def __init__(self, client: LocalHistoryClient) -> None:
        self._client = client

    def body_parser(self, model: wire.Body = wire.UserBody) -> Read:
        """Make the step that reads whose history it is, and a body when there is one."""

        def read(request: ApiRequest) -> HistoryRequest:
            given = request.payload if isinstance(request.payload, dict) else {}
            try:
                body = model.model_validate({"user_id": request.query.get("user_id"), **given})
            except ValidationError as error:
                raise unprocessable_from(error) from error
            return HistoryRequest(_find_user(request, body.user_id or ""), body)

        return read

    async def list(self, request: ApiRequest) -> Reply:
        """List all threads, latest activity first."""
        return with_etag(
            success({"threads": [_thread_to_dict(thread) for thread in await self._threads(request)]})
        )

    async def show(self, request: ApiRequest) -> Reply:
        """Show a thread with its questions."""
        return with_etag(success(await self._thread(request)))

    async def rename(self, request: ApiRequest) -> Reply:
        """Give a thread another title."""
        body: wire.NewTitle = request.parsed.body
        await self._change(request, "rename", _named_thread(request), text=body.title)
        return success(await self._thread(request))

    async def delete_one(self, request: ApiRequest) -> Reply:
        """Delete a thread."""
        thread = await self._thread(request)
        await self._change(request, "delete", thread["thread_id"])
        return message_reply(messages.SUCCESS)

    async def delete_many(self, request: ApiRequest) -> Reply:
        """Delete threads; what is unknown is skipped."""
        body: wire.ThreadDeletion = request.parsed.body
        return success({"deleted_count": (await self._change(request, "delete", *body.thread_ids)).count})

    async def delete_all(self, request: ApiRequest) -> Reply:
        """Delete all threads of the reader."""
        await self._change(request, "delete_all")
        return message_reply(messages.SUCCESS)

    def build_change(self, verb: ThreadVerb) -> Callable[[ApiRequest], Awaitable[Reply]]:
        """Make the answer of a change of one thread that is told nothing but that it happened."""

        async def answer(request: ApiRequest) -> Reply:
            await self._change(request, verb, _named_thread(request))
            return message_reply(messages.SUCCESS)

        return answer

    async def notifications(self, request: ApiRequest) -> Reply:
        """Tell the account's indicator, how many threads are unread, and when the last update came."""
        wanted: HistoryRequest = request.parsed
        threads = await self._threads(request)
        with store_errors_as_faults():
            has_new = await self._client.has_new(request.app_id, wanted.user_id)
        last_ms = max((thread.new_at_ms for thread in threads), default=0)
        new = {
            "has_new": has_new,
            "unread_count": sum(thread.has_new for thread in threads),
            "last_update_at": iso_ms(last_ms) if last_ms else None,
        }
        return with_etag(success(new))

    async def dismiss(self, request: ApiRequest) -> Reply:
        """Clear the account's indicator."""
        await self._change(request, "dismiss_overall")
        return message_reply(messages.SUCCESS)

    async def _threads(self, request: ApiRequest) -> tuple[Thread, ...]:
        wanted: HistoryRequest = request.parsed
        with store_errors_as_faults():
            page = await self._client.list_threads(request.app_id, wanted.user_id, rows=_ALL, start=0)
        return tuple(page.threads)

    async def _thread(self, request: ApiRequest) -> dict[str, Any]:
        thread_id = _named_thread(request)
        found = next((one for one in await self._threads(request) if thread_id in one.question_ids), None)
        if found is None:
            raise NotFound(messages.NOT_FOUND)
        return {**_thread_to_dict(found), "questions_ids": list(found.question_ids)}

    async def _change(
        self, request: ApiRequest, verb: ThreadVerb, *thread_ids: str, text: str = ""
    ) -> ThreadChangeResult:
        wanted: HistoryRequest = request.parsed
        with store_errors_as_faults():
            return await self._client.change(
                ThreadChange(request.app_id, wanted.user_id, verb, thread_ids=thread_ids, text=text)
            )


def _find_user(request: ApiRequest, named: str) -> str:
    token = request.token
    if token is not None and token.user_id:
        check_same_user(token, named)
        return token.user_id
    if not request.credential.is_secret:
        raise Unauthenticated(messages.READER_REQUIRED)
    if not named:
        refuse("field required", "user_id", kind="value_error.missing", within="query")
    return named


def _named_thread(request: ApiRequest) -> str:
    return request.ids[NAMED].lower()


def _thread_to_dict(thread: Thread) -> dict[str, Any]:
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "updated_at": iso_ms(thread.time_ms),
        "subscribed": thread.subscribed,
        "has_new": thread.has_new,
    }
