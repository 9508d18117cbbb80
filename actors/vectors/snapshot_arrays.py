"""The saved state of one part of a snapshot: named arrays, and facts that fit JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from cluster.errors import Fault

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ModelState:
    """The saved state of a model: named arrays without objects, and facts that fit JSON."""

    arrays: Mapping[str, Array]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def array(self, name: str) -> Array:
        """Return one array by name.

        Shapes:
            returns: any dtype and shape
        Errors:
            Fault: there is no array of that name
        """
        if name not in self.arrays:
            raise Fault(f"the saved model has no array {name!r}; it has {', '.join(sorted(self.arrays))}")
        return self.arrays[name]
