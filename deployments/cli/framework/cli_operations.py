"""Operations that only the command line performs, because they trust whoever is on the server.

They leave rows in the audit log as all others. API replicas do not have them in their table, so neither HTTP nor the
console reaches them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.admin.allowed_learners import allow_learner, allowed_learners, remove_learner
from cluster.artifacts.signing import SigningResult, sign_manifests
from cluster.process.signing_upgrade import KeySigningResult, sign_keys
from cluster.settings import Settings
from cluster.store.administration.audit_chain import ACCEPT, AuditVerdict
from deployments.operations.all_operations import OPERATIONS, AdminOperation, build_table
from deployments.operations.framework.operation import Arguments, Operation
from deployments.operations.framework.services import AdminServices


async def _accept(services: AdminServices, given: Arguments) -> AuditVerdict:
    """Return what is wrong; the row of this operation, which holds it, accepts it."""
    return await services.stores.audit.verify()


class OneLearner(Arguments):
    """A learner class."""

    learner: str


@dataclass(frozen=True, slots=True)
class Signatures:
    """What was signed, or would be."""

    dry_run: bool
    manifests: SigningResult
    keys: KeySigningResult

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        manifests = self.manifests
        keys = self.keys
        return {
            "dry_run": self.dry_run,
            "manifests": {
                "signed": manifests.signed,
                "valid": manifests.valid,
                "damaged": manifests.damaged,
            },
            "keys": {"signed": keys.signed, "valid": keys.valid, "refused": keys.refused},
        }


def build_server_operations(settings: Settings) -> Mapping[str, AdminOperation]:
    """Return all operations, with those that need the settings of this server."""

    async def allow(_: AdminServices, given: OneLearner) -> dict[str, Any]:
        return {"added": allow_learner(settings, given.learner)}

    async def remove(_: AdminServices, given: OneLearner) -> None:
        remove_learner(settings, given.learner)

    async def read(_: AdminServices, given: OneLearner) -> list[str]:
        return sorted(allowed_learners(settings))

    server: tuple[AdminOperation, ...] = (
        Operation(
            "learners.allow", "Allow a learner class.", "owner", "POST", "/learners", OneLearner, allow,
            scope="installation", read_before=read,
        ),
        Operation(
            "learners.remove", "Take a learner class off the list.", "owner", "DELETE", "/learners/{learner}",
            OneLearner, remove, scope="installation", read_before=read,
        ),
        Operation(
            ACCEPT, "Accept what is wrong in the audit log, with a row that says so.", "owner", "POST",
            "/audit/accept", Arguments, _accept, scope="installation",
        ),
        Operation(
            "artifacts.check", "Show what is not signed.", "owner", "GET", "/signatures", Arguments, _check,
            scope="installation",
        ),
        Operation(
            "artifacts.sign", "Sign what is not signed.", "owner", "POST", "/signatures", Arguments, _sign,
            scope="installation",
        ),
    )  # fmt: skip
    return build_table((*OPERATIONS.values(), *server))


async def _check(services: AdminServices, _: Arguments) -> Signatures:
    return await _sign_all(services, dry_run=True)


async def _sign(services: AdminServices, _: Arguments) -> Signatures:
    return await _sign_all(services, dry_run=False)


async def _sign_all(services: AdminServices, *, dry_run: bool) -> Signatures:
    keys = await sign_keys(services.stores.access, services.vault, dry_run=dry_run)
    manifests = await asyncio.to_thread(sign_manifests, services.artifacts, foreign=True, dry_run=dry_run)
    return Signatures(dry_run, manifests, keys)
