"""All checks of `kiosk doctor`, in the order they are shown."""

from __future__ import annotations

from pathlib import Path

from cluster.clock import SystemClock
from cluster.errors import HouseError
from deployments.cli.doctor import access_checks, erasure_checks, machine_checks, running_checks, trust_checks
from deployments.cli.doctor.finding import Finding
from deployments.cli.installation import Installation


def examine(installation: Installation) -> list[Finding]:
    """Run all checks that make sense now."""
    state = installation.state
    findings = [
        machine_checks.versions(),
        machine_checks.data_directory(installation.places.data_dir),
        machine_checks.master_key(installation),
        machine_checks.private_file(
            "ray token", installation.places.ray_token, "delete it and start again: `kiosk up` makes one"
        ),
        machine_checks.disk(installation),
        machine_checks.shared_memory(Path("/dev/shm")),
        machine_checks.open_files(),
        machine_checks.haproxy(state),
        trust_checks.learners(installation),
        trust_checks.artifacts(installation),
        *trust_checks.secrets(installation),
    ]
    if state is None:
        return [*findings, machine_checks.redis_to_start(), *machine_checks.leftovers(installation)]
    findings.append(running_checks.public_address(state))
    findings.append(running_checks.sign_in(state, installation.settings))
    findings.append(running_checks.client_addresses(state, installation.settings))
    findings += [*running_checks.ports(installation, state), *running_checks.ray_asks_for_token(state)]
    findings += running_checks.actors(installation)
    try:
        findings += running_checks.redis_settings(installation)
        now_ms = SystemClock().now_ms()
        findings += running_checks.clock(installation.information("server"), now_ms)
        findings.append(running_checks.exposed_keys(installation, now_ms))
        findings += access_checks.open_switches(installation.apps())
        findings += erasure_checks.erasures(installation)
    except HouseError as error:
        findings.append(Finding("redis", "bad", error.message, f"see {state.logs_dir}/redis.log"))
    return findings
