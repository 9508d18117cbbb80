"""Checks of what the installation believes: whose code it runs, whose manifests it reads, who sees its secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil

from cluster.admin.allowed_learners import allowed_learners
from cluster.artifacts.signing import sign_manifests
from cluster.errors import HouseError
from cluster.runtime.artifact_access import open_artifact_store
from cluster.runtime.handover import find_secrets
from cluster.runtime.processes import list_processes
from deployments.cli.doctor.finding import Finding
from deployments.cli.installation import Installation


def check_learners(installation: Installation) -> Finding:
    """Which model classes of yours may run here."""
    try:
        allowed = sorted(allowed_learners(installation.settings))
    except HouseError as error:
        return Finding("learners", "bad", error.message, "make the file readable for its owner")
    if not allowed:
        return Finding("learners", "ok", "only the built-in ones may run")
    words = f"{', '.join(allowed)} may run, with all rights of the processes that train and serve"
    return Finding("learners", "ok", words)


def check_secrets(installation: Installation) -> Iterator[Finding]:
    """No secret stands in an environment, where every process below inherits it."""
    here = find_secrets(os.environ)
    if here:
        advice = f"put each into a file of mode 600 and name that: {here[0]}_FILE=..."
        yield Finding("secrets", "warning", f"this shell's environment holds {', '.join(here)}", advice)
    found = set()
    for process in list_processes(installation.places):
        try:
            found |= {f"{name} in {process.name()}" for name in find_secrets(process.environ())}
        except psutil.Error:
            continue
    if found:
        yield Finding(
            "secrets", "bad", ", ".join(sorted(found)), "`kiosk down && kiosk up`, then change them"
        )
    elif not here:
        yield Finding("secrets", "ok", "none stands in an environment")


def check_artifacts(installation: Installation) -> Finding:
    """This installation signed every manifest that stands on its artifact store."""
    try:
        artifacts = open_artifact_store(installation.settings)
        if not artifacts.has_any():
            return Finding("artifacts", "ok", "none yet")
        found = sign_manifests(artifacts, foreign=True, dry_run=True)
    except HouseError as error:
        return Finding("artifacts", "bad", error.message, "put back the master key from your backup")
    if found.damaged:
        words = f"damaged manifests: {', '.join(found.damaged[:3])}"
        return Finding("artifacts", "bad", words, "restore them from your backup")
    if found.signed:
        words = f"{len(found.signed)} manifests were not signed by this installation: {found.signed[0]}"
        if not installation.places.signing_marker.exists():
            return Finding("artifacts", "ok", f"{words}; the next `kiosk up` signs them once")
        return Finding("artifacts", "bad", words, "if you trust who wrote them: `kiosk artifacts sign`")
    return Finding("artifacts", "ok", f"all {found.valid} manifests are signed by this installation")
