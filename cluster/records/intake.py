"""Records of the intake: tasks, the outcomes of accepted uploads, and entries in quarantine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Noun = Literal["user", "product", "interaction"]

Op = Literal["put", "remove", "erase"]


TaskStatus = Literal["queued", "running", "finished", "failed"]


class Task(BaseModel):
    """Progress of one upload or delete, kept for 24 hours."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    noun: str
    type: Literal["upload", "delete"]
    status: TaskStatus
    total: int
    succeeded: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()
    "One message per failed record, in the upload grammar."
    created_at: int = 0
    finished_at: int | None = None


Source = Literal["store", "ingest"]

ABOUT = "about.json"
"File beside the refused rows of an ingest: its app, its record type and its start time."


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A quarantined value, with reason and time."""

    entry_id: str
    "Of the store `<ms>-<n>`, of an ingest `<run>:<line>`."
    source: Source
    app_id: str
    "Empty: it belongs to no app, or the ingest of an earlier release did not note it."
    kind: str
    "`record`, `batch`, `change`, `erasure`, or `row` of an ingest."
    noun: str
    name: str
    "Id of the record, task, change or field; for a row, its file and number."
    reason: str
    at: int
    "Milliseconds since 1970."
    payload: bytes
    "The quarantined value, or its beginning."
    is_damaged: bool = False
    "Its checksum does not match: the payload may differ from the stored value."

    def to_dict(self) -> dict[str, Any]:
        """Describe it as JSON, without the payload."""
        return {
            "id": self.entry_id,
            "source": self.source,
            "app_id": self.app_id,
            "kind": self.kind,
            "noun": self.noun,
            "name": self.name,
            "reason": self.reason,
            "at": self.at,
            "bytes": len(self.payload),
            "is_damaged": self.is_damaged,
        }
