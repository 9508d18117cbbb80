"""Units of fields, for what reads and shows them: command line, forms and reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from cluster.records.field_types.times import LATEST_MS


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number."""

    name: Literal["moment", "share"]
    """
    moment  milliseconds since 1970; people read and write ISO 8601
    share   0 to 1; forms read and write percent
    """


Moment = Annotated[int, Field(ge=0, le=LATEST_MS), Unit("moment")]
Share = Annotated[float, Unit("share")]
