"""Promotions: which snapshot an engine served from when on, and who decided that."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Promotion(BaseModel):
    """One change of what serves; never altered afterwards."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    engine_id: str
    version: str
    "What serves from here on; empty: nothing that was learned."
    before: str = ""
    "What served until then."
    kind: Literal["promoted", "rolled_back"] = "promoted"
    at_ms: int = 0
    by: str = ""
    run_id: str = ""
    "The run that made the version."
    reason: str = ""
    "Why, where the gate was passed by force."
    forced: bool = False
    figures: dict[str, float] = Field(default_factory=dict)
