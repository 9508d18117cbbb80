"""A support bundle: texts without secrets and personal data, in one compressed archive."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cluster.log import REDACTED, redact

LAST_BYTES = 200_000
"Bytes of each log that the bundle takes, from its end."
MOST_LOGS = 60

_PERSON_FIELD = re.compile(
    r"(?i)(^|_)(user|user_id|users|anonymous_id|reader|readers|username|person|email|name|by|ip|address|client|owner|query|"
    r"question|text|body|hostname|location)$"
)
_SECRET_FIELD = re.compile(
    r"(?i)(secret|password|token|authorization|api_key|master_key|cookie|url$|requirepass|masterauth)"
)
_IN_TEXT = (
    re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"),
    re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"),
    re.compile(r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}(?![0-9a-f:])"),
)
_NAMED_IN_TEXT = re.compile(r"(?i)\b(user_id|anonymous_id|username|user)([\"'=: ]{1,6})[^\s\"',}\])]+")
_USER_KEY = re.compile(r"\b([ua]):[^\s\"',}\])]+")


def redact_value(value: Any, field: str = "") -> Any:
    """Return JSON without secrets, query strings, addresses and user ids."""
    if isinstance(value, Mapping):
        return {str(name): redact_value(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_value(inner, field) for inner in value]
    if isinstance(value, str):
        if value and (_SECRET_FIELD.search(field) or _PERSON_FIELD.search(field)):
            return REDACTED
        return redact_text(value)
    return value


def redact_text(text: str) -> str:
    """Return text without secrets, query strings, addresses and user ids. Cost: linear in the text."""
    text = redact(text)
    for pattern in _IN_TEXT:
        text = pattern.sub(REDACTED, text)
    return _USER_KEY.sub(rf"\1:{REDACTED}", _NAMED_IN_TEXT.sub(rf"\1\2{REDACTED}", text))


def redact_log(text: str) -> str:
    """Return the lines of a log without secrets and personal data; lines that are JSON keep their form."""
    return "".join(_redact_line(line) + "\n" for line in text.splitlines())


def _redact_line(line: str) -> str:
    if line.startswith("{"):
        try:
            return json.dumps(redact_value(json.loads(line)), ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return redact_text(line)


def read_last_lines(path: Path) -> str:
    """Return the whole lines at the end of a log."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LAST_BYTES))
        text = file.read().decode("utf-8", "replace")
    # The first line was cut, and half a JSON line hides which fields are to be struck out.
    return text if size <= LAST_BYTES else text.partition("\n")[2]


def find_logs(folders: Iterable[Path]) -> list[Path]:
    """Return the logs below some folders, the newest first."""
    logs = {
        path
        for folder in folders
        for pattern in (
            "worker-*.err",
            "serve/*.log",
            "supervisor.log",
            "redis.log",
            "raylet.out",
            "gcs_server.out",
        )
        for path in folder.glob(pattern)
        # No links: they could lead to any file of the machine.
        if path.is_file() and not path.is_symlink()
    }
    return sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_LOGS]


def write_bundle(out: Path, parts: Mapping[str, Any], logs: Iterable[Path], now_s: int) -> list[str]:
    """Write an archive that only its owner can read; return the names of its files.

    Texts become `<name>.txt`, everything else JSON.

    Errors:
        OSError: the file can't be written
    """
    names = []
    scratch = out.with_name(f".{out.name}.part")
    # Before the first byte: nobody else may read it while it is written.
    scratch.touch(mode=0o600)
    try:
        with tarfile.open(scratch, "w:gz") as archive:

            def add(name: str, text: str) -> None:
                data = text.encode("utf-8", "replace")
                entry = tarfile.TarInfo(f"kiosk-support/{name}")
                entry.size = len(data)
                entry.mtime = now_s
                entry.mode = 0o600
                archive.addfile(entry, io.BytesIO(data))
                names.append(name)

            for name, part in parts.items():
                if isinstance(part, str):
                    add(f"{name}.txt", redact_log(part))
                else:
                    add(
                        f"{name}.json",
                        json.dumps(redact_value(part), indent=1, ensure_ascii=False, default=str) + "\n",
                    )
            for number, path in enumerate(logs):
                try:
                    add(f"logs/{number:02d}-{path.name}", redact_log(read_last_lines(path)))
                except OSError:
                    continue  # rotated away meanwhile
        scratch.replace(out)
    finally:
        scratch.unlink(missing_ok=True)
    return names
