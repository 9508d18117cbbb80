"""Products: read bare unless the app asks for the envelope, and listed by type.

Source: reference 8.2; decision I6
"""

from __future__ import annotations

from cluster.errors import messages
from cluster.records.validation.deletes import parse_product_delete
from deployments.api.resources.records import Records
from deployments.edge.envelope import Reply, success_json, tag_of, tagged
from deployments.edge.request import Arrival


class Products(Records):
    """Endpoints 10 to 15."""

    noun = "product"
    id_field = "product_id"
    deleted_one = messages.SUCCESS
    deleted_many = messages.DELETED

    async def read(self, request: Arrival) -> Reply:
        """Answer with the product itself, or in the envelope if the app says so."""
        found = await self._stored(request)
        if request.credential.app.settings.product_envelope:
            return tagged(success_json(found))
        return Reply(200, found, etag=tag_of(found))

    def _type_of(self, request: Arrival) -> str | None:
        return request.query.get("type") or None

    def read_delete(self, request: Arrival) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_product_delete(request.body)
