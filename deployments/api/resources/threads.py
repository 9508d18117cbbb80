"""The history of questions by resources: threads and notifications under paths of their own, over the same client.

The reader is named by a token or, by a server with its secret key, in the query or the body.

Source: reference 8.11
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from actors.history.client import LocalHistoryClient
from actors.history.messages import Change, Changed, Verb
from cluster.clock import iso_ms
from cluster.errors import NotFound, Unauthenticated, messages
from cluster.records.thread import Thread
from deployments.api.resources.history import Wanted, told_as_fault
from deployments.api.wire import history as wire
from deployments.api.wire.faults import refuse, unprocessable
from deployments.edge.envelope import Reply, success, tagged, told
from deployments.edge.request import Arrival
from deployments.edge.tokens import match_reader

NAMED = "thread_id"
_ALL = 10_000

Read = Callable[[Arrival], Wanted]


class HistoryResources:
    """Threads and notifications of one reader."""

    def __init__(self, client: LocalHistoryClient) -> None:
        self._client = client

    def reader(self, model: wire.Body = wire.OfReader) -> Read:
        """Make the step that reads whose history it is, and a body when there is one."""

        def read(request: Arrival) -> Wanted:
            given = request.payload if isinstance(request.payload, dict) else {}
            try:
                body = model.model_validate({"user_id": request.query.get("user_id"), **given})
            except ValidationError as error:
                raise unprocessable(error) from error
            return Wanted(_reader_of(request, body.user_id or ""), body)

        return read

    async def list(self, request: Arrival) -> Reply:
        """List all threads, latest activity first."""
        return tagged(success({"threads": [_shown(thread) for thread in await self._threads(request)]}))

    async def show(self, request: Arrival) -> Reply:
        """Show a thread with its questions."""
        return tagged(success(await self._thread(request)))

    async def rename(self, request: Arrival) -> Reply:
        """Give a thread another title."""
        body: wire.NewTitle = request.parsed.body
        await self._change(request, "rename", _named(request), text=body.title)
        return success(await self._thread(request))

    async def delete_one(self, request: Arrival) -> Reply:
        """Delete a thread."""
        thread = await self._thread(request)
        await self._change(request, "delete", thread["thread_id"])
        return told(messages.SUCCESS)

    async def delete_many(self, request: Arrival) -> Reply:
        """Delete threads; what is unknown is skipped."""
        body: wire.ThreadDeletion = request.parsed.body
        return success({"deleted_count": (await self._change(request, "delete", *body.thread_ids)).count})

    async def delete_all(self, request: Arrival) -> Reply:
        """Delete all threads of the reader."""
        await self._change(request, "delete_all")
        return told(messages.SUCCESS)

    def changer(self, verb: Verb) -> Callable[[Arrival], Awaitable[Reply]]:
        """Make the answer of a change of one thread that is told nothing but that it happened."""

        async def answer(request: Arrival) -> Reply:
            await self._change(request, verb, _named(request))
            return told(messages.SUCCESS)

        return answer

    async def notifications(self, request: Arrival) -> Reply:
        """Tell the account's indicator, how many threads are unread, and when the last update came."""
        wanted: Wanted = request.parsed
        threads = await self._threads(request)
        with told_as_fault():
            has_new = await self._client.has_new(request.app_id, wanted.user_id)
        last_ms = max((thread.new_at_ms for thread in threads), default=0)
        new = {
            "has_new": has_new,
            "unread_count": sum(thread.has_new for thread in threads),
            "last_update_at": iso_ms(last_ms) if last_ms else None,
        }
        return tagged(success(new))

    async def dismiss(self, request: Arrival) -> Reply:
        """Clear the account's indicator."""
        await self._change(request, "dismiss_overall")
        return told(messages.SUCCESS)

    async def _threads(self, request: Arrival) -> tuple[Thread, ...]:
        wanted: Wanted = request.parsed
        with told_as_fault():
            page = await self._client.threads(request.app_id, wanted.user_id, rows=_ALL, start=0)
        return tuple(page.threads)

    async def _thread(self, request: Arrival) -> dict[str, Any]:
        thread_id = _named(request)
        found = next((one for one in await self._threads(request) if thread_id in one.question_ids), None)
        if found is None:
            raise NotFound(messages.NOT_FOUND)
        return {**_shown(found), "questions_ids": list(found.question_ids)}

    async def _change(self, request: Arrival, verb: Verb, *thread_ids: str, text: str = "") -> Changed:
        wanted: Wanted = request.parsed
        with told_as_fault():
            return await self._client.change(
                Change(request.app_id, wanted.user_id, verb, thread_ids=thread_ids, text=text)
            )


def _reader_of(request: Arrival, named: str) -> str:
    token = request.token
    if token is not None and token.user_id:
        match_reader(token, named)
        return token.user_id
    if not request.credential.is_secret:
        raise Unauthenticated(messages.READER_REQUIRED)
    if not named:
        refuse("field required", "user_id", kind="value_error.missing", within="query")
    return named


def _named(request: Arrival) -> str:
    return request.ids[NAMED].lower()


def _shown(thread: Thread) -> dict[str, Any]:
    return {
        "thread_id": thread.thread_id,
        "title": thread.title,
        "updated_at": iso_ms(thread.time_ms),
        "subscribed": thread.subscribed,
        "has_new": thread.has_new,
    }
