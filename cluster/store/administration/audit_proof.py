"""Proofs of the audit log that a writer of Redis can't make: a key, and a file with the newest row.

    <data_dir>/audit.seal    id and chain of the newest row that a process of this machine appended, with a MAC

Each machine has a file of its own, and each file is a statement that stays true as long as no row is removed. So
machines need no agreement, a lost file loses only its statement, and a process that is killed between the append and
the file leaves an older true statement.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from cluster.crypto import Signer, Vault
from cluster.errors import Fault
from cluster.paths import write_private

SEAL_FILE = "audit.seal"
_CHAINS = "audit log chain"
_SEALS = "audit log seal"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SealedRow:
    """A row that was in the log."""

    row_id: str
    chain: str


class AuditProof:
    """Signs rows and seals the newest one in a file of this machine; `path` is None where there is no directory.

    `report` gets each row that this process appends.
    """

    def __init__(
        self, keys: Sequence[bytes], path: Path | None, report: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self._signer = Signer(tuple(keys))
        self._path = path
        self._report = report

    @classmethod
    def open(
        cls, vault: Vault, data_dir: Path | None, report: Callable[[dict[str, Any]], None] | None = None
    ) -> AuditProof:
        """Return the proofs of an installation; those under previous master keys hold too."""
        return cls(vault.derive_all("audit log"), None if data_dir is None else data_dir / SEAL_FILE, report)

    def sign(self, chain: str) -> str:
        return self._signer.sign(_CHAINS, chain.encode())

    def is_genuine(self, chain: str, proof: str) -> bool:
        """Return whether a process with the key made the proof of a row."""
        return bool(proof) and self._signer.verify(_CHAINS, chain.encode(), proof.encode("utf-8", "replace"))

    def sealed(self) -> SealedRow | None:
        """Return the sealed row; None without a file.

        Errors:
            Fault: the file was changed, or belongs to another master key
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            value = orjson.loads(self._path.read_bytes())
            row = SealedRow(str(value["row_id"]), str(value["chain"]))
            mac = str(value["mac"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Fault(f"the seal of the audit log can't be read: {self._path}") from error
        # Without the MAC, a person who removes rows could put an older row into the file.
        if not self._signer.verify(_SEALS, _text(row), mac.encode()):
            raise Fault(f"the seal of the audit log was changed, or has another master key: {self._path}")
        return row

    def seal(self, row_id: str, chain: str) -> None:
        """Seal a row, unless a newer one is sealed; a file that can't be written is reported, and stays older."""
        if self._path is None:
            return
        try:
            with _locked(self._path):
                # A seal that can't be read does not count as a newer one.
                with contextlib.suppress(Fault):
                    before = self.sealed()
                    if before is not None and _order(before.row_id) >= _order(row_id):
                        return
                self._write(SealedRow(row_id, chain))
        except OSError as error:
            _log.warning("audit_seal_not_written", error=str(error))

    def renew(self) -> None:
        """Sign the seal with the current master key; a file that can't be written is reported, and stays.

        Errors:
            Fault: the file was changed, or belongs to another master key
        """
        if self._path is None:
            return
        try:
            # Read under the lock: another process may seal a newer row meanwhile.
            with _locked(self._path):
                row = self.sealed()
                if row is not None:
                    self._write(row)
        except OSError as error:
            _log.warning("audit_seal_not_written", error=str(error))

    def report(self, row: dict[str, Any]) -> None:
        """Hand a row over to collectors of logs."""
        if self._report is not None:
            self._report(row)

    def _write(self, row: SealedRow) -> None:
        assert self._path is not None
        mac = self._signer.sign(_SEALS, _text(row))
        write_private(self._path, orjson.dumps({**asdict(row), "mac": mac}).decode() + "\n")


def report_to_log(row: dict[str, Any]) -> None:
    """Write a row of the audit log as a line of this process's log, for collectors."""
    _log.info("audit_row", row=row)


def _text(row: SealedRow) -> bytes:
    return f"{row.row_id} {row.chain}".encode()


def _order(row_id: str) -> tuple[int, ...]:
    return tuple(int(part) for part in row_id.split("-") if part.isdigit())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    # A file beside the seal: the seal itself is replaced by a rename, and its lock would go with it.
    handle = os.open(path.with_name(path.name + ".lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
