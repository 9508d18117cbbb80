"""Counts of rejected rows by reason, with an example for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jobs.ingest.validation import RejectedRow

MOST_REASONS = 200
"Different reasons that are counted apart; later ones are counted together."
SHOWN = 3
OTHER = "other reasons"


@dataclass(frozen=True, slots=True)
class RejectionReason:
    """One reason, how many rows it refused, and the first of them."""

    text: str
    count: int
    row: int
    "0-based number of the example in its file."
    example: str
    "Beginning of the example's row."


class ReasonCounter:
    """Counts refused rows by their reason, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, RejectedRow] = {}

    def add(self, refused: Iterable[RejectedRow]) -> None:
        """Count refused rows."""
        for one in refused:
            text = one.reason
            if text not in self._counts and len(self._counts) >= MOST_REASONS:
                text = OTHER
            self._counts[text] = self._counts.get(text, 0) + 1
            self._examples.setdefault(text, one)

    def most_frequent(self, most: int = SHOWN) -> tuple[RejectionReason, ...]:
        """Return the most frequent reasons in descending order."""
        ranked = sorted(self._counts.items(), key=lambda entry: -entry[1])[:most]
        return tuple(
            RejectionReason(text, count, self._examples[text].row, self._examples[text].text)
            for text, count in ranked
        )


def merge_reasons(
    parts: Iterable[Sequence[RejectionReason]], most: int = SHOWN
) -> tuple[RejectionReason, ...]:
    """Add up the reasons of several runs, the most frequent first."""
    found: dict[str, RejectionReason] = {}
    for reason in (reason for part in parts for reason in part):
        before = found.get(reason.text)
        found[reason.text] = reason if before is None else replace(before, count=before.count + reason.count)
    return tuple(sorted(found.values(), key=lambda reason: -reason.count)[:most])
