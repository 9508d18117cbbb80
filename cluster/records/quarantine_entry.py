"""One thing that was set aside because it was damaged, refused late or could not be applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["store", "ingest"]

ABOUT = "about.json"
"File beside the refused rows of an ingest: its app, its noun and when it began."


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """What was set aside, why and when."""

    entry_id: str
    "Of the store `<ms>-<n>`, of an ingest `<run>:<line>`."
    source: Source
    app_id: str
    "Empty: it belongs to no app, or the ingest of an earlier release did not note it."
    kind: str
    "`record`, `batch`, `change`, `erasure`, or `row` of an ingest."
    noun: str
    name: str
    "Id of the record, task, change or field; of a row its file and number."
    reason: str
    at: int
    "Milliseconds since 1970."
    payload: bytes
    "What was set aside, or its beginning."
    is_damaged: bool = False
    "Its checksum does not match: the payload may say something else than what was stored."

    def to_dict(self) -> dict[str, Any]:
        """Describe it as JSON, without the payload."""
        return {
            "id": self.entry_id, "source": self.source, "app_id": self.app_id, "kind": self.kind, "noun": self.noun,
            "name": self.name, "reason": self.reason, "at": self.at, "bytes": len(self.payload),
            "is_damaged": self.is_damaged,
        }  # fmt: skip
