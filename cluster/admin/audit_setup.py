"""Opens the audit log of a process that has the master key: its rows are proven and sealed from then on."""

from __future__ import annotations

import structlog

from cluster.admin.master_keys import open_vault
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.errors import Fault, KioskError
from cluster.paths import InstallationPaths
from cluster.records.administration import AuditRow
from cluster.settings import Settings
from cluster.store.administration.audit import AuditLog
from cluster.store.administration.audit_proof import AuditProof, report_to_log

FIRST_PROVEN = "audit.prove"
"Operation of the row from which on rows carry proofs."

_log = structlog.get_logger()


def protect_audit_log(audit: AuditLog, settings: Settings) -> Vault:
    """Prove the rows that this process appends; return the vault."""
    vault = open_vault(settings)
    audit.protect(AuditProof.open(vault, InstallationPaths.from_data_dir(settings.data_dir).data_dir))
    return vault


async def start_audit_log(audit: AuditLog, settings: Settings, clock: Clock) -> Vault:
    """Do the same for an API replica: rows also become lines of its log, and the log has a proven row.

    So the log of an installation is never empty. A store that refuses the row does not prevent the start.

    Errors:
        Fault: there is no master key, or it is damaged
    """
    vault = open_vault(settings)
    data_dir = InstallationPaths.from_data_dir(settings.data_dir).data_dir
    proof = AuditProof.open(vault, data_dir, report_to_log)
    audit.protect(proof)
    try:
        if not await audit.has_proof():
            await audit.append(
                AuditRow(
                    at=clock.now_ms(),
                    user_id="",
                    username="operator",
                    way="command line",
                    operation=FIRST_PROVEN,
                    outcome="done",
                )
            )
        proof.renew()
    except (KioskError, Fault) as error:
        _log.warning("audit_not_proven", reason=error.message)
    return vault
