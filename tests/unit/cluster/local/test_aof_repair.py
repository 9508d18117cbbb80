"""An append-only file with damaged framing keeps everything that is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.local.aof_repair import RepairResult, command_at, repair_commands


def command(*words: bytes | str) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def transaction(*commands: bytes) -> bytes:
    return command("MULTI") + b"".join(commands) + command("EXEC")


SINGLES = [command("SELECT", "0"), *(command("SET", f"key:{n}", f"value {n}") for n in range(4))]
UPLOAD = [
    command("SET", "{a}:product:1", b"1deadbeef{}"),
    command("XADD", "{a}:change:product", "1-1", "payload", b"\x00\xff\r\n*\r\n"),
]
WHOLE = (
    b"".join(SINGLES[:3]) + transaction(*UPLOAD) + b"".join(SINGLES[3:]) + transaction(command("DEL", "x"))
)


def _mended(folder: Path, data: bytes) -> tuple[bytes, RepairResult]:
    source, target = folder / "damaged.aof", folder / "mended.aof"
    source.write_bytes(data)
    result = repair_commands(source, target)
    return target.read_bytes(), result


def test_a_whole_file_is_copied_byte_by_byte(tmp_path: Path) -> None:
    assert _mended(tmp_path, WHOLE) == (WHOLE, RepairResult(kept=12, gaps=0, lost_bytes=0))
    assert _mended(tmp_path, b"") == (b"", RepairResult(0, 0, 0))


@pytest.mark.parametrize("place", range(len(WHOLE)))
def test_any_flipped_byte_costs_at_most_what_it_stands_in(tmp_path: Path, place: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[place] ^= 0x04
    kept, result = _mended(tmp_path, bytes(damaged))
    # What Redis will see is whole again, and nothing that stood before the damage is missing.
    at = 0
    while at < len(kept):
        parsed = command_at(kept, at)
        assert parsed is not None
        at = parsed[1]
    assert kept.count(command("MULTI")) == kept.count(command("EXEC"))
    units = [*SINGLES[:3], transaction(*UPLOAD), *SINGLES[3:], transaction(command("DEL", "x"))]
    missing = [unit for unit in units if unit not in kept]
    assert len(missing) <= 2, missing
    assert bool(result.gaps) == (result.lost_bytes > 0)


def test_a_damaged_transaction_is_left_out_as_a_whole(tmp_path: Path) -> None:
    damaged = WHOLE.replace(b"$4\r\nXADD", b"$9\r\nXADD")
    kept, result = _mended(tmp_path, damaged)
    assert b"{a}:product:1" not in kept
    assert kept == b"".join(SINGLES) + transaction(command("DEL", "x"))
    assert result.gaps == 1


def test_a_lost_exec_costs_its_transaction_and_not_the_next(tmp_path: Path) -> None:
    first, second = transaction(command("SET", "a", "1")), transaction(command("SET", "b", "2"))
    damaged = first.replace(b"EXEC", b"EXEK") + second + command("SET", "c", "3")
    kept, _ = _mended(tmp_path, damaged)
    assert kept == second + command("SET", "c", "3")


def test_a_command_that_would_empty_the_store_is_never_kept(tmp_path: Path) -> None:
    kept, result = _mended(tmp_path, SINGLES[0] + command("FLUSHALL") + SINGLES[1] + SINGLES[2])
    assert kept == b"".join(SINGLES[:3])
    assert result.gaps == 1


def test_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    kept, result = _mended(tmp_path, WHOLE + command("SET", "late", "value")[:-4])
    assert kept == WHOLE
    assert result.gaps == 1


@settings(max_examples=60, deadline=None)
@given(junk=st.binary(max_size=200), place=st.integers(0, 4))
def test_junk_between_commands_never_reaches_redis(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, place: int
) -> None:
    data = b"".join(SINGLES[:place]) + junk + b"".join(SINGLES[place:])
    kept, _ = _mended(tmp_path_factory.mktemp("aof"), data)
    at = 0
    while at < len(kept):
        parsed = command_at(kept, at)
        assert parsed is not None
        at = parsed[1]
