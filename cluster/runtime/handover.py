"""Move secrets from the environment of the first process into files, so that no later process inherits them.

    kiosk up                                              does it by itself
    python -m cluster.runtime.handover ray start ...      on every node of a Ray cluster of yours

Every child process inherits a variable in `/proc/<pid>/environ` for its lifetime. So this module writes each
secret to a file of mode 600 below the run directory. It then replaces the variable with a variable that
contains the file's path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from cluster.admin.master_keys import MASTER_KEY, find_external_master_keys, save_manifest_key
from cluster.errors import KioskError
from cluster.paths import InstallationPaths, write_private
from cluster.settings import SECRET_VARIABLES, Settings

_FILES = {
    "KIOSK_MASTER_KEY": MASTER_KEY,
    "KIOSK_LLM_KEY": "llm.key",
    "KIOSK_REDIS_URL": "redis.url",
    "KIOSK_REDIS_PASSWORD": "redis.password",
    "KIOSK_OIDC_CLIENT_SECRET": "oidc.secret",
}


def find_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the secrets in an environment."""
    return tuple(name for name in SECRET_VARIABLES if environment.get(name))


def find_exposed_files(settings: Settings) -> list[Path]:
    """Return the files of secrets that every user of this machine may read or change.

    A group may have rights: on Kubernetes the user of a pod reads its secrets through one.
    """
    names = [f"{name.removeprefix('KIOSK_').lower()}_file" for name in SECRET_VARIABLES]
    paths = [path for name in names if (path := getattr(settings, name)) is not None]
    if settings.redis_key is not None:
        paths.append(settings.redis_key)
    return [path for path in paths if path.exists() and path.stat().st_mode & 0o007]


def hand_over(environment: MutableMapping[str, str], folder: Path) -> bool:
    """Move secrets from an environment into files of a folder; return False without any.

    Files of an earlier start are deleted, unless the environment names them.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    secrets = find_secrets(environment)
    # Over all names, not those that are set: files of an earlier start are deleted too.
    for name in SECRET_VARIABLES:
        path = folder / _FILES[name]
        # Removed, because every child inherits the environment, and /proc shows it.
        text = environment.pop(name, "")
        if name in secrets:
            write_private(path, text + "\n")
            environment[f"{name}_FILE"] = str(path)
        elif environment.get(f"{name}_FILE") != str(path):
            path.unlink(missing_ok=True)
    return bool(secrets)


@contextmanager
def hidden_secrets(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the environment for a short-lived program: its secrets are in files that are deleted afterwards."""
    with TemporaryDirectory(prefix="kiosk-") as folder:
        clean = dict(environment)
        hand_over(clean, Path(folder))
        yield clean


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of an environment without the secrets and their paths."""
    gone = {*SECRET_VARIABLES, *(f"{name}_FILE" for name in SECRET_VARIABLES)}
    return {name: text for name, text in environment.items() if name not in gone}


def drop_key_variables() -> None:
    """Delete the variables of the master key and the LLM provider's key, in a process that runs a custom model.

    That process still reads every file of its user: see `docs/guides/artifacts-and-secrets.md`.
    """
    for name in ("KIOSK_MASTER_KEY", "KIOSK_LLM_KEY", "KIOSK_OIDC_CLIENT_SECRET"):
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)


def prepare_node() -> None:
    """Move this process's secrets to files for all children, and save the manifest key for trainers."""
    paths = InstallationPaths.from_data_dir(Settings().data_dir)
    paths.make_run_dir()
    hand_over(os.environ, paths.secrets_dir)
    settings = Settings()
    if find_external_master_keys(settings) or paths.master_key.exists():
        save_manifest_key(settings)


def main(command: list[str]) -> int:
    """Move the secrets to files, then execute the command; return 2 on failure."""
    if not command:
        usage = "name the command to start: python -m cluster.runtime.handover ray start --address=..."
        structlog.get_logger().error("not_handed_over", reason=usage)
        return 2
    try:
        prepare_node()
        # The process id stays, so the signals of a container's runtime reach the command.
        os.execvp(command[0], command)
    except KioskError as error:
        structlog.get_logger().error("not_handed_over", reason=error.message)
    except OSError as error:
        structlog.get_logger().error("not_started", command=command[0], reason=error.strerror)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
