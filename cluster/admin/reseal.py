"""Sealing with the current master key what a previous one sealed: API keys, second factors, manifests.

Every step replaces one value that both keys can read, unless it changed since it was read. So the installation serves
meanwhile, nothing that was revoked or removed comes back, and an interrupted run is repeated. What opens under none of
the keys stays as it is: it was never accepted, and a reseal makes nothing valid.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from cluster.admin.master_keys import derive_manifest_keys
from cluster.admin.second_factor import SecondFactors
from cluster.artifacts.signing import resign_manifests
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup_pace import Progress, ignore_progress
from cluster.crypto import Signer, Vault
from cluster.errors import Fault
from cluster.records.api_keys import reseal_key
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.apps_and_keys import AppAndKeyStore

_PASSES = 5


@dataclass(frozen=True, slots=True)
class ResealResult:
    """What was sealed anew, or with `dry_run` would be."""

    api_keys: int = 0
    second_factors: int = 0
    manifests: int = 0
    newer: int = 0
    "API keys that only a newer release can read; it must reseal them."
    skipped: tuple[str, ...] = ()
    "What opens under none of the keys, or is damaged; it stays as it is."
    is_settled: bool = True
    "Whether the last pass found nothing to seal."

    @property
    def count(self) -> int:
        return self.api_keys + self.second_factors + self.manifests

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is sealed with a previous key any more."""
        return self.is_settled and not self.newer

    def to_text(self) -> str:
        """Return the counts as words."""
        newer = f", {self.newer} API keys of a newer release" if self.newer else ""
        return f"{self.api_keys} API keys, {self.second_factors} second factors, {self.manifests} manifests{newer}"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "api_keys": self.api_keys,
            "second_factors": self.second_factors,
            "manifests": self.manifests,
            "newer": self.newer,
            "skipped": list(self.skipped),
            "complete": self.is_complete,
        }


class MasterKeyReseal:
    """Reseals an installation with the current key of a vault; it may be interrupted and repeated."""

    def __init__(
        self,
        access: AppAndKeyStore,
        accounts: AccountStore,
        artifacts: ArtifactStore,
        vault: Vault,
        progress: Progress = ignore_progress,
    ) -> None:
        self._access = access
        self._accounts = accounts
        self._artifacts = artifacts
        self._vault = vault
        self._factors = SecondFactors(accounts, vault)
        self._progress = progress
        self._signer = Signer(derive_manifest_keys(vault))

    async def run(self, *, dry_run: bool = False) -> ResealResult:
        """Seal everything; repeat that while processes still seal with a previous key, at most five times."""
        total = result = await self._pass(dry_run)
        for _ in range(0 if dry_run else _PASSES):
            if not result.count:
                break
            result = await self._pass(dry_run)
            total = replace(
                result,
                api_keys=total.api_keys + result.api_keys,
                second_factors=total.second_factors + result.second_factors,
                manifests=total.manifests + result.manifests,
            )
        return replace(total, is_settled=not result.count)

    async def _pass(self, dry_run: bool) -> ResealResult:
        api_keys, newer, skipped = await self._reseal_keys(dry_run)
        second_factors, closed = await self._reseal_factors(dry_run)
        manifests = await asyncio.to_thread(
            resign_manifests,
            self._artifacts,
            self._signer,
            dry_run=dry_run,
            report=lambda done: self._progress("manifests", done),
        )
        return ResealResult(
            api_keys, second_factors, len(manifests.signed), newer, (*skipped, *closed, *manifests.damaged)
        )

    async def _reseal_keys(self, dry_run: bool) -> tuple[int, int, list[str]]:
        book = await self._access.read_all()
        done = 0
        skipped = []
        for number, before in enumerate(book.keys.values()):
            self._progress("API keys", number + 1)
            try:
                after = reseal_key(self._vault, before)
            except Fault:
                skipped.append(f"{before.key_id} ({before.kind} key of {before.app_id})")
                continue
            # a key that changed meanwhile counts too, so another pass looks at it
            done += after is not None
            if after is not None and not dry_run:
                await self._access.replace_key(before, after)
        return done, len(book.unreadable_keys), skipped

    async def _reseal_factors(self, dry_run: bool) -> tuple[int, list[str]]:
        done = 0
        skipped = []
        for number, account in enumerate(await self._accounts.all()):
            self._progress("accounts", number + 1)
            try:
                if not self._factors.needs_reseal(account):
                    continue
                if not dry_run:
                    await self._factors.reseal(account)
            except Fault:
                skipped.append(f"second factor of {account.username}")
                continue
            done += 1
        return done, skipped
