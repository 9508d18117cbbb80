"""One thing to change when a list is ranked again: without a rule, from another snapshot, with other weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Final

from typing_extensions import Self

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import UserQuery
from actors.recommender.state.engine_state import BlendWeights
from cluster.errors import Invalid

FORMS: Final = "no-rules, no-rule=NAME, no-exploration, snapshot=VERSION or weight.PART=NUMBER"
_LIVE: Final = frozenset(entry.name for entry in fields(BlendWeights))


@dataclass(frozen=True, slots=True)
class CounterfactualChange:
    """What differs from the list that was served."""

    without_rules: bool = False
    without_rule: str = ""
    without_exploration: bool = False
    snapshot: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    "Part of the snapshot, or live component, -> its weight."

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the change that a text names.

        Errors:
            Invalid: no such form
        """
        name, _, value = (part.strip() for part in text.partition("="))
        if name in ("no-rules", "no-exploration") and not value:
            return cls(without_rules=name == "no-rules", without_exploration=name == "no-exploration")
        if name == "no-rule" and value:
            return cls(without_rule=value)
        if name == "snapshot" and value:
            return cls(snapshot=value)
        if name.startswith("weight.") and value:
            try:
                return cls(weights={name.removeprefix("weight."): float(value)})
            except ValueError:
                pass
        raise Invalid(f"{text!r} is no change; use {FORMS}")

    def apply(self, query: UserQuery) -> UserQuery:
        """Return a query that stored rules changed, without the rules that the change leaves out.

        Errors:
            Invalid: the rule did not apply to the list
        """
        if not self.without_rules and not self.without_rule:
            return query
        names = {boost.name for boost in (*query.boosts, *query.removed)}
        if self.without_rule and self.without_rule not in names:
            raise Invalid(f"the rule {self.without_rule} did not apply to this list")
        # A boost without a name came with the request, so it is no stored rule and stays.
        is_kept = {
            name: bool(name) and not self.without_rules and name != self.without_rule for name in names
        } | {"": True}
        return replace(
            query,
            boosts=tuple(boost for boost in query.boosts if is_kept[boost.name]),
            removed=tuple(boost for boost in query.removed if is_kept[boost.name]),
        )

    @property
    def picks_state(self) -> bool:
        """Return whether another snapshot or other weights rank."""
        return bool(self.snapshot or self.weights)

    @property
    def live_weights(self) -> dict[str, float]:
        """Return the weights of live components."""
        return {name: weight for name, weight in self.weights.items() if name in _LIVE}

    def apply_to_blend(self, learned: LoadedSnapshot | None) -> LoadedSnapshot | None:
        """Return a snapshot with the weights of the change.

        Errors:
            Invalid: there is no such part
        """
        parts = [] if learned is None else list(learned.blend.parts)
        names = {part.name for part in parts}
        unknown = [name for name in self.weights if name not in names and name not in _LIVE]
        if unknown:
            choice = ", ".join(sorted(names | _LIVE))
            raise Invalid(f"there is no part {unknown[0]}; use {choice}")
        if learned is None:
            return None
        changed = [
            replace(
                part, weight=self.weights[part.name], weight_new=self.weights[part.name], weight_unseen=None
            )
            if part.name in self.weights
            else part
            for part in parts
        ]
        return replace(learned, blend=replace(learned.blend, parts=changed))
