"""The body of a bulk call and its reply.

Published in `docs/reference/rest.md`, section Bulk.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MOST_REQUESTS = 100


class BulkItem(BaseModel):
    """One query: an endpoint and its body."""

    model_config = ConfigDict(extra="ignore", strict=True)

    api_name: Annotated[str, Field(max_length=200, pattern=r"^[^/]+/[^/]+$")]
    "The path without `/v1/`."
    body: Any = Field(default_factory=dict)


class Bulk(BaseModel):
    """A list of queries."""

    model_config = ConfigDict(extra="ignore", strict=True)

    requests: Annotated[list[BulkItem], Field(min_length=1, max_length=MOST_REQUESTS)]


class BulkEntry(BaseModel):
    """The answer to one query of the list."""

    error: bool
    status_code: int
    body: Any
    retry_after_s: int | None = Field(
        None,
        description="Only when the request was refused for now: seconds to wait before it is sent again.",
    )


class BulkReply(BaseModel):
    """All answers, in the order of the requests."""

    errors: bool
    data: list[BulkEntry]
