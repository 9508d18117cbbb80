"""Products: read bare unless the app asks for the envelope, and listed by type.

Source: reference 8.2; decision I6
"""

from __future__ import annotations

from cluster.errors import messages
from cluster.records.validation.deletes import parse_product_delete
from deployments.api.resources.records import RecordsResource
from deployments.edge.envelope import Reply, compute_etag, success_json, with_etag
from deployments.edge.request import ApiRequest


class ProductsResource(RecordsResource):
    """Endpoints 10 to 15."""

    noun = "product"
    id_field = "product_id"
    delete_one_message = messages.SUCCESS
    delete_many_message = messages.DELETED

    async def read(self, request: ApiRequest) -> Reply:
        """Answer with the product itself, or in the envelope if the app says so."""
        found = await self._stored(request)
        if request.credential.app.settings.product_envelope:
            return with_etag(success_json(found))
        return Reply(200, found, etag=compute_etag(found))

    def _type_of(self, request: ApiRequest) -> str | None:
        return request.query.get("type") or None

    def read_delete(self, request: ApiRequest) -> list[str]:
        """Validate the body of a bulk delete."""
        return parse_product_delete(request.body)
