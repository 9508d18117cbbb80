"""Define the protocol by which indexes read an app's products: rows, ids and records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from actors.vectors.types import Mask


class ProductRows(Protocol):
    """The rows of an app's products. A row is a position that a product keeps; a row may have no product.

    Shapes:
        present: bool [n], True where a row has a product
    """

    product_ids: list[str]

    @property
    def present(self) -> Mask: ...

    def __len__(self) -> int:
        """Count rows, those without a product included."""
        ...

    def record(self, row: int) -> Mapping[str, Any]:
        """Read the product of a row; empty when the row has none."""
        ...
