"""The version of this build, and the directory of its packages."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def installed_version() -> str:
    """Return the version of the installed package, or a fixed text for a checkout without installation."""
    try:
        return importlib.metadata.version("kiosk")
    except importlib.metadata.PackageNotFoundError:
        return "0+checkout"


def package_root() -> Path:
    """Return the directory that contains `cluster`, `actors`, `deployments` and `jobs`."""
    return Path(__file__).resolve().parents[1]
