"""Looks at hostile files in processes of their own: they end, and this process neither grows nor waits."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.build_info import package_root
from cluster.errors import Invalid, TooMany
from cluster.records.file_import import FileImport
from cluster.runtime.ray_environment import python_path
from deployments.front.preview_processes import MOST_OF_APP, PreviewProcesses
from deployments.operations.content.file_preview import preview_file
from deployments.operations.content.preview_task import PreviewTask


def environment() -> dict[str, str]:
    """Return the variables of a replica, with a secret among them."""
    return {**os.environ, **python_path(os.environ, package_root()), "KIOSK_LLM_KEY": "sk-secret"}


def a_task(path: Path, kind: Any = "columns", **more: Any) -> PreviewTask:
    """Return a look at a file of products."""
    record = FileImport(
        app_id="shop", import_id="i1", file_name=path.name, format=path.suffix[1:], size=1, sha256="", noun="product",  # type: ignore[arg-type]
        created_at=0,
    )  # fmt: skip
    return PreviewTask(kind=kind, record=record, path=str(path), now_ms=1_760_000_000_000, **more)


def write_bomb(path: Path, rows: int = 20_000) -> Path:
    """Write 50 KB of Parquet that stand for 20 GB: one long text in a dictionary, and many references to it."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * (1 << 20)]))
    pq.write_table(
        pa.table({"product_id": [str(at) for at in range(rows)], "title": texts}), path, compression="zstd"
    )
    return path


async def test_a_file_is_read_as_in_this_process(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"SKU;Name;Preis\na-1;<b>Oak</b>;12,50\n;no id;1,00\n")
    processes = PreviewProcesses(environment)
    for task in (a_task(path), a_task(path, "rows", mapping=("product_id=SKU", "title=Name"), limit=1)):
        preview = json.loads(json.dumps(preview_file(task), default=str))
        assert await processes.preview(task) == preview
    with pytest.raises(Invalid, match="neither field=column"):
        await processes.preview(a_task(path, mapping=("nonsense",)))


@pytest.mark.parametrize("kind", ["columns", "rows"])
async def test_what_expands_without_end_is_refused(tmp_path: Path, kind: str) -> None:
    path = write_bomb(tmp_path / "bomb.parquet")
    assert path.stat().st_size < 100_000
    with pytest.raises(Invalid, match="memory"):
        await PreviewProcesses(environment).preview(a_task(path, kind))


async def test_what_takes_long_is_refused_and_this_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lines.csv"
    path.write_bytes(b"product_id,title\n" + b"\n" * 60_000_000)
    processes = PreviewProcesses(environment, within_s=3.0)
    begun_s = time.monotonic()
    looking = [asyncio.ensure_future(processes.preview(a_task(path))) for _ in range(MOST_OF_APP)]
    await asyncio.sleep(0)
    with pytest.raises(TooMany):
        await processes.preview(a_task(path))
    longest_s, last_s = 0.0, time.monotonic()
    while not looking[0].done():
        await asyncio.sleep(0.01)
        longest_s, last_s = max(longest_s, time.monotonic() - last_s), time.monotonic()
    assert longest_s < 1.0
    assert time.monotonic() - begun_s < 10.0
    for task in looking[1:]:
        task.cancel()
    with pytest.raises(Invalid, match="time"):
        await looking[0]
    await asyncio.gather(*looking[1:], return_exceptions=True)


async def test_a_process_gets_no_secrets(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import json, os; print(json.dumps({'result': dict(os.environ)}))")
    variables = await PreviewProcesses(environment, command=command).preview(a_task(tmp_path / "a.csv"))
    assert not [name for name in variables if name.startswith("KIOSK")]
    assert "sk-secret" not in json.dumps(variables)
