"""The bodies and replies of records and interactions, and the replies of recommendations.

The reply models only document replies. `edge/http/replies.py` writes replies as bytes, and the contract scenarios
check them against the models.

Published in `docs/reference/rest.md`, sections Users, Products and Interactions.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from cluster.records.erasure import ErasedPlace
from cluster.records.validation.deletes import MAX_ID, MAX_IDS
from deployments.api.wire.query_bodies import Filter, RequestModel, Warnings


def build_delete_schema(name: str, *, wrapped: bool) -> dict[str, Any]:
    """Return the schema of a body with the ids to delete."""
    ids = {
        "type": "array",
        "maxItems": MAX_IDS,
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_ID},
    }
    inner = {"type": "object", "required": [name], "properties": {name: ids}}
    return {"type": "object", "required": ["data"], "properties": {"data": inner}} if wrapped else inner


class AggregateBody(RequestModel):
    """Which field to count."""

    field: Annotated[str, Field(min_length=1, max_length=512)]
    size: Annotated[int, Field(ge=1, le=10_000)] = 10
    include: Annotated[str, Field(max_length=1024)] | None = None
    exclude: Annotated[str, Field(max_length=1024)] | None = None
    fq: Filter | None = None


class MessageReply(BaseModel):
    """A message."""

    message: str


class NoDataSet(BaseModel):
    """The one 404 that repeats its status."""

    status_code: Literal[404]
    message: str


class FaultPart(BaseModel):
    """One fault of a request."""

    loc: list[str | int]
    msg: str
    type: str


class Detail(BaseModel):
    """The faults of a request."""

    detail: list[FaultPart]


class RecordFaults(BaseModel):
    """Everything that is wrong with one record of an upload."""

    index: int | None = Field(
        None, description="Position of the record in the request, from 0. Absent for the whole request."
    )
    messages: list[str] = Field(description="One message for each fault, in the form of `data`.")
    more: int | None = Field(None, description="How many messages are left out; absent when all are here.")
    hint: str | None = Field(
        None, description="The form that a value should have; absent when there is nothing to add."
    )


_DETAILS = (
    "All messages of each bad record, only when one of them has several or a hint; `data` has the first one of each "
    "record. At most 20 messages of a record and 1,000 in all."
)


class RefusedUpload(BaseModel):
    """An upload with invalid records. Nothing was written."""

    errors: Literal[True]
    message: str
    data: list[str]
    details: list[RecordFaults] | None = Field(None, description=_DETAILS)


class TaskId(BaseModel):
    """The task of an upload or delete."""

    task_id: str


class PartialUpload(BaseModel):
    """An upload of which some records were not written."""

    errors: Literal[True]
    message: str
    data: list[str]
    task_id: str
    details: list[RecordFaults] | None = Field(None, description=_DETAILS)


class UploadWarning(BaseModel):
    """Something in an upload that is allowed and most probably a mistake."""

    index: int | None = Field(
        None, description="Position of the record in the request, from 0. Absent for the whole request."
    )
    field: str = Field(description="The field that is probably wrong.")
    message: str = Field(description="What is probably wrong with it.")


class UploadedInteractions(BaseModel):
    """Interactions were taken."""

    message: str
    warnings: list[UploadWarning] | None = Field(
        None,
        description="Only when there is something to warn of; at most 20: times more than a day ahead, products that "
        "do not exist, with a secret key interactions without a user, and a secret key in the address.",
    )


class IdList(BaseModel):
    """All ids, sorted."""

    ids: list[str]


class TaskState(BaseModel):
    """The progress of an upload or delete."""

    task_id: str
    type: Literal["upload", "delete"]
    status: Literal["queued", "running", "finished", "failed"]
    total: int
    succeeded: int
    failed: int
    errors: list[str]
    created_at: str | None
    finished_at: str | None


class TaskReply(BaseModel):
    """The envelope of a task's state."""

    message: str
    took: int
    errors: bool
    code: Literal[200, 202, 500]
    data: TaskState


class ErasureReceipt(BaseModel):
    """Where data of a person was found, and what is left until when. It names nobody."""

    erasure_id: str
    app_id: str
    subject: str
    request_id: str
    by: str
    status: Literal["queued", "running", "finished"]
    created_at: str
    finished_at: str | None
    later: bool
    places: list[ErasedPlace]
    left: int


class Counts(BaseModel):
    """The values of a field and how many records have them."""

    field: str
    total: int
    values: list[tuple[Any, int]]


class StoredUser(BaseModel):
    """A user as uploaded."""

    model_config = ConfigDict(extra="allow")

    user_id: str


class ProductPart(BaseModel):
    """A product: `product_id` and the fields that `fl` names."""

    model_config = ConfigDict(extra="allow")

    product_id: str


class Recommended(ProductPart):
    """A recommended product. `fl` chooses stored fields; fields that begin with `_` come always."""

    personalization_score: Annotated[float, Field(ge=0, le=1, alias="_personalization_score")]
    boosted: bool | None = Field(None, alias="_boosted", description="Only when something was boosted.")
    boosted_rules: list[str] | None = Field(
        None, alias="_boosted_rules", description="Names of the rules that match."
    )
    explain: dict[str, Any] | None = Field(
        None,
        alias="_explain",
        description="An addition of this service, with `explain`: `came_from`, `score`, `score_parts` (they sum to "
        "the score), `rank`, `place` and `moves` (`by`, `from`, `to`).",
    )


class Missing(BaseModel):
    """Why a product is not in the answer."""

    product_id: str
    reasons: list[dict[str, Any]] = Field(
        description="Each has a `reason`: returned, unknown, too_new, out_of_stock, filtered (`by`, `clause`), "
        "excluded, anchor, seen, shown_before, same_group (`as`), below_the_cut (`rank`, `score`) or no_candidate."
    )


class Explanation(BaseModel):
    """An addition of this service, with `explain`: what applied to the whole answer, and what is missing."""

    served_by: str
    rules: list[dict[str, str]]
    missing: list[Missing]


class CategoryGroup(BaseModel):
    """A category and its products."""

    category: list[str]
    total: int
    recommended_products: list[Recommended]


class AttributeGroup(BaseModel):
    """A value of a field and its products."""

    value: Any
    total: int
    recommended_products: list[Recommended]


class RecommendationReplyFields(BaseModel):
    """What every recommendation says beside its list. An app's own alias of `service_id` may stand beside it."""

    model_config = ConfigDict(extra="allow")

    took: int
    service_id: str
    explanation: Explanation | None = None
    warnings: Warnings = None
    anchor_found: bool | None = Field(
        None,
        description="false: no product that was named exists, so the list is what the user likes anyway.",
    )


class ProductsReply(RecommendationReplyFields):
    """A list of products."""

    products: list[Recommended]


class CategoriesReply(RecommendationReplyFields):
    """A list of categories."""

    categories: list[CategoryGroup]


class AttributesReply(RecommendationReplyFields):
    """A list of attribute values."""

    attributes: list[AttributeGroup]


@cache
def build_envelope(data: Any) -> type[BaseModel]:
    """Return the model of `{message, data}`.

    The OpenAPI document publishes its name: `ProductReply`, or `AnswersEnvelope` if the data are `AnswersReply`.
    """
    name = str(data.__name__)
    return create_model(
        f"{name.removesuffix('Reply')}Envelope" if name.endswith("Reply") else f"{name}Reply",
        __doc__="The answer to a call that succeeded.",
        message=(str, ...),
        data=(data, ...),
    )
