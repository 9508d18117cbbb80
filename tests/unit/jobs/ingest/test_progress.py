"""How far an ingest is: kept whole, continued only over the same files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.errors import Conflict, Fault, Unavailable
from jobs.ingest.files.sources import find_files
from jobs.ingest.progress import IngestRun
from jobs.ingest.validation import RejectedRow


def test_an_unfinished_run_is_continued_and_a_finished_one_begun_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a":1}')
    files = find_files(str(tmp_path / "a.jsonl"))
    run = IngestRun.of(tmp_path / "state", "shop", "user")
    progress = run.begin(files, 5, restart=False)
    run.save(replace(progress, row=7, pending={"place": [0, 0, 0], "after": "1-0"}))
    again = IngestRun.of(tmp_path / "state", "shop", "user").begin(files, 9, restart=False)
    assert (again.row, again.started_ms, again.pending["after"]) == (7, 5, "1-0")
    assert run.begin(files, 9, restart=True).row == 0
    run.save(replace(again, finished=True))
    assert run.begin(files, 11, restart=False).started_ms == 11


def test_a_changed_file_is_not_continued(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"a":1}')
    run = IngestRun.of(tmp_path / "state", "x")
    run.begin(find_files(str(source)), 5, restart=False)
    source.write_text('{"a":1}{"a":2}')
    with pytest.raises(Conflict):
        run.begin(find_files(str(source)), 5, restart=False)
    run.begin(find_files(str(source)), 5, restart=True)


def test_damaged_progress_is_a_fault_and_not_a_new_beginning(tmp_path: Path) -> None:
    run = IngestRun.of(tmp_path, "x")
    run.begin([], 5, restart=False)
    (run.folder / "progress.json").write_bytes(b'{"half')
    with pytest.raises(Fault):
        run.begin([], 5, restart=False)


def test_progress_and_refused_rows_survive_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, Path.replace

    def note_sync(handle: int) -> None:
        steps.append("sync " + Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def note_rename(path: Path, target: Path) -> Path:
        steps.append("rename " + path.name)
        return rename(path, target)

    run = IngestRun.of(tmp_path, "x")
    progress = run.begin([], 5, restart=False)
    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_rename)
    run.save(run.quarantine_rows(progress, "a.csv", [RejectedRow(1, "bad", "row")]))
    assert steps == [
        "sync quarantine.jsonl",
        "sync progress.part",
        "rename progress.part",
        f"sync {run.folder.name}",
    ]


def test_refused_rows_of_a_repeated_chunk_stand_once(tmp_path: Path) -> None:
    run = IngestRun.of(tmp_path, "x")
    progress = run.begin([], 5, restart=False)
    kept = run.quarantine_rows(progress, "a.csv", [RejectedRow(1, "bad", "row")])
    run.save(kept)
    run.quarantine_rows(kept, "a.csv", [RejectedRow(2, "bad", "row")])  # killed before this was noted
    again = run.begin([], 5, restart=False)
    run.quarantine_rows(again, "a.csv", [RejectedRow(2, "bad", "row")])
    lines = run.quarantine.read_text().splitlines()
    assert len(lines) == 2
    assert (again.refused, kept.quarantine_bytes > 0) == (1, True)


def test_different_orders_are_different_runs(tmp_path: Path) -> None:
    assert IngestRun.of(tmp_path, "a", "bc").folder != IngestRun.of(tmp_path, "ab", "c").folder


def test_what_could_not_be_applied_stands_there_and_is_no_refusal(tmp_path: Path) -> None:
    run = IngestRun.of(tmp_path, "x")
    progress = run.begin([], 5, restart=False)
    noted = run.quarantine_rows(
        progress, "a.csv", [RejectedRow(1, "bad", "row")], [RejectedRow(2, "3 of 9 failed", "")]
    )
    assert (noted.refused, noted.quarantine_bytes) == (1, len(run.quarantine.read_bytes()))
    assert len(run.quarantine.read_text().splitlines()) == 2


def test_of_two_processes_with_the_same_ingest_one_is_turned_away(tmp_path: Path) -> None:
    first, second = IngestRun.of(tmp_path, "x"), IngestRun.of(tmp_path, "x")
    with first.lock():
        with pytest.raises(Conflict, match="at work"), second.lock():
            pass
        with pytest.raises(Conflict, match="at work"):
            second.reset()
    with second.lock():
        pass


def test_a_run_that_was_forgotten_begins_at_the_first_row(tmp_path: Path) -> None:
    run = IngestRun.of(tmp_path, "x")
    run.save(replace(run.begin([], 5, restart=False), row=7, finished=True))
    run.reset()
    assert run.begin([], 9, restart=False, once=True).row == 0
    IngestRun.of(tmp_path, "never begun").reset()


def test_whoever_goes_on_learns_how_large_the_lots_were(tmp_path: Path) -> None:
    run = IngestRun.of(tmp_path, "x")
    run.begin([], 5, restart=False, chunk=2_000)
    assert run.begin([], 6, restart=False, chunk=500).chunk == 2_000


def test_a_read_only_folder_has_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    run = IngestRun.of(tmp_path / "state", "x")
    with pytest.raises(Unavailable, match="--state"), run.lock():
        pass
    with pytest.raises(Unavailable, match="--state"):
        run.begin([], 5, restart=True)
