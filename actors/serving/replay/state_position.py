"""Which state of an app ranked a list, read from the log of answers (`Overlay.position`)."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Self

from actors.serving.replay.state_replay import pack_offset
from cluster.errors import Invalid


@dataclass(frozen=True, slots=True)
class StatePosition:
    """Positions in the change log: of the load of a replica, of the signals of the whole app, and of the state."""

    loaded_products: int
    loaded_interactions: int
    signal_products: int
    signal_interactions: int
    products: int
    interactions: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the state of a text of the log.

        Errors:
            Invalid: another release wrote it
        """
        newest, _, signals = text.partition(" ")
        try:
            loaded_products, loaded_interactions, products, interactions, _ = map(
                pack_offset, newest.split(",")
            )
            _, _, signal_products, signal_interactions, _ = map(pack_offset, (signals or newest).split(","))
        except ValueError as error:
            raise Invalid("another release wrote the state of this answer") from error
        return cls(
            loaded_products, loaded_interactions, signal_products, signal_interactions, products, interactions
        )

    @property
    def order(self) -> tuple[int, ...]:
        """Return the key that sorts states so that each one follows those before, where that is possible."""
        return (
            self.loaded_products,
            self.loaded_interactions,
            self.products,
            self.interactions,
            self.signal_products,
            self.signal_interactions,
        )

    @property
    def load(self) -> tuple[int, int]:
        """Return the position of the load of the replica."""
        return self.loaded_products, self.loaded_interactions

    @property
    def signals(self) -> tuple[int, int]:
        """Return the position of the signals of the whole app."""
        return self.signal_products, self.signal_interactions

    def follows(self, other: StatePosition, *, is_signed: bool) -> bool:
        """Return whether applying changes to another state reaches this one, signals and priors included.

        `is_signed`: the other state has the priors of all snapshots that this one needs.
        """
        has_signals = (is_signed and self.signals == other.signals) or (
            self.signal_products >= other.products and self.signal_interactions >= other.interactions
        )
        return (
            self.load == other.load
            and has_signals
            and self.products >= other.products
            and self.interactions >= other.interactions
        )
