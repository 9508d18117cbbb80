"""The progress display and the summary of an ingest: accepted rows, rate and rejected rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cluster.errors import KioskError, Unavailable
from jobs.ingest.files.sources import PlainFiles
from jobs.ingest.mappings.column_proposal import propose_for_file
from jobs.ingest.pipeline import IngestReport, IngestSpec
from jobs.ingest.preview import IngestPreview, preview_ingest
from jobs.ingest.progress import IngestProgress
from jobs.ingest.validation import RejectionReason

_LONGEST_SAMPLE = 2_000


class IngestDisplay:
    """Draws progress on standard error and the summary on standard output.

    With `as_json`, standard output is reserved for the JSON object, so the summary goes to standard error too.
    """

    def __init__(self, console: Console | None = None, *, as_json: bool = False) -> None:
        self._console = Console(stderr=True) if console is None else console
        self._summary = self._console if as_json or console is not None else Console()
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bars.add_task("ingest", total=None, counts="reading the first rows")
        self._first: int | None = None

    def __enter__(self) -> IngestDisplay:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, progress: IngestProgress) -> None:
        """Update the display with the progress of the ingest."""
        # A continued ingest begins with the rows of earlier runs, which took none of this time.
        if self._first is None:
            self._first = progress.rows
        elapsed_s = self._bars.tasks[self._task].elapsed or 0.0
        rate = (progress.rows - self._first) / elapsed_s if elapsed_s else 0.0
        files = len(progress.sources)
        self._bars.update(
            self._task,
            description=f"file {min(progress.file + 1, files)} of {files}",
            completed=progress.file,
            total=files,
            counts=f"{progress.rows:,} rows  {rate:,.0f}/s  {progress.refused:,} refused",
        )

    def show_file_report(self, address: str, report: IngestReport) -> None:
        """Print the result of one of several files."""
        self._summary.print(
            # Without markup: rich would read brackets in the name of a file as a style.
            f"{report.accepted:,} accepted, {report.refused:,} refused, {report.failed:,} failed: {address}",
            markup=False,
            highlight=False,
        )

    def show_report(self, report: IngestReport) -> None:
        """Print the result of the ingest."""
        self._summary.print(
            f"{report.accepted:,} accepted, {report.refused:,} refused, {report.failed:,} failed; "
            f"{report.rows:,} rows in {report.seconds:.1f} s ({report.rows_per_s:,.0f}/s)",
            highlight=False,
        )
        print_rejections(self._summary, report.reasons, report.warnings)
        if report.already:
            self._summary.print("all of it was in already; --restart takes it a second time", highlight=False)
        if report.quarantine is not None:
            self._summary.print(
                f"refused rows and reasons: {report.quarantine}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def print_rejections(console: Console, reasons: Sequence[RejectionReason], warnings: Sequence[str]) -> None:
    """Print the most frequent reasons with an example each, and the warnings."""
    for reason in reasons:
        example = f" For example row {reason.row:,}: {reason.example[:160]}" if reason.example else ""
        console.print(
            f"{reason.count:,} refused: {reason.text}{example}", markup=False, highlight=False, soft_wrap=True
        )
    for warning in warnings:
        console.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)


def show_files(order: IngestSpec, *, is_guess: bool, as_json: bool, now_ms: int) -> int:
    """Print a proposed mapping or the result of a dry run; return the exit code.

    Errors:
        Invalid: there is no file, it does not have its format, or the mapping is invalid
    """
    if is_guess:
        show_proposal(order, as_json=as_json)
        return 0
    preview = preview_ingest(order, now_ms=now_ms)
    show_preview(order, preview, as_json=as_json)
    return 1 if preview.refused else 0


def show_preview(order: IngestSpec, preview: IngestPreview, *, as_json: bool) -> None:
    """Print the result of a dry run on standard output."""
    if as_json:
        fields = {
            "app_id": order.app_id,
            "noun": order.noun,
            "address": order.address,
            "dry_run": True,
            "rows": preview.rows,
            "accepted": preview.accepted,
            "refused": preview.refused,
            "reasons": _reasons_json(preview.reasons),
            "warnings": list(preview.warnings),
            "samples": list(preview.samples),
        }
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        return
    console = Console()
    for number, record in enumerate(preview.samples, 1):
        console.print(f"record {number}", highlight=False)
        text = json.dumps(record, ensure_ascii=False, indent=2)[:_LONGEST_SAMPLE]
        console.print(text, markup=False, highlight=False)
    console.print(
        f"{preview.accepted:,} of the first {preview.rows:,} rows would be accepted, {preview.refused:,} refused; "
        "nothing was written",
        highlight=False,
    )
    print_rejections(console, preview.reasons, preview.warnings)


def show_proposal(order: IngestSpec, *, as_json: bool) -> None:
    """Print a proposed mapping on standard output: a map file with the columns as comments.

    Errors:
        Invalid: there is no file, or it does not have its format
    """
    files = PlainFiles(order.format, order.layout)
    proposal = propose_for_file(files.find(order.address)[0], files, order.noun)
    columns = proposal.columns
    rules = proposal.rules
    encoding = proposal.encoding
    if as_json:
        fields = {
            "noun": order.noun,
            "mapping": list(rules),
            "encoding": encoding,
            "columns": [column.to_dict() for column in columns],
        }
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
        return
    lines = ["# Proposed rules. Check them, then name this file with --map-file."]
    if encoding:
        lines.append(f"# The file looks like {encoding} text: add --encoding {encoding}.")
    of_columns = {column.rule for column in columns if column.rule}
    for column in columns:
        samples = " ".join(json.dumps(sample, ensure_ascii=False) for sample in column.samples)
        lines += [f"# {json.dumps(column.name, ensure_ascii=False)}: {column.kind} {samples}".rstrip()]
        lines.append(column.rule or "#   not used")
    lines += [rule for rule in rules if rule not in of_columns]
    sys.stdout.write("\n".join(lines) + "\n")


def _reasons_json(reasons: Sequence[RejectionReason]) -> list[dict[str, object]]:
    return [
        {"reason": reason.text, "count": reason.count, "row": reason.row, "example": reason.example}
        for reason in reasons
    ]


def print_report_json(order: IngestSpec, report: IngestReport) -> None:
    """Print the result of an ingest as one JSON object on standard output."""
    fields = {
        "app_id": order.app_id,
        "noun": order.noun,
        "address": order.address,
        "rows": report.rows,
        "accepted": report.accepted,
        "refused": report.refused,
        "failed": report.failed,
        "already": report.already,
        "seconds": round(report.seconds, 3),
        "rows_per_s": round(report.rows_per_s, 1),
        "reasons": _reasons_json(report.reasons),
        "warnings": list(report.warnings),
        "quarantine": None if report.quarantine is None else str(report.quarantine),
    }
    sys.stdout.write(json.dumps(fields) + "\n")


def print_stop(error: KioskError, as_json: bool) -> int:
    """Print the error that stopped the ingest; return the exit code."""
    if as_json:
        sys.stdout.write(json.dumps({"error": {"code": error.code, "message": error.message}}) + "\n")
    sys.stderr.write(f"ingest stopped: {error.message}\n")
    return 3 if isinstance(error, Unavailable) else 2
