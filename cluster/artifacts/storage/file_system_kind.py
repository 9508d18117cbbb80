"""Which file system holds a folder: a disk of this machine, or one that the network provides."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cluster.word_lists import words_from_text

MOUNTS = Path("/proc/self/mountinfo")

_NETWORK_KINDS = frozenset(
    words_from_text(
        "9p afs beegfs ceph cifs coda glusterfs gpfs lustre ncpfs nfs nfs4 orangefs pvfs2 smb3 smbfs virtiofs"
    )
)
_FUSE = "fuse."
"File systems in user space: nearly all of them are buckets or remote folders (`fuse.rclone`, `fuse.s3fs`), and"
_LOCAL_FUSE = frozenset(("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.ntfs-3g", "fuse.mergerfs"))
"these are not."


def is_network_folder(folder: Path, mounts: str | None = None) -> bool:
    """Return whether a network file system holds a folder; a folder that does not exist yet counts by its parent.

    `mounts` is the text of `/proc/self/mountinfo`. Where there is none, every folder counts as local.
    """
    kind = file_system_kind(folder, mounts)
    return kind in _NETWORK_KINDS or (kind.startswith(_FUSE) and kind not in _LOCAL_FUSE)


def file_system_kind(folder: Path, mounts: str | None = None) -> str:
    """Return the kind of file system of a folder, as `ext4` or `nfs4`; empty when it is unknown."""
    if mounts is None:
        try:
            mounts = MOUNTS.read_text("utf-8", "surrogateescape")
        except OSError:
            return ""
    place = os.path.realpath(folder)
    longest = -1
    kind = ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        kinds = after.split(" ")
        if len(fields) < 5:
            continue
        point = _decode(fields[4])
        # With the slash, `/data` does not contain `/database`.
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two mounts at one point the later one is seen
            longest = len(point)
            kind = kinds[0]
    return kind


def _decode(text: str) -> str:
    """Return a path of the mount table, where a space is `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
