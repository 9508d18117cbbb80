from __future__ import annotations

from pathlib import Path

import pytest

from cluster.artifacts.file_verification import file_entry_from_path, verify_file
from cluster.errors import Fault


def test_a_file_is_what_was_written_of_it_until_a_byte_changes(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(b"12345")
    entry = file_entry_from_path(path)
    assert (entry.name, entry.size) == ("rows.npy", 5)
    verify_file(path, entry, verify=True)
    path.write_bytes(b"12346")
    verify_file(path, entry, verify=False)
    with pytest.raises(Fault, match="checksum"):
        verify_file(path, entry, verify=True)


@pytest.mark.parametrize("content", [None, b"1234"])
def test_a_missing_or_truncated_file_is_detected_without_reading_it(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(b"12345")
    entry = file_entry_from_path(path)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Fault) as caught:
        verify_file(path, entry, verify=False)
    assert caught.value.facts["path"] == "rows.npy"
