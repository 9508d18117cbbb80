"""Checks of an installation that may run on other machines: through its Redis, and over HTTP."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cluster.admin.master_keys import master_key_fingerprints
from cluster.errors import Invalid, KioskError
from cluster.process.artifact_access import open_artifact_store_at
from cluster.process.installation_identity import find_mismatch, read_artifact_id
from cluster.process.store_connections import ADMIN_S, connect, run_blocking
from cluster.runtime.cluster_report import ClusterReport, read_cluster
from cluster.settings import Settings
from cluster.store.installation.identity import StoredIdentity
from deployments.operations.insight.installation_checks import (
    LATE_MS,
    Finding,
    check_app_memory,
    check_differing,
    check_lease,
    check_release,
)

_MOST_BODY = 300


@dataclass(frozen=True, slots=True)
class ClusterInspection:
    """What was read, and what it means; without a report Redis did not answer."""

    report: ClusterReport | None
    findings: tuple[Finding, ...]


def inspect_cluster(settings: Settings, urls: Sequence[str], now_ms: int) -> ClusterInspection:
    """Look at the installation in Redis and at the API behind some base URLs.

    Errors:
        Invalid: not a base URL
        Fault: no Redis is known
    """

    async def read() -> ClusterReport:
        async with connect(settings, slow_s=ADMIN_S) as stores:
            return await read_cluster(stores, now_ms)

    answers = [finding for url in urls for finding in check_url(url)]
    try:
        report = run_blocking(read())
    except KioskError as error:
        advice = "start it, or correct KIOSK_REDIS_URL"
        return ClusterInspection(None, (Finding("redis", "bad", error.message, advice), *answers))
    findings = [*_check_identity(report, settings), *check_report(report), *answers]
    return ClusterInspection(report, (Finding("redis", "ok", "answers"), *findings))


def check_report(report: ClusterReport) -> Iterator[Finding]:
    """Judge what Redis said."""
    yield check_release(report.schema, report.newest_schema, report.releases)
    for lease in report.leases:
        yield check_lease(lease.name, lease.owner, lease.remaining_ms)
    for engine in report.engines:
        name = f"engine {engine.app_id}/{engine.engine_id}"
        failed = engine.state == "failed"
        if engine.placement == "shared":
            yield Finding(name, "ok", "shared by the API replicas")
            continue
        words = f"dedicated, {engine.state or 'not seen yet'}, {engine.replicas} of {engine.target} replicas"
        late = failed or not engine.replicas
        words += f": {engine.message}" if engine.message else ""
        yield Finding(name, "bad" if late else "ok", words, "`kiosk engines list` says more" if late else "")
    for app_id in report.waiting:
        yield _check_log(report, app_id)
    yield from check_differing(report.differing)
    yield check_app_memory(report.memory)


def check_url(url: str) -> Iterator[Finding]:
    """Ask for liveness and readiness behind a base URL."""
    for path, meaning in (("/-/healthz", "alive"), ("/-/ready", "ready")):
        check = f"{meaning} {url.rstrip('/')}"
        try:
            status, body = _get(url, path)
        except OSError as error:
            advice = "does a proxy run there, and may this machine reach it?"
            yield Finding(check, "bad", f"no answer: {error}", advice)
            continue
        good = status == 200
        words = f"{path} answers {status}"
        yield Finding(check, "ok" if good else "bad", words if good else f"{words}: {body}")


def _get(url: str, path: str) -> tuple[int, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"--url is the base URL of the API, as https://kiosk.example.com, not {url!r}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    line = kind(parts.hostname, parts.port, timeout=5.0)
    try:
        line.request("GET", parts.path.rstrip("/") + path, headers={"Connection": "close"})
        reply = line.getresponse()
        return reply.status, reply.read(_MOST_BODY).decode("utf-8", "replace").strip()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer ({type(error).__name__})") from error
    finally:
        line.close()


def _check_identity(report: ClusterReport, settings: Settings) -> Iterator[Finding]:
    """Compare the key and the artifact store of this machine with the installation."""
    recorded = report.identity
    if not recorded.installation_id:
        words = "Redis names no installation yet; the next start writes it"
        yield Finding("installation", "warning", words, "`kiosk up` or `kiosk cluster up`")
    else:
        yield Finding("installation", "ok", recorded.installation_id)
    yield _check_key(recorded, settings)
    yield _check_artifacts(recorded, settings)


def _check_key(recorded: StoredIdentity, settings: Settings) -> Finding:
    try:
        fingerprints = master_key_fingerprints(settings)
    except KioskError as error:
        return Finding("its master key", "bad", error.message)
    if recorded.fingerprint and not fingerprints:
        words = "not on this machine: commands that read or change anything are refused here"
        return Finding("its master key", "warning", words, "set KIOSK_MASTER_KEY or KIOSK_MASTER_KEY_FILE")
    mismatch = find_mismatch(recorded, fingerprints=fingerprints)
    return Finding("its master key", "bad" if mismatch else "ok", mismatch or "this machine has it")


def _check_artifacts(recorded: StoredIdentity, settings: Settings) -> Finding:
    address = str(settings.artifacts_address)
    try:
        artifact_id = read_artifact_id(open_artifact_store_at(address, settings))
    except KioskError as error:
        advice = "is the bucket or the folder reachable from here?"
        return Finding("artifact store", "bad", error.message, advice)
    if recorded.installation_id and not artifact_id:
        words = f"not at {address}: trainings, reports and promotions are refused on this machine"
        return Finding("artifact store", "warning", words, "set KIOSK_DATA_DIR or KIOSK_ARTIFACTS_URL")
    mismatch = find_mismatch(recorded, artifact_id=artifact_id, address=address)
    return Finding("artifact store", "bad" if mismatch else "ok", mismatch or f"{address} is reachable")


def _check_log(report: ClusterReport, app_id: str) -> Finding:
    mine = [log for log in report.logs if log.app_id == app_id]
    lag = max((log.follower_lag_ms for log in mine), default=0)
    behind = max((log.uncompacted_ms for log in mine), default=0)
    followers = max((log.followers for log in mine), default=0)
    waiting = report.waiting[app_id]
    words = (
        f"{waiting} batches wait, {followers} followers, the slowest {lag / 1000:.0f} s behind, "
        f"{behind / 1000:.0f} s not compacted"
    )
    if lag > LATE_MS:
        return Finding(
            f"log {app_id}", "warning", words, "are its engines overloaded? see the API replicas' logs"
        )
    return Finding(f"log {app_id}", "ok", words)
