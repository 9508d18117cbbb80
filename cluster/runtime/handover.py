"""Secrets from the environment of the first process into files: nothing that is started later inherits them.

    kiosk up                                              does it by itself
    python -m cluster.runtime.handover ray start ...      on every node of a Ray cluster of yours

A variable stands in `/proc/<pid>/environ` of every process below the one that was given it, for as long as each of
them lives. So each secret goes into a file of mode 600 below the run directory, its variable goes, and a variable
that names the file takes its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from cluster.admin.vault import MASTER_KEY, find_external_master_key, save_manifest_key
from cluster.errors import HouseError, Invalid
from cluster.paths import InstallationPaths, write_private
from cluster.settings import SECRET_VARIABLES, Settings

_FILES = {"KIOSK_MASTER_KEY": MASTER_KEY, "KIOSK_LLM_KEY": "llm.key", "KIOSK_REDIS_URL": "redis.url"}


def find_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """List the secrets that stand in an environment."""
    return tuple(name for name in SECRET_VARIABLES if environment.get(name))


def hand_over(environment: MutableMapping[str, str], folder: Path) -> bool:
    """Move secrets out of an environment into files of a folder; False when none stood there.

    What an earlier start left in the folder goes, unless the environment names it.
    """
    folder.mkdir(exist_ok=True, mode=0o700)
    found = find_secrets(environment)
    for name in SECRET_VARIABLES:
        path, text = folder / _FILES[name], environment.pop(name, "")
        if name in found:
            write_private(path, text + "\n")
            environment[f"{name}_FILE"] = str(path)
        elif environment.get(f"{name}_FILE") != str(path):
            path.unlink(missing_ok=True)
    return bool(found)


@contextmanager
def hidden_secrets(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Give the environment for a program that ends soon: its secrets stand in files that go with it."""
    with TemporaryDirectory(prefix="kiosk-") as folder:
        clean = dict(environment)
        hand_over(clean, Path(folder))
        yield clean


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Copy an environment for a process that needs none of the secrets, nor where they are."""
    gone = {*SECRET_VARIABLES, *(f"{name}_FILE" for name in SECRET_VARIABLES)}
    return {name: text for name, text in environment.items() if name not in gone}


def drop_key_variables() -> None:
    """Forget where the master key and the provider's key are, in a process that is to run somebody's model class.

    That process still reads every file of its user: see `docs/guides/artifacts-and-secrets.md`.
    """
    for name in ("KIOSK_MASTER_KEY", "KIOSK_LLM_KEY"):
        os.environ.pop(name, None)
        os.environ.pop(f"{name}_FILE", None)


def prepare_node() -> None:
    """Hand over this process's secrets for everything it starts, and leave trainers the key they need.

    Errors:
        Fault: the master key is damaged, or somebody else took the run directory
    """
    paths = InstallationPaths.from_data_dir(Settings().data_dir)
    paths.make_run_dir()
    hand_over(os.environ, paths.secrets_dir)
    settings = Settings()
    if find_external_master_key(settings) is not None or paths.master_key.exists():
        save_manifest_key(settings)


def main(command: list[str]) -> int:
    """Hand over, then become the command; 2 when that is not possible."""
    try:
        if not command:
            raise Invalid("say what to start: python -m cluster.runtime.handover ray start --address=...")
        prepare_node()
        os.execvp(command[0], command)
    except HouseError as error:
        structlog.get_logger().error("not_handed_over", reason=error.message)
    except OSError as error:
        structlog.get_logger().error("not_started", command=command[0], reason=error.strerror)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
