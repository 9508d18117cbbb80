"""Users: `no such index` before the first upload; and their erasure everywhere.

    DELETE /v1/users/{user_id}                      the profile goes
    DELETE /v1/users/{user_id}?everything=true      everything known of the person goes, with a receipt
    GET    /v1/users/_erasures/{task_id}            the receipt, complete or not

Source: reference 8.1
"""

from __future__ import annotations

from collections.abc import Callable

from actors.intake.client import Erasures
from cluster.clock import Clock
from cluster.errors import messages
from cluster.ids import TaskId
from cluster.records.validation.deletes import parse_user_delete
from cluster.store.ports.stores import Stores
from deployments.api.resources.records import RecordsResource
from deployments.edge.envelope import Reply, success
from deployments.edge.request import ApiRequest


class UsersResource(RecordsResource):
    """Endpoints 3 to 8."""

    noun = "user"
    id_field = "user_id"
    delete_one_message = messages.DELETED
    delete_many_message = messages.SUCCESS

    def __init__(self, stores: Stores, clock: Clock, new_task_id: Callable[[], TaskId]) -> None:
        super().__init__(stores, clock, new_task_id)
        self._erasures = Erasures(stores, clock)

    async def _missing_error(self, app_id: str) -> str:
        if await self._stores.records.seen(app_id, self.noun):
            return messages.NOT_FOUND
        return messages.NO_SUCH_INDEX

    async def delete_one(self, request: ApiRequest) -> Reply:
        """Queue the delete of a profile, or order that the person is forgotten everywhere."""
        if request.query.get("everything", "").lower() not in ("1", "true"):
            return await super().delete_one(request)
        erasure = await self._erasures.order(
            request.app_id, user_id=request.parsed, request_id=request.request_id, by="api"
        )
        told = {"task_id": erasure.erasure_id, "receipt": f"/v1/users/_erasures/{erasure.erasure_id}"}
        return success(told, self.delete_one_message)

    async def receipt(self, request: ApiRequest) -> Reply:
        """Answer with the receipt of an erasure; its status says whether it is complete."""
        erasure = await self._erasures.receipt(request.app_id, request.ids["erasure_id"])
        return success(erasure.to_dict())

    def read_delete(self, request: ApiRequest) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_user_delete(request.body)
