"""Steps on a local directory: no links, complete files under their names, and folders that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def without_links(infos: list[Any]) -> list[Any]:
    """Leave out symbolic links and everything below linked folders, so that no foreign file is ever removed."""
    links = {info.path for info in infos if os.path.islink(info.path)}
    if not links:
        return infos
    below = tuple(f"{link}/" for link in links)
    return [info for info in infos if info.path not in links and not info.path.startswith(below)]


def move_into_place(part: Path, target: Path, new: bool) -> None:
    """Give a complete file its name; with `new` only if nothing has that name.

    Errors:
        FileExistsError: something has it
    """
    if not new:
        part.replace(target)
        return
    try:
        # `link` fails if the name is taken, in one step; a rename would replace another writer's file.
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the writers' lease excludes concurrent writers
        if target.exists():
            raise FileExistsError(target) from None
        part.replace(target)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # `fsync` of a file does not cover its name, which a power failure could lose.
        os.fsync(handle)
    finally:
        os.close(handle)
