"""The versions of stored boost rules: who changed which rule when, and how the rule was before and after."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from cluster.records.boost_rule import BoostRule

RuleChange = Literal["put", "delete", "order", "undo", "restore"]


class RuleVersion(BaseModel):
    """One change of one rule."""

    model_config = ConfigDict(frozen=True)

    version_id: str = ""
    "Set by the store; versions are ordered by it."
    at: int
    "Milliseconds since 1970."
    username: str
    change: RuleChange
    engine_id: str
    name: str
    before: BoostRule | None = None
    "None: the rule is new."
    after: BoostRule | None = None
    "None: the rule was deleted."
