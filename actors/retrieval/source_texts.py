"""Many texts as uploaded, in one array of bytes that can be mapped from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.vectors.types import Rows


@dataclass(frozen=True, slots=True)
class SourceTexts:
    """Texts by number.

    Shapes:
        blob: uint8 [b], UTF-8; ends: int64 [n + 1], where each text begins and the last one ends
    """

    blob: npt.NDArray[np.uint8]
    ends: Rows

    @classmethod
    def of(cls, texts: Iterable[str]) -> SourceTexts:
        """Join texts; lone surrogates are kept."""
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=ends[1:])
        return cls(np.frombuffer(b"".join(pieces), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, text: int) -> str:
        encoded: bytes = self.blob[int(self.ends[text]) : int(self.ends[text + 1])].tobytes()
        return encoded.decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[text] for text in range(len(self)))
