"""The Redis keys of erasures; what stands in `keys` holds for them."""

from __future__ import annotations


def erasure_order() -> str:
    """Hash `<app><0x1f><erasure id>` -> sealed JSON `ArchiveCaller`: erasures that are not done. Owner: who
    asks adds, the
    intake removes. The only key that names a person who is erased, and only until that is done."""
    return "kiosk:{erasure}:order"


def erasure(app: str) -> str:
    """Hash erasure_id -> sealed JSON `Erasure`: receipts, which name nobody. The newest 10,000."""
    return f"{{{app}}}:erasure"


def erasure_ids(app: str) -> str:
    """Sorted set erasure_id by created_at. As `erasure`."""
    return f"{{{app}}}:erasure-id"


def log_rewrite() -> str:
    """Hash: wanted, done (ms): when the last erasure asked for a new append-only file, and when one was written."""
    return "kiosk:{erasure}:log-rewrite"
