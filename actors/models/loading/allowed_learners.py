"""The list of custom learner classes that may run in this process.

A learner class runs with all rights of the process that imports it. Therefore no manifest in the artifact
store, and no recipe, run or schedule in Redis decides which classes are imported. Only the list of the
installation does (`kiosk learners`). This module imports nothing large, because processes that only forward
runs use it too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from cluster.errors import Invalid

ReadAllowedList = Callable[[], Collection[str]]
"Returns the current list: classes as `package.module:Class`."


class AllowedLearners:
    """The allowed classes of one process. The list is empty until `set_source`."""

    def __init__(self) -> None:
        self._read: ReadAllowedList = tuple

    def set_source(self, read: ReadAllowedList) -> None:
        """Set the function that reads the list. Every check calls it, so a change needs no restart."""
        self._read = read

    def names(self) -> tuple[str, ...]:
        """Return the classes on the list, sorted."""
        return tuple(sorted(self._read()))

    def check(self, learner: str) -> None:
        """Check that a class is on the list.

        Errors:
            Invalid: the class is not on the list; the message shows how to allow it
        """
        # Before the import, which already runs the code of the module (decision 16).
        if learner not in self._read():
            raise Invalid(
                f"learner {learner[:200]} is not allowed in this installation and was not imported; if you trust "
                f"its code, allow it: kiosk learners allow {learner[:200]}"
            )

    def check_recipe(self, recipe: Mapping[str, Any]) -> None:
        """Check that all custom classes of a recipe are on the list.

        Errors:
            Invalid: a class is not on the list; the message shows how to allow it
        """
        parts = recipe.get("parts")
        for part in parts.values() if isinstance(parts, Mapping) else ():
            learner = part.get("learner") if isinstance(part, Mapping) else None
            if isinstance(learner, str) and ":" in learner:
                self.check(learner)


ALLOWED: Final = AllowedLearners()
"""The list of this process, empty by default. A global, because a parameter could be left out of a call, and then
nothing must be imported."""
