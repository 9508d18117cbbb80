"""Which learner classes of yours may run in this process.

A learner class runs with all rights of the process that imports it. So neither a manifest on the artifact store nor a
recipe, run or schedule in Redis decides what is imported: the installation's own list does (`kiosk learners`).
Imports nothing heavy: processes that only pass runs on ask here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from cluster.errors import Invalid

ReadAllowedList = Callable[[], Collection[str]]
"Reads the list as it is now: classes as `package.module:Class`."


class AllowedLearners:
    """The list, as one process knows it; empty until the start of the process says where it stands."""

    def __init__(self) -> None:
        self._read: ReadAllowedList = tuple

    def set_source(self, read: ReadAllowedList) -> None:
        """Set where the list stands; it is read again at every check, so a change needs no restart."""
        self._read = read

    def check(self, learner: str) -> None:
        """Refuse a class that is not on the list.

        Errors:
            Invalid: it is not; says how to allow it
        """
        if learner not in self._read():
            raise Invalid(
                f"learner {learner[:200]} is not allowed in this installation and was not imported; if you trust "
                f"its code, allow it: kiosk learners allow {learner[:200]}"
            )

    def check_recipe(self, recipe: Mapping[str, Any]) -> None:
        """Refuse a recipe that names a class which is not on the list.

        Errors:
            Invalid: it does; says how to allow the class
        """
        parts = recipe.get("parts")
        for part in parts.values() if isinstance(parts, Mapping) else ():
            learner = part.get("learner") if isinstance(part, Mapping) else None
            if isinstance(learner, str) and ":" in learner:
                self.check(learner)


ALLOWED: Final = AllowedLearners()
"""One for the process, and closed by default: a permission that is handed from call to call is forgotten somewhere,
and what forgets it must import nothing."""
