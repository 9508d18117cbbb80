"""`kiosk logs`: the logs of all processes of this machine in one place."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from cluster.clock import SystemClock, iso_ms
from cluster.errors import Invalid
from cluster.local.log_files import LEVELS, LogLine, read_log_files
from cluster.log import redact
from cluster.records.field_types.times import parse_span_ms
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.operations.insight.support_bundle import find_logs

FOLLOW_S = 1.0
EPILOG = """
[bold]Examples[/]

  kiosk logs                                the newest 200 lines of all processes
  kiosk logs 3e75f0791d05                   the lines of one request: the id that an error page shows
  kiosk logs --level error --since 1h
  kiosk logs --follow

`kiosk up` prints the folder: logs of the supervisor and of Redis, and below `processes` those of all others.
"""
_HEAD = ("timestamp", "level", "event", "process", "pid", "exception")


def logs(
    text: Annotated[str, typer.Argument(help="Only lines with this text, for example a request id.")] = "",
    level: Annotated[
        str, typer.Option(help=f"Only this level and more severe ones: {', '.join(LEVELS)}.")
    ] = "",
    since: Annotated[str, typer.Option(help="How far back: a number and m, h, d or w.")] = "",
    lines: Annotated[int, typer.Option(help="Most lines.", min=1, max=100_000)] = 200,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new lines until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each line.")] = False,
) -> None:
    """Show the logs of all processes of this machine."""
    if level and level not in LEVELS:
        raise Invalid(f"--level: {level!r} is no level; choose from {', '.join(LEVELS)}")
    now_ms = SystemClock().now_ms()
    begin = iso_ms(now_ms - parse_span_ms(since)) if since else ""
    places = Installation().places
    folders = [places.logs_dir, places.ray_logs_dir]
    seen: set[str] = set()
    while True:
        shown = read_log_files(find_logs(folders), text=text, level=level, since=begin, most=lines)
        for line in shown:
            if line.text not in seen:
                _show(line, as_json=as_json)
        if not follow:
            return
        seen = {line.text for line in shown}
        time.sleep(FOLLOW_S)


def _show(line: LogLine, *, as_json: bool) -> None:
    """Print a line; for people in the order time, level, process, event, fields, and the exception below."""
    fields = line.fields
    if as_json:
        screen.print_json({"at": line.at, "level": line.level, "file": line.file, "line": line.text})
        return
    if not fields:
        lines = [f"{line.at[:19]}  {line.file}  {line.text}"]
    else:
        process = f"{fields.get('process', line.file)}/{fields.get('pid', '')}".rstrip("/")
        more = "  ".join(
            f"{name}={redact(str(value))}" for name, value in fields.items() if name not in _HEAD
        )
        event = redact(str(fields.get("event", "")))
        lines = [f"{line.at[:19]}  {line.level:<8} {process}  {event}  {more}".rstrip()]
        lines += [
            f"    {exception_line}"
            for exception_line in redact(str(fields.get("exception") or "")).splitlines()
        ]
    # Clients chose parts of them, for example a path.
    screen.print_lines(*map(screen.remove_controls, lines))
