"""That a person met an experiment: which variant, since when, through what.

    packed      variant id, at, mark, through, device, person; between them the unit separator
    person      the first reader id somebody was known as here: whoever else they turn out to be carries it on, so
                one person counts once however many ids they have

Source: the form is ours; the store's scripts read the first and the last part.
"""

from __future__ import annotations

from dataclasses import dataclass

_BETWEEN = "\x1f"
_MARKS = {"": "", "f": "forced"}


@dataclass(frozen=True, slots=True)
class Exposure:
    """The first exposure of a person to a variant."""

    variant_id: str
    at_ms: int
    forced: bool = False
    "Somebody asked for this variant by name: no evidence of anything."
    through: str = "event"
    "What it was met through: `event`, or the kind of a recommendation."
    device: str = ""
    person: str = ""

    def pack(self) -> str:
        """Return the packed form.

        Cost:
            0.5 us
        """
        mark = "f" if self.forced else ""
        parts = (self.variant_id, str(self.at_ms), mark, self.through, self.device, self.person)
        return _BETWEEN.join(parts)

    @classmethod
    def unpack(cls, packed: str) -> Exposure | None:
        """Return the exposure of a packed form; None for other texts."""
        parts = packed.split(_BETWEEN, 5)
        if len(parts) < 6 or not parts[0] or parts[2] not in _MARKS or not parts[1].isdecimal():
            return None
        variant_id, at, mark, through, device, person = parts
        return cls(variant_id, int(at), bool(mark), through, device, person)
