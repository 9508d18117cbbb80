"""Settings: read once from the environment by a composition root, then handed down in small parts.

Only files that start a process (app.py, gateway.py, driver.py, commands/, runtime/) read this module.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Everything an installation can be told from outside; the prefix is `KIOSK_`."""

    model_config = SettingsConfigDict(env_prefix="KIOSK_", frozen=True, extra="ignore")

    data_dir: Path = Field(default_factory=lambda: Path.home() / ".kiosk")
    "Where this installation keeps everything. Not secret."
    redis_url: SecretStr | None = None
    "An external Redis; without it one is found or brought along. Secret: may hold a password."
    master_key: SecretStr | None = None
    "32 bytes in URL-safe base64 that encrypt API keys at rest; else `<data_dir>/master.key`. Secret."
    host: str = "127.0.0.1"
    "Address the doors listen on. Not secret."
    port: int = 8000
    "Port the doors listen on. Not secret."
    max_body_mb: int = 32
    "Largest request body in MiB. Not secret."
    replicas_min: int = 1
    "API replicas at rest. Not secret."
    replicas_max: int = 2
    "API replicas under load. Not secret."

    @cached_property
    def shelf_dir(self) -> Path:
        """Where artefacts stand on one machine."""
        return self.data_dir / "shelf"
