"""The aggregation body and all replies.

Reply models document; replies themselves are written as bytes (`edge/envelope.py`), and the contract scenarios
hold the two together.

Source: reference 7, 8.1 to 8.4
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from cluster.records.deletes import MAX_ID, MAX_IDS
from deployments.api.wire.shared import Filter, Wire


def delete_schema(name: str, *, wrapped: bool) -> dict[str, Any]:
    """Describe a body that names what is to be deleted."""
    ids = {
        "type": "array",
        "maxItems": MAX_IDS,
        "items": {"type": "string", "minLength": 1, "maxLength": MAX_ID},
    }
    inner = {"type": "object", "required": [name], "properties": {name: ids}}
    return {"type": "object", "required": ["data"], "properties": {"data": inner}} if wrapped else inner


class Aggregate(Wire):
    """Which field to count."""

    field: Annotated[str, Field(min_length=1, max_length=512)]
    size: Annotated[int, Field(ge=1, le=10_000)] = 10
    include: Annotated[str, Field(max_length=1024)] | None = None
    exclude: Annotated[str, Field(max_length=1024)] | None = None
    fq: Filter | None = None


# --- replies ------------------------------------------------------------------------------------------------------


class Told(BaseModel):
    """A message and nothing else."""

    message: str


class NoDataSet(BaseModel):
    """The one 404 that repeats its status."""

    status_code: Literal[404]
    message: str


class Entry(BaseModel):
    """One thing that is wrong with a request."""

    loc: list[str | int]
    msg: str
    type: str


class Detail(BaseModel):
    """Everything that is wrong with a request."""

    detail: list[Entry]


class RefusedUpload(BaseModel):
    """An upload with schema errors; nothing was written."""

    errors: Literal[True]
    message: str
    data: list[str]


class TaskId(BaseModel):
    """Names the task of an upload or delete."""

    task_id: str


class PartialUpload(BaseModel):
    """An upload some of whose records failed alone."""

    errors: Literal[True]
    message: str
    data: list[str]
    task_id: str


class IdList(BaseModel):
    """All ids, sorted."""

    ids: list[str]


class TaskState(BaseModel):
    """What became of an upload or delete."""

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


class Counts(BaseModel):
    """The values of a field and how many records have them."""

    field: str
    total: int
    values: list[tuple[Any, int]]


class StoredUser(BaseModel):
    """A user as uploaded."""

    model_config = ConfigDict(extra="allow")

    user_id: str


class Shown(BaseModel):
    """A product in a reply: `product_id` and what was asked for."""

    model_config = ConfigDict(extra="allow")

    product_id: str


class CategoryGroup(BaseModel):
    """A category and its products."""

    category: list[str]
    total: int
    recommended_products: list[Shown]


class AttributeGroup(BaseModel):
    """A value of a field and its products."""

    value: Any
    total: int
    recommended_products: list[Shown]


class Found(BaseModel):
    """What every recommendation says beside its list. An app's own alias of `service_id` may stand beside it."""

    model_config = ConfigDict(extra="allow")

    took: int
    service_id: str


class FoundProducts(Found):
    """A list of products."""

    products: list[Shown]


class FoundCategories(Found):
    """A list of categories."""

    categories: list[CategoryGroup]


class FoundAttributes(Found):
    """A list of attribute values."""

    attributes: list[AttributeGroup]


def enveloped(data: Any) -> type[BaseModel]:
    """Make the model of `{message, data}`."""
    return create_model(f"{data.__name__}Reply", message=(str, ...), data=(data, ...))
