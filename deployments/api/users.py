"""Users: `no such index` before the first upload.

Source: reference 8.1
"""

from __future__ import annotations

from cluster.errors import messages
from cluster.records.deletes import parse_user_delete
from deployments.api.records import Records
from deployments.edge.arrival import Arrival


class Users(Records):
    """Endpoints 3 to 8."""

    noun = "user"
    id_field = "user_id"
    deleted_one = messages.DELETED
    deleted_many = messages.SUCCESS

    async def _why_not(self, app_id: str) -> str:
        if await self._stores.records.seen(app_id, self.noun):
            return messages.NOT_FOUND
        return messages.NO_SUCH_INDEX

    def read_delete(self, request: Arrival) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_user_delete(request.body)
