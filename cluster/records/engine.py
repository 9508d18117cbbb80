"""Engines: named recommenders of an app."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Placement = Literal["door", "own"]


class Engine(BaseModel):
    """A named recommender and where it lives (decision S4)."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    engine_id: str
    placement: Placement = "door"
    "`door`: inside the replica that answers HTTP. `own`: a Serve deployment of its own."
    snapshot: str = ""
    "Version on the shelf that serves, empty before the first training."
    created_at: int = 0
