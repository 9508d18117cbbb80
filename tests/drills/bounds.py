"""Bounds of the reliability text beside the figures of a drill.

Some bounds cannot be told from noise on a small machine that carries service, load and fault at once: there a drill
holds to an allowance of its own, which its docstring names. Whether the text's bound was kept is said all the same,
in the drill's line and once more at the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OF_THE_TEXT, KEPT, MISSED = "bound of the text", "kept", "MISSED"


@dataclass(frozen=True)
class Bounds:
    """What one drill says of the text's bounds; `record` keeps it for the end of the run."""

    record: Callable[[str, object], None]

    def at_most(self, name: str, figure: float, bound: float) -> str:
        """Compare a figure with a bound of the text; return the words for the drill's line."""
        verdict = KEPT if figure <= bound else MISSED
        line = f"{name}: {figure:.2f} of at most {bound:.2f}: {verdict}"
        self.record(OF_THE_TEXT, line)
        return f"{OF_THE_TEXT}: {line}"
