"""The body of text generation, as far as the interface says what it is.

Published in `docs/reference/rest.md`, section Generation.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.config import JsonDict

from deployments.api.wire.faults import build_error

NOTHING_TO_DO = "one of template, instructions, task_id is required"
_ONE_OF: JsonDict = {"anyOf": [{"required": [name]} for name in ("template", "instructions", "task_id")]}


class Generation(BaseModel):
    """What to generate. `null` equals absence."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_ONE_OF)

    template: Any = None
    instructions: Any = None
    task_id: Any = None

    @model_validator(mode="after")
    def _has_something_to_do(self) -> Generation:
        if self.template is None and self.instructions is None and self.task_id is None:
            raise build_error(NOTHING_TO_DO)
        return self


class GenerationReply(BaseModel):
    """Generated text. Its fields are not settled."""

    model_config = ConfigDict(extra="allow")
