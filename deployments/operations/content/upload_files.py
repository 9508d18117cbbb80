"""Receives uploaded files: bounded in bytes and time, with the format that their content has."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.deadline import run_within
from cluster.errors import Invalid, TooLarge
from cluster.records.file_import import ImportFormat

STALL_S = 60.0
"Seconds without a byte after which an upload ends."
MOST_COLUMNS = 1_000
MOST_ROW_GROUP_BYTES = 1 << 30
"""Encoded bytes of one row group of Parquet after decompression, as the file's metadata states them. A value in a
dictionary counts once there, whatever its number of rows. The import and the preview count decoded bytes while they
read (`jobs.ingest.files.chunks`), because only the reader knows them."""
_HEAD = 4_096
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x37\x7a\xbc\xaf": "7z",
}


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that was received whole."""

    size: int
    sha256: str
    head: bytes


def remove_stale_uploads(folder: Path, older_s: float) -> None:
    """Remove what lies in a folder for longer than that: a process was killed, or another machine ended its use."""
    with contextlib.suppress(OSError):
        for left in folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > older_s:
                    shutil.rmtree(left, ignore_errors=True)


async def receive_file(content: AsyncIterator[bytes], target: Path, most_bytes: int) -> ReceivedFile:
    """Write a stream into a file of this machine.

    Errors:
        TooLarge: more bytes than allowed; the rest is not read
        Invalid: the file is empty, or the client sends nothing more
    """
    digest = hashlib.sha256()
    size = 0
    head = b""
    parts = aiter(content)
    with target.open("wb") as out:
        while True:
            # A deadline for each part: a large file may take long, a silent client may not.
            try:
                part = await run_within(anext(parts), STALL_S)
            except StopAsyncIteration:
                break
            except asyncio.TimeoutError:
                raise Invalid(f"the upload stopped: no data for {STALL_S:.0f} s") from None
            size += len(part)
            if size > most_bytes:
                raise TooLarge(f"the file is larger than {most_bytes >> 20} MB; use `kiosk ingest` for it")
            if len(head) < _HEAD:
                head += part[: _HEAD - len(head)]
            digest.update(part)
            await asyncio.to_thread(out.write, part)
    if not size:
        raise Invalid("the file is empty")
    return ReceivedFile(size, digest.hexdigest(), head)


def detect_content(head: bytes, encoding: str = "") -> ImportFormat:
    """Return the format of a file from its first bytes; its name does not count.

    Errors:
        Invalid: it is none that an import reads; the message says what to do
    """
    if head.startswith(b"PAR1"):
        return "parquet"
    for mark, name in _PACKED.items():
        if head.startswith(mark):
            more = "; save a workbook as CSV" if name == "zip" else ""
            raise Invalid(f"the file is compressed ({name}); unpack it first{more}")
    # Text in UTF-8 has no null bytes; that in UTF-16 has many.
    if b"\0" in head and not encoding.lower().replace("-", "").startswith(("utf16", "utf32")):
        raise Invalid("the file is no text in UTF-8; save it as CSV in UTF-8, or name its encoding")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        return "jsonl"
    if text.startswith(b"["):
        raise Invalid("the file is one JSON array; write one object a line (JSON Lines)")
    if text.startswith(b"<"):
        raise Invalid("the file is HTML or XML; save it as CSV, JSON Lines or Parquet")
    return "csv"


def check_parquet(path: Path) -> None:
    """Refuse Parquet that states too many columns or too large row groups, without reading them.

    Errors:
        Invalid: it is no Parquet, or too many columns, or a row group is too large as encoded
    """
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise Invalid(f"the file can't be read as Parquet: {error}") from error
    if metadata.num_columns > MOST_COLUMNS:
        raise Invalid(f"the file has {metadata.num_columns:,} columns; at most {MOST_COLUMNS:,} are read")
    sizes = [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]
    if sizes and max(sizes) > MOST_ROW_GROUP_BYTES:
        raise Invalid("a row group of the file is larger than 1 GB; write it with smaller ones")
