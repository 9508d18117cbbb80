"""The largest memory that this installation allows a training."""

from __future__ import annotations

from cluster.records.apps import App
from cluster.settings import Settings


def training_memory_mb(app: App | None = None) -> int:
    """Return the bound in MiB: that of the installation, or that of an app if it is smaller; 0 is no bound."""
    bounds = (Settings().max_training_memory_mb, 0 if app is None else app.settings.max_training_memory_mb)
    return min((bound for bound in bounds if bound), default=0)
