"""An audit log that tests look at."""

from __future__ import annotations

from cluster.records.administration import AuditRow


class AuditList:
    """An audit log in a list."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []

    async def append(self, row: AuditRow) -> AuditRow:
        """Keep a row."""
        self.rows.append(row)
        return row
