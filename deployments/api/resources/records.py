"""Endpoints of users and products: upload, read, delete, list ids, task status.

A read parses nothing: it inserts the stored JSON into the reply.

Published in `docs/reference/rest.md`, sections Users and Products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import unquote_to_bytes

from actors.intake.client import Erasures
from cluster.clock import Clock, iso_ms
from cluster.errors import Conflict, NotFound, messages
from cluster.ids import TaskId
from cluster.records.intake import Task
from cluster.records.validation.accepted_uploads import AcceptedRecords, RecordNoun, TypeCheck
from cluster.records.validation.deletes import parse_product_delete, parse_user_delete
from cluster.records.validation.upload import parse_upload
from cluster.store.app_quotas import StorageBounds, check_new_records
from cluster.store.stores import Stores
from deployments.api.wire.validation_errors import refuse
from deployments.edge.http.path_table import raw_path
from deployments.edge.http.replies import (
    Header,
    Reply,
    compute_etag,
    dumps,
    plain_reply,
    success,
    success_json,
    with_etag,
)
from deployments.edge.http.request import ApiRequest

INCONSISTENT = (
    "Some of the records are not inserted, because the data types of their custom attributes are not consistent "
    "with other records. Please see `data` field for details."
)
DRY_RUN: Final[Header] = (b"x-dry-run", b"1")
"States that nothing was written, and that `task_id` names no task."
_CODES = {"queued": 202, "running": 202, "finished": 200, "failed": 500}
_MOST_TRIES = 5


class RecordsResource:
    """The endpoints of one noun; `UsersResource` and `ProductsResource` define the differences."""

    noun: ClassVar[RecordNoun]
    id_field: ClassVar[str]
    deletion_message: ClassVar[str]
    delete_many_message: ClassVar[str]

    def __init__(self, stores: Stores, clock: Clock, new_task_id: Callable[[], TaskId]) -> None:
        self._stores = stores
        self._clock = clock
        self._new_task_id = new_task_id
        self._storage = StorageBounds(stores.usage, clock)

    def parse_upload(self, request: ApiRequest) -> AcceptedRecords:
        """Validate an upload body: all records or none."""
        return parse_upload(self.noun, request.body, now_ms=self._clock.now_ms())

    async def upload(self, request: ApiRequest) -> Reply:
        """Queue the records that agree with the app's attribute types; the reply lists the others.

        Errors:
            Conflict: other uploads changed the attribute types during every try
            Forbidden: the app reached its bound on storage, or the records would pass its bound on records
        """
        accepted: AcceptedRecords = request.parsed
        app = request.credential.app
        if not self._storage.has_valid_check(app, request.started_s):
            await self._storage.check(app)
        if app.settings.max_records:
            ids = (record.record_id for record in accepted.records)
            await check_new_records(self._stores.records, app, self.noun, ids)
        if is_dry_run(request):
            types = await self._stores.records.attribute_types(request.app_id, self.noun)
            return mark_dry_run(_upload_reply(self._new_task_id(), accepted.check_types(types)))
        types = {}
        for _ in range(_MOST_TRIES):
            # The check reads nothing first: the store returns the rare attributes that conflict, then it repeats.
            checked = accepted.check_types(types)
            took = await self._stores.intake.accept(
                request.app_id,
                self.noun,
                "put",
                checked.payload,
                task_id=self._new_task_id(),
                total=len(accepted.records),
                now_ms=self._clock.now_ms(),
                attribute_types=checked.attribute_types,
                errors=checked.messages,
            )
            if not took.conflicts:
                return _upload_reply(took.task_id, checked)
            # Each try knows the conflicts of all tries before it.
            types = {**types, **took.conflicts}
        raise Conflict("attribute types changed while the upload was checked; please retry")

    def parse_id(self, request: ApiRequest) -> str:
        """Return the id of a record in the path.

        Errors:
            Unprocessable: longer than 512 characters, or not UTF-8
        """
        record_id = request.ids[self.id_field]
        if len(record_id) > 512:
            refuse(
                "ensure this value has at most 512 characters",
                self.id_field,
                kind="value_error.any_str.max_length",
                within="path",
            )
        # The path table decodes invalid UTF-8 to this character, which an id may hold as well.
        if "\ufffd" in record_id and not _is_utf8(unquote_to_bytes(raw_path(request.scope))):
            refuse("not valid UTF-8", self.id_field, kind="value_error.str", within="path")
        return record_id

    async def read(self, request: ApiRequest) -> Reply:
        """Return one record in the envelope."""
        return with_etag(success_json(await self._stored(request)))

    async def _stored(self, request: ApiRequest) -> bytes:
        record = await self._stores.records.get(request.app_id, self.noun, request.parsed)
        if record is None:
            raise NotFound(await self._missing_error(request.app_id))
        return record

    async def _missing_error(self, app_id: str) -> str:
        return messages.NOT_FOUND

    async def list_ids(self, request: ApiRequest) -> Reply:
        """Return all ids, sorted.

        Errors:
            NotFound: the app never had a record of this noun
        """
        if not await self._stores.records.seen(request.app_id, self.noun):
            raise NotFound(messages.NOT_FOUND, status_code=True)
        ids = await self._stores.records.ids(request.app_id, self.noun, self._type_of(request))
        return success({"ids": ids})

    def _type_of(self, request: ApiRequest) -> str | None:
        return None

    def parse_delete(self, request: ApiRequest) -> list[str]:
        """Validate the body of a bulk delete."""
        raise NotImplementedError

    async def delete_many(self, request: ApiRequest) -> Reply:
        """Queue a bulk delete; unknown ids count as deleted."""
        return await self._delete(request, request.parsed, self.delete_many_message)

    async def delete_one(self, request: ApiRequest) -> Reply:
        """Queue the delete of one record."""
        return await self._delete(request, [request.parsed], self.deletion_message)

    async def _delete(self, request: ApiRequest, record_ids: list[str], message: str) -> Reply:
        took = await self._stores.intake.accept(
            request.app_id,
            self.noun,
            "remove",
            dumps(record_ids),
            task_id=self._new_task_id(),
            total=len(record_ids),
            now_ms=self._clock.now_ms(),
        )
        return success({"task_id": took.task_id}, message)

    async def status(self, request: ApiRequest) -> Reply:
        """Return the state of a task of this noun.

        Errors:
            NotFound: the app has no such task
        """
        task = await self._stores.tasks.get(request.app_id, self.noun, request.ids["task_id"])
        if task is None:
            raise NotFound(messages.NOT_FOUND)
        return plain_reply(_task_body(task, self._clock.now_ms()))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_dry_run(request: ApiRequest) -> bool:
    """Return whether an upload is a dry run: it answers as usual and writes nothing."""
    return request.query.get("dry_run", "").lower() in ("1", "true")


def mark_dry_run(reply: Reply) -> Reply:
    """Mark the reply of a dry run; its body is the usual one, as the specification requires."""
    return replace(reply, headers=(*reply.headers, DRY_RUN))


def _upload_reply(task_id: str, checked: TypeCheck) -> Reply:
    if not checked.messages:
        return success({"task_id": task_id})
    body = {"errors": True, "message": INCONSISTENT, "data": list(checked.messages), "task_id": task_id}
    return plain_reply({**body, "details": list(checked.details)} if checked.details else body)


def _task_body(task: Task, now_ms: int) -> dict[str, Any]:
    until_ms = task.finished_at if task.finished_at is not None else now_ms
    return {
        "message": messages.SUCCESS,
        "took": max(0, until_ms - task.created_at),
        "errors": task.failed > 0 or task.status == "failed",
        "code": _CODES[task.status],
        "data": {
            "task_id": task.task_id,
            "type": task.type,
            "status": task.status,
            "total": task.total,
            "succeeded": task.succeeded,
            "failed": task.failed,
            "errors": list(task.errors),
            "created_at": iso_ms(task.created_at),
            "finished_at": None if task.finished_at is None else iso_ms(task.finished_at),
        },
    }


class ProductsResource(RecordsResource):
    """The endpoints of products."""

    noun = "product"
    id_field = "product_id"
    deletion_message = messages.SUCCESS
    delete_many_message = messages.DELETED

    async def read(self, request: ApiRequest) -> Reply:
        """Return the product alone, or in the envelope if the app's setting requires it."""
        record = await self._stored(request)
        if request.credential.app.settings.product_envelope:
            return with_etag(success_json(record))
        return Reply(200, record, etag=compute_etag(record))

    def _type_of(self, request: ApiRequest) -> str | None:
        return request.query.get("type") or None

    def parse_delete(self, request: ApiRequest) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_product_delete(request.body)


