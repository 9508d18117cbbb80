"""Which folders are on the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.artifacts.storage.file_system_kind import file_system_kind, is_network_folder

MOUNTS = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:40 / /mnt rw,relatime shared:1 - tmpfs tmpfs rw
31 30 0:44 / /mnt/with\\040space rw,relatime - nfs4 server:/export rw,vers=4.2
32 21 0:45 / /data rw,relatime - ext4 /dev/sdb1 rw
33 32 0:46 / /data rw,relatime - ceph mon:/ rw
34 21 0:47 / /bucket rw - fuse.rclone remote: rw
35 21 0:48 / /pool rw - fuse.mergerfs disks rw
a line without a meaning
"""


@pytest.mark.parametrize(
    ("folder", "kind", "network"),
    [
        ("/srv/kiosk", "ext4", False),
        ("/mnt/with space/kiosk/shelf", "nfs4", True),
        ("/mnt/with spaces", "tmpfs", False),
        ("/data/kiosk", "ceph", True),  # of two mounts at one point the later one counts
        ("/database", "ext4", False),
        ("/bucket", "fuse.rclone", True),
        ("/pool/x", "fuse.mergerfs", False),
    ],
)
def test_the_longest_mount_point_decides_about_a_folder(folder: str, kind: str, network: bool) -> None:
    assert file_system_kind(Path(folder), MOUNTS) == kind
    assert is_network_folder(Path(folder), MOUNTS) is network


def test_a_link_counts_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/mnt/with space")
    assert is_network_folder(tmp_path / "link" / "kiosk", MOUNTS)


def test_without_a_table_every_folder_is_local() -> None:
    assert not is_network_folder(Path("/mnt"), "")
