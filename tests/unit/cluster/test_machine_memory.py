"""Memory of a container: files of control groups as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

from cluster.machine_memory import available_memory, machine_memory

MIB = 1 << 20


def _write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_a_pod_has_its_limit_and_not_the_memory_of_the_node(tmp_path: Path) -> None:
    stat = f"anon {2000 * MIB}\ninactive_file {500 * MIB}\nactive_file 0"
    _write(tmp_path, memory__max=4096 * MIB, memory__current=3000 * MIB, memory__stat=stat)
    process = tmp_path / "none"
    assert machine_memory(tmp_path, process) == 4096 * MIB
    # unused pages of files count as free
    assert available_memory(tmp_path, process) == (4096 - 2500) * MIB


def test_the_smallest_limit_of_all_groups_above_counts(tmp_path: Path) -> None:
    _write(tmp_path / "pod", memory__max=1024 * MIB, memory__current=1000 * MIB)
    _write(tmp_path / "pod" / "ray", memory__max="max", memory__current=900 * MIB)
    process = tmp_path / "cgroup"
    process.write_text("0::/pod/ray\n")
    assert machine_memory(tmp_path, process) == 1024 * MIB
    assert available_memory(tmp_path, process) == 24 * MIB


def test_version_1_of_control_groups(tmp_path: Path) -> None:
    group = tmp_path / "memory" / "docker" / "1"
    stat = f"inactive_file 7\ntotal_inactive_file {64 * MIB}"
    _write(group, memory__limit_in_bytes=512 * MIB, memory__usage_in_bytes=512 * MIB, memory__stat=stat)
    process = tmp_path / "cgroup"
    process.write_text("4:memory:/docker/1\n3:cpu:/docker/1\n0::/\n")
    assert available_memory(tmp_path, process) == 64 * MIB


def test_a_group_that_is_over_its_limit_has_nothing_free(tmp_path: Path) -> None:
    _write(tmp_path, memory__max=10 * MIB, memory__current=11 * MIB)
    assert available_memory(tmp_path, tmp_path / "none") == 0


def test_without_a_group_the_machine_counts(tmp_path: Path) -> None:
    assert available_memory(tmp_path, tmp_path / "none") <= machine_memory(tmp_path, tmp_path / "none")
