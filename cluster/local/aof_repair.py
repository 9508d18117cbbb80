"""Repair of an append-only file that Redis refuses to load because bytes in its framing changed.

A flipped byte inside a value needs no repair: Redis loads it and the record's checksum detects it. A flipped
byte in a length or a command's name stops Redis at that place, and its own tool would cut off everything
after it. `repair_commands` copies the intact transactions and commands instead, and counts the gaps.

    file        = command*
    command     = "*" count CRLF ("$" length CRLF bytes CRLF){count}
    transaction = MULTI command* EXEC        kept or left out as a whole: never a record without its change
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

WRITES = frozenset(
    b"SELECT MULTI EXEC SET SETEX PSETEX SETNX SETRANGE APPEND INCR INCRBY INCRBYFLOAT DECR DECRBY MSET MSETNX GETSET "
    b"GETDEL GETEX DEL UNLINK EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST RENAME RENAMENX COPY MOVE RESTORE "
    b"HSET HMSET HSETNX HDEL HINCRBY HINCRBYFLOAT LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LTRIM LSET LREM LINSERT LMOVE "
    b"RPOPLPUSH SADD SREM SPOP SMOVE ZADD ZREM ZINCRBY ZREMRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYLEX ZPOPMIN "
    b"ZPOPMAX XADD XDEL XTRIM XSETID XGROUP XACK XCLAIM XAUTOCLAIM SETBIT BITFIELD BITOP PFADD PFMERGE GEOADD "
    b"PUBLISH SCRIPT EVAL EVALSHA".split()
)
"Commands that Kiosk writes. FLUSHALL and FLUSHDB are left out on purpose."

_COUNT = re.compile(rb"\*(\d{1,9})\r\n")
_LENGTH = re.compile(rb"\$(\d{1,10})\r\n")
_MOST_WORDS = 1 << 22


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair."""

    kept: int
    "Commands copied."
    gaps: int
    "Places where something was left out."
    lost_bytes: int


def command_at(data: mmap.mmap | bytes, start: int) -> tuple[bytes, int] | None:
    """Return the name of the command at a position and the next position; None when it is incomplete."""
    head = _COUNT.match(data, start)
    # Bounded, or a flipped digit of the count would let one command reach over gigabytes.
    if head is None or not 0 < int(head[1]) <= _MOST_WORDS:
        return None
    at = head.end()
    name = b""
    for number in range(int(head[1])):
        length = _LENGTH.match(data, at)
        if length is None:
            return None
        begin = length.end()
        at = begin + int(length[1]) + 2
        # The CR LF after each word is the check of its length.
        if at > len(data) or data[at - 2 : at] != b"\r\n":
            return None
        if number == 0:
            # Redis takes names in any case, and may write them as the client sent them.
            name = bytes(data[begin : at - 2]).upper()
    # Random bytes rarely spell one of these names, so a name is a check too.
    return (name, at) if name in WRITES else None


def repair_commands(path: Path, target: Path) -> RepairResult:
    """Copy the intact commands of one file into another, onto the disk, and return the counts.

    Cost: about 200,000 commands per second.
    """
    # `mmap` refuses an empty file.
    if path.stat().st_size == 0:
        target.write_bytes(b"")
        return RepairResult(0, 0, 0)
    with (
        path.open("rb") as source,
        mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data,
        target.open("wb") as out,
    ):
        result = _copy(data, out)
        # The copy takes the place of the damaged file, so it must be on the disk before its name is.
        out.flush()
        os.fsync(out.fileno())
        return result


def _copy(data: mmap.mmap, out: BinaryIO) -> RepairResult:
    kept = gaps = lost = 0
    for start, end, whole, count in _pieces(data):
        if whole:
            out.write(data[start:end])
            kept += count
        else:
            gaps += 1
            lost += end - start
    return RepairResult(kept, gaps, lost)


def _pieces(data: mmap.mmap) -> Iterator[tuple[int, int, bool, int]]:
    """Yield the file's pieces (start, end, is it intact, commands): single commands and whole transactions."""
    at = 0
    size = len(data)
    while at < size:
        command = command_at(data, at)
        if command is None or command[0] == b"EXEC":
            # An end without a beginning: the beginning was in the gap before it.
            end = _after_gap(data, at)
            whole = False
            count = 0
        elif command[0] == b"MULTI":
            end, whole, count = _transaction(data, command[1])
        else:
            end = command[1]
            whole = True
            count = 1
        yield at, end, whole, count
        at = end


def _transaction(data: mmap.mmap, at: int) -> tuple[int, bool, int]:
    """Return the end of a transaction, whether it is intact, and its number of commands."""
    count = 1
    size = len(data)
    while at < size:
        command = command_at(data, at)
        if command is None:
            return _after_gap(data, at), False, count
        name, after = command
        # Redis nests no transactions, so the end of the first one is lost.
        if name == b"MULTI":
            return at, False, count
        at = after
        count = count + 1
        if name == b"EXEC":
            return at, True, count
    # Cut off at the end of the file, as after a power failure: left out whole.
    return size, False, count


def _after_gap(data: mmap.mmap, at: int) -> int:
    """Return where intact units continue after damage: after the next EXEC if it belongs to the damaged part."""
    resumed = ahead = _next_start(data, at)
    while ahead < len(data):
        command = command_at(data, ahead)
        if command is None:
            ahead = _next_start(data, ahead)
            continue
        # An EXEC before any MULTI ends the transaction in which the damage lies.
        if command[0] == b"EXEC":
            return command[1]
        if command[0] == b"MULTI":
            break
        ahead = command[1]
    return resumed


def _next_start(data: mmap.mmap, at: int) -> int:
    """Return the next position with two intact commands in a row; the end of the file if there is none."""
    while True:
        start = data.find(b"\r\n*", at + 1)
        if start < 0:
            return len(data)
        first = command_at(data, start + 2)
        # Two in a row: one may be the text of a value that looks like a command.
        if first is not None and (first[1] == len(data) or command_at(data, first[1]) is not None):
            return start + 2
        at = start + 1