class UsersResource(RecordsResource):
    """The endpoints of users."""

    noun = "user"
    id_field = "user_id"
    deletion_message = messages.DELETED
    delete_many_message = messages.SUCCESS

    def __init__(self, stores: Stores, clock: Clock, new_task_id: Callable[[], TaskId]) -> None:
        super().__init__(stores, clock, new_task_id)
        self._erasures = Erasures(stores, clock)

    async def read(self, request: ApiRequest) -> Reply:
        """Return one user in the envelope; no cache may store it, so it has no tag."""
        return success_json(await self._stored(request))

    async def _missing_error(self, app_id: str) -> str:
        if await self._stores.records.seen(app_id, self.noun):
            return messages.NOT_FOUND
        return messages.NO_SUCH_INDEX

    async def delete_one(self, request: ApiRequest) -> Reply:
        """Queue the delete of a user, or start the erasure of all data of the user."""
        if request.query.get("everything", "").lower() not in ("1", "true"):
            return await super().delete_one(request)
        erasure = await self._erasures.order(
            request.app_id, user_id=request.parsed, request_id=request.request_id, by="api"
        )
        content = {"task_id": erasure.erasure_id, "receipt": f"/v1/users/_erasures/{erasure.erasure_id}"}
        return success(content, self.deletion_message)

    async def receipt(self, request: ApiRequest) -> Reply:
        """Return the receipt of an erasure; its status is complete or not."""
        erasure = await self._erasures.receipt(request.app_id, request.ids["erasure_id"])
        return success(erasure.to_dict())

    def parse_delete(self, request: ApiRequest) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_user_delete(request.body)
