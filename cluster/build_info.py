"""What this build is: its version and where its packages lie."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path


def installed_version() -> str:
    """Tell the version of the installed package; a checkout that was never installed says so."""
    try:
        return importlib.metadata.version("kiosk")
    except importlib.metadata.PackageNotFoundError:
        return "0+checkout"


def package_root() -> Path:
    """Find the directory that holds `cluster`, `actors`, `deployments` and `jobs`."""
    return Path(__file__).resolve().parents[1]
