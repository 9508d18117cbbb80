"""Checks of security and privacy: switches of apps, allowed code, secrets, signed manifests, erasures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import psutil

from cluster.admin.allowed_learners import allowed_learners
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.admin.master_keys import open_vault
from cluster.admin.reseal import MasterKeyReseal, ResealResult
from cluster.artifacts.signing import sign_manifests
from cluster.artifacts.snapshots import find_marked_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import InvalidSetting, KioskError
from cluster.process.artifact_access import open_artifact_store
from cluster.process.installation_processes import list_processes
from cluster.records.apps import DEFAULT_STORAGE_MB, DEFAULT_TRAINING_MB, App, AppSettings
from cluster.runtime.handover import find_exposed_files, find_secrets
from cluster.store.administration.audit_chain import AuditVerdict
from cluster.store.connect import OpenStores
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.operations.insight.installation_checks import Finding, Level


def check_audit(installation: Installation) -> Finding:
    """Check the chain, the proofs and the sealed row of the audit log."""
    verdict: AuditVerdict = installation.perform("audit.verify")
    if not verdict.is_whole:
        advice = "find out who could write to Redis; `kiosk audit verify --accept` if you know why"
        return Finding("audit log", "bad", f"row {verdict.broken_at}: {verdict.reason}", advice)
    if not verdict.proven_from:
        advice = "start this release once: its API replicas write the first proven row"
        return Finding("audit log", "warning", f"{verdict.rows} rows without a proof", advice)
    return Finding("audit log", "ok", f"{verdict.rows} rows, proven, last chain {verdict.chain[:16]}")


def check_switches(apps: Iterable[App]) -> Iterator[Finding]:
    """Report what the settings of apps leave open; only production is warned of it.

    Apps with the same open switches share one finding.
    """
    alike: dict[tuple[bool, tuple[tuple[str, str, str], ...]], list[str]] = {}
    for app in apps:
        if not app.read_only:
            place = (app.environment == "production", tuple(_list_open(app.settings)))
            alike.setdefault(place, []).append(app.app_id)
    for (is_production, switches), names in alike.items():
        yield _judge_switches(names, switches, is_production=is_production)


def _judge_switches(
    names: Sequence[str], switches: Sequence[tuple[str, str, str]], *, is_production: bool
) -> Finding:
    """Return the finding of apps with the same open switches."""
    check = f"app {names[0]}" if len(names) == 1 else f"{len(names)} apps"
    prefix = "" if len(names) == 1 else f"{', '.join(names)}: "
    if not switches:
        return Finding(check, "ok", f"{prefix}the switches leave nothing open that can be closed")
    words = "; ".join(f"{name}: {gain}" for name, _, gain in switches)
    closing = " ".join(f"{name}={value}" for name, value, _ in switches if value)
    allowed = "open" if is_production else "fit for development, to close in production"
    target = names[0] if len(names) == 1 else "APP"
    advice = f"`kiosk apps switch {target} {closing}` once its pages and servers are ready for it"
    level: Level = "warning" if is_production and closing else "ok"
    return Finding(check, level, f"{prefix}{allowed}: {words}", advice if closing else "")


def _list_open(settings: AppSettings) -> Iterator[tuple[str, str, str]]:
    """List open switches: name, the value that closes it (empty: nobody is urged to), what a stranger gains."""
    if not settings.prove_writers:
        yield "prove_writers", "true", "anybody writes events as any user"
    if settings.typed_user_hash:
        yield "typed_user_hash", "false", "who chooses the id that is signed can pass for another user"
    if not settings.derived_token_key:
        yield (
            "derived_token_key",
            "",
            "a user_hash of a chosen id can be a token, so sign ids of your own only",
        )
    if not settings.strict_user_hash:
        yield "strict_user_hash", "", "everybody who has an anonymous_id reads its history"
    if not settings.keyed_visitor_ids:
        yield "keyed_visitor_ids", "true", "a neighbour computes the default anonymous_id"
    if not settings.token_max_age_h:
        yield "token_max_age_h", "24", "a token without exp is good for ever"
    if not settings.confidential_fields:
        yield "confidential_fields", "margin", "browsers read every product field"
    if settings.address_share >= 1:
        yield "address_share", "0.2", "one visitor can use up the rate of all browsers"
    if not (settings.browser_events and settings.browser_readers):
        yield "browser_events", "100 browser_readers=3", "one request writes for any number of users"
    if not (settings.questions_per_address and settings.questions_without_proof):
        yield "questions_per_address", "200 questions_without_proof=5000", "strangers ask without end"
    if not settings.provider_tokens_per_day:
        yield "provider_tokens_per_day", "2000000", "strangers spend the language model's budget"
    if not settings.max_storage_mb:
        yield "max_storage_mb", str(DEFAULT_STORAGE_MB), "one app can fill the disk of all"
    if not settings.max_training_memory_mb:
        bound = str(DEFAULT_TRAINING_MB)
        yield "max_training_memory_mb", bound, "a recipe can take all memory that the installation allows"
    if settings.publishable_experiments:
        yield "publishable_experiments", "false", "browsers write exposures"
    if settings.bot_rule != "on":
        yield "bot_rule", "on", "robots use the publishable key"


def check_learners(installation: Installation) -> Finding:
    """Which model classes of yours may run here."""
    try:
        allowed = sorted(allowed_learners(installation.settings))
    except KioskError as error:
        return Finding("learners", "bad", error.message, "make the file readable for its owner")
    if not allowed:
        return Finding("learners", "ok", "only the built-in ones may run")
    words = f"{', '.join(allowed)} may run, with all rights of the processes that train and serve"
    return Finding("learners", "ok", words)


def check_secrets(installation: Installation) -> Iterator[Finding]:
    """No secret stands in an environment, where every process below inherits it, or in a file that all users read."""
    exposed = find_exposed_files(installation.settings)
    for path in exposed:
        words = f"every user of this machine can read {path}"
        yield Finding("secrets", "bad", words, f"chmod 600 {path}, then change the secret")
    shell_secrets = find_secrets(os.environ)
    if shell_secrets:
        advice = f"put each into a file of mode 600 and name that: {shell_secrets[0]}_FILE=..."
        yield Finding(
            "secrets", "warning", f"this shell's environment holds {', '.join(shell_secrets)}", advice
        )
    process_secrets = set()
    for process in list_processes(installation.places):
        try:
            process_secrets |= {f"{name} in {process.name()}" for name in find_secrets(process.environ())}
        except psutil.Error:
            # It ended in the meantime, or belongs to another user.
            continue
    if process_secrets:
        yield Finding(
            "secrets", "bad", ", ".join(sorted(process_secrets)), "`kiosk down && kiosk up`, then change them"
        )
    elif not shell_secrets and not exposed:
        yield Finding("secrets", "ok", "none stands in an environment or in a file that all users can read")


def check_artifacts(installation: Installation) -> Finding:
    """This installation signed every manifest that stands on its artifact store."""
    try:
        artifacts = open_artifact_store(installation.settings)
        if not artifacts.has_any():
            return Finding("artifacts", "ok", "none yet")
        result = sign_manifests(artifacts, foreign=True, dry_run=True)
    except InvalidSetting as error:
        return Finding("artifacts", "bad", error.message)
    except KioskError as error:
        return Finding("artifacts", "bad", error.message, "put back the master key from your backup")
    if result.damaged:
        words = f"damaged manifests: {', '.join(result.damaged[:3])}"
        return Finding("artifacts", "bad", words, "restore them from your backup")
    if result.signed:
        words = f"{len(result.signed)} manifests were not signed by this installation: {result.signed[0]}"
        if not installation.places.signing_marker.exists():
            return Finding("artifacts", "ok", f"{words}; the next `kiosk up` signs them once")
        return Finding("artifacts", "bad", words, "if you trust who wrote them: `kiosk artifacts sign`")
    return Finding("artifacts", "ok", f"all {result.valid} manifests are signed by this installation")


def check_previous_keys(installation: Installation) -> Iterator[Finding]:
    """Nothing is sealed with a previous master key, which can then be removed."""
    vault = open_vault(installation.settings)
    if not vault.has_previous:
        return

    async def look(keeping: AppKeyAdmin, stores: OpenStores) -> ResealResult:
        artifacts = open_artifact_store(installation.settings)
        return await MasterKeyReseal(stores.access, stores.accounts, artifacts, vault).run(dry_run=True)

    result = installation.administer(look)
    if result.count or result.newer:
        words = f"{result.to_text()} are sealed with a previous master key"
        yield Finding("previous master key", "warning", words, "`kiosk master-key reseal`, while it serves")
    else:
        advice = "`kiosk master-key status` says what else ends with it; then remove it"
        yield Finding("previous master key", "ok", "nothing is sealed with it", advice)


LATE_MS = 600_000
"An order that is older was not carried out as it should."


def check_erasures(installation: Installation) -> Iterator[Finding]:
    """Orders are carried out, none was lost, and no engine serves what was learned from erased rows."""
    artifacts = open_artifact_store(installation.settings)

    async def look(keeping: AppKeyAdmin, stores: OpenStores) -> list[Finding]:
        findings = []
        late_ms = read_clock_ms() - LATE_MS
        late = [erasure for erasure, _ in await stores.erasures.list_orders() if erasure.created_at < late_ms]
        if late:
            names = ", ".join(f"{order.app_id} {order.erasure_id}" for order in late[:5])
            advice = (
                "is the intake at work, and are all segments whole? see supervisor.log for erasure_failed"
            )
            findings.append(Finding("erasures", "bad", f"{len(late)} not carried out: {names}", advice))
        for app in await keeping.apps():
            findings += await _check_app(app.app_id, artifacts, stores)
        return findings

    yield from installation.administer(look) or [
        Finding("erasures", "ok", "nothing is left of who was forgotten")
    ]


async def _check_app(app_id: str, artifacts: ArtifactStore, stores: OpenStores) -> list[Finding]:
    findings = []
    if lost := await stores.erasures.list_lost(app_id):
        advice = "erase these users again: `kiosk forget`"
        findings.append(
            Finding("erasures", "bad", f"{app_id}: erasures that can't be read: {', '.join(lost)}", advice)
        )
    try:
        marked = {
            (snapshot.engine_id, snapshot.version): snapshot.erasures
            for snapshot in find_marked_snapshots(artifacts, app_id)
        }
    except KioskError as error:
        return [*findings, Finding("erasures", "warning", f"{app_id}: {error.message}")]
    for engine in await stores.engines.all(app_id):
        if count := marked.get((engine.engine_id, engine.snapshot)):
            words = f"{app_id}/{engine.engine_id} serves a model that learned from rows of {count} erasures"
            advice = f"`kiosk train {app_id}` replaces it; it holds no ids of people"
            findings.append(Finding("erasures", "warning", words, advice))
    return findings
