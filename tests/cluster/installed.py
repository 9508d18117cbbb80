"""An installation that commands start and stop, as people do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.crypto import new_master_key
from cluster.paths import InstallationPaths
from cluster.process import probe
from cluster.process.installation_processes import list_processes
from cluster.runtime.ray_environment import THREAD_VARIABLES
from tests.suites.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what an installation sets by itself, and without this run's threads."""
    ours = ("KIOSK_", "RAY_", *THREAD_VARIABLES)
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@dataclass
class Installed:
    """A data directory and a port; nothing runs until `kiosk up`."""

    places: InstallationPaths
    port: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            **clean_environment(),
            "KIOSK_DATA_DIR": str(self.places.data_dir),
            "CANARY_IN_ENVIRONMENT": "x",
        }

    def kiosk(self, *words: str, check: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one command as a person does, from another directory."""
        done = subprocess.run(
            [sys.executable, "-m", "deployments.cli", *words],
            env={**self.environment, "PYTHONPATH": str(ROOT), **variables},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert not check or done.returncode == 0, (done.stdout, done.stderr)
        return done

    def run_json(self, *words: str) -> Any:
        """Run a command with `--json` and read what it says."""
        return json.loads(self.kiosk(*words, "--json").stdout)

    def leftovers(self) -> list[str]:
        """Everything that should be gone after a stop."""
        left = [" ".join(process.cmdline())[:80] for process in list_processes(self.places)]
        left += [str(path) for path in Path("/tmp").glob(f"*{self.places.mark}*")]
        left += [path.name for path in self.places.data_dir.iterdir() if path.is_socket()]
        return left

    def create_app(self, app_id: str) -> str:
        """Create an app; return its secret key when the API takes it."""
        key = str(self.run_json("apps", "create", app_id)["secret_key"])
        wait_until(lambda: self.ask_user(key) == 404)
        return key

    def ask_user(self, key: str) -> int:
        """Return the status of a request for a user that nobody uploaded."""
        return probe.send_request("127.0.0.1", self.port, "GET", "/v1/users/nobody", key=key)[0]


@dataclass
class House:
    """An installation whose first process is given every secret as a variable."""

    places: InstallationPaths
    port: int
    redis: str
    modules: Path
    settings: dict[str, str]
    master: str = field(default_factory=new_master_key)
    provider: str = "canary-of-the-providers-key"

    @property
    def canaries(self) -> list[bytes]:
        return [self.master.encode(), self.provider.encode(), self.redis.encode()]

    def kiosk(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in a shell that has the secrets, as the start had."""
        done = subprocess.run(
            [sys.executable, "-m", "deployments.cli", *words],
            env={
                **clean_environment(),
                "KIOSK_DATA_DIR": str(self.places.data_dir),
                "KIOSK_MASTER_KEY": self.master,
                "KIOSK_LLM_KEY": self.provider,
                "KIOSK_REDIS_URL": self.redis,
                "PYTHONPATH": f"{ROOT}:{self.modules}",
                **self.settings,
            },
            cwd="/",
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert not check or done.returncode == 0, (done.stdout, done.stderr)
        return done
