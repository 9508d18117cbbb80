"""The audit log in a backup: its newest row stands in the signed manifest, and a restore is a row of the log."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.backup.catalogue import AuditPosition, BackupFacts
from cluster.errors import Fault
from cluster.records.administration import AuditRow
from cluster.store import keys
from cluster.store.administration.audit import AuditLog
from cluster.store.administration.audit_chain import RESTORE
from cluster.store.client.key_loader import KeyPart
from cluster.store.client.replies import split_pairs, text_of


def find_audit_position(parts: Iterable[KeyPart]) -> AuditPosition:
    """Return the newest row of the audit log among the keys of a backup."""
    name = keys.audit_row().encode()
    newest = AuditPosition()
    for part in parts:
        if part.key == name and part.items:
            row_id, fields = part.items[-1]
            values = dict(split_pairs(fields))
            newest = AuditPosition(text_of(row_id), text_of(values.get(b"chain", b"")))
    return newest


async def record_restore(audit: AuditLog, facts: BackupFacts, now_ms: int) -> None:
    """Check that the restored log has the newest row of the backup, and append the row of the restore.

    The row lets every machine accept that the log is older than the row it sealed.

    Errors:
        Fault: the restored log is not the one that was backed up
    """
    chains = [row.chain async for row in audit.rows()]
    if facts.audit.chain and facts.audit.chain not in chains:
        raise Fault("the restored audit log lacks the newest row that the backup's manifest names")
    await audit.append(
        AuditRow(
            at=now_ms,
            user_id="",
            username="operator",
            way="command line",
            operation=RESTORE,
            outcome="done",
            arguments={"backup": facts.backup_id, "rows": len(chains), "last_chain": facts.audit.chain},
        )
    )
