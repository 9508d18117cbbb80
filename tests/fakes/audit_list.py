"""An audit log that tests look at."""

from __future__ import annotations

from cluster.records.administration import AuditRow


class AuditList:
    """An audit log in a list."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []
        self.unfinished: dict[str, AuditRow] = {}

    async def begin(self, row: AuditRow) -> str:
        """Keep a change that was begun."""
        begun_id = f"b{len(self.rows)}-{len(self.unfinished)}"
        self.unfinished[begun_id] = row
        return begun_id

    async def append(self, row: AuditRow, *, begun_id: str = "", only_begun: bool = False) -> AuditRow:
        """Keep a row."""
        self.unfinished.pop(begun_id, None)
        self.rows.append(row)
        return row
