"""Files of a machine: refused rows are overwritten where they stand, damaged copies go."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from cluster.admin.local_person_files import LocalPersonFiles
from cluster.records.erasure import COPIES, REFUSED, Person

ADA = Person(app_id="shop", user_id="ada", anonymous_ids=("v-1",))


def test_rows_are_overwritten_in_place_so_that_an_ingest_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "ingest" / "run"
    folder.mkdir(parents=True)
    rows = [
        orjson.dumps({"file": "a", "row": n, "reason": "no", "text": f'{{"user_id":"{name}","x'})
        for n, name in enumerate(["bob", "ada", "adam"])
    ]
    path = folder / "quarantine.jsonl"
    path.write_bytes(b"\n".join(rows) + b"\n")
    before = path.stat().st_size
    files = LocalPersonFiles(tmp_path)
    with path.open("ab") as at_work:
        assert len(files.find(ADA)[REFUSED]) == 1
        files.erase(ADA)
        at_work.write(b'{"row":9}\n')
    lines = path.read_bytes().splitlines()
    assert path.stat().st_size == before + 10
    assert [orjson.loads(line) for line in lines] == [
        orjson.loads(rows[0]), {"reason": "erased"}, orjson.loads(rows[2]), {"row": 9},
    ]  # fmt: skip
    assert files.find(ADA)[REFUSED] == []


def test_only_copies_that_hold_the_person_go(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    names = ["appendonly.aof", "appendonly.aof.damaged-1", "appendonly.aof.damaged-2"]
    for name, text in zip(names, [b"ada", b"$3 ada", b"$3 bob"], strict=True):
        (tmp_path / "redis" / name).write_bytes(text)
    files = LocalPersonFiles(tmp_path)
    assert files.find(ADA)[COPIES] == ["appendonly.aof.damaged-1"]
    files.erase(ADA)
    assert sorted(os.listdir(tmp_path / "redis")) == ["appendonly.aof", "appendonly.aof.damaged-2"]
