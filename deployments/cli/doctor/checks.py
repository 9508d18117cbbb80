"""All checks of `kiosk doctor`, in the order they are shown."""

from __future__ import annotations

from pathlib import Path

from cluster.clock import SystemClock
from cluster.errors import HouseError
from deployments.cli.doctor import access_checks, erasure_checks, machine_checks, running_checks, trust_checks
from deployments.cli.doctor.finding import Finding
from deployments.cli.installation import Installation


def run_checks(installation: Installation) -> list[Finding]:
    """Run all checks that make sense now."""
    state = installation.state
    findings = [
        machine_checks.check_versions(),
        machine_checks.check_data_directory(installation.places.data_dir),
        machine_checks.check_master_key(installation),
        machine_checks.check_private_file(
            "ray token", installation.places.ray_token, "delete it and start again: `kiosk up` makes one"
        ),
        machine_checks.check_disk(installation),
        machine_checks.check_shared_memory(Path("/dev/shm")),
        machine_checks.check_open_files(),
        machine_checks.check_haproxy(state),
        trust_checks.check_learners(installation),
        trust_checks.check_artifacts(installation),
        *trust_checks.check_secrets(installation),
    ]
    if state is None:
        return [*findings, machine_checks.check_redis_binary(), *machine_checks.check_leftovers(installation)]
    findings.append(running_checks.check_public_address(state))
    findings.append(running_checks.check_sign_in(state, installation.settings))
    findings.append(running_checks.check_client_addresses(state, installation.settings))
    findings += [*running_checks.check_ports(installation, state), *running_checks.check_ray_token(state)]
    findings += running_checks.check_actors(installation)
    try:
        findings += running_checks.check_redis_settings(installation)
        now_ms = SystemClock().now_ms()
        findings += running_checks.check_clock(installation.information("server"), now_ms)
        findings.append(running_checks.check_exposed_keys(installation, now_ms))
        findings += access_checks.check_switches(installation.list_apps())
        findings += erasure_checks.check_erasures(installation)
    except HouseError as error:
        findings.append(Finding("redis", "bad", error.message, f"see {state.logs_dir}/redis.log"))
    return findings
