"""`python -m jobs.ingest.upload APP IMPORT`: carries out a started import; API replicas start this program."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys

from cluster.clock import SystemClock
from cluster.errors import KioskError, Unavailable
from cluster.log import open_stderr, set_up_logging
from cluster.machine_memory import available_memory
from cluster.process.artifact_access import open_artifact_store
from cluster.process.disk_guard import DiskGuard
from cluster.records.file_import import ImportProgress
from cluster.settings import Settings
from cluster.store.connect import open_stores
from jobs.ingest.upload.upload_ingest import UploadedFileIngest

BEHIND_REQUESTS = 10
"Niceness of an import beside API replicas."
LEAST_MEMORY = 4 << 30
"Bytes of address space that an import gets at least; half of what is free where that is more."


def main() -> int:
    """Import one file and return the exit code: 0 finished, 1 not, 2 wrong use."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python -m jobs.ingest.upload APP IMPORT\n")
        return 2
    os.nice(BEHIND_REQUESTS)
    # A small file of Parquet can stand for any amount of data.
    most = max(LEAST_MEMORY, available_memory() // 2)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    set_up_logging(stream=open_stderr(), process="import")
    try:
        progress = asyncio.run(_import(sys.argv[1], sys.argv[2], Settings()))
    except KioskError as error:
        sys.stderr.write(f"import stopped: {error.message}\n")
        return 1
    return int(progress.status != "finished")


async def _import(app_id: str, import_id: str, settings: Settings) -> ImportProgress:
    if (address := settings.redis_address) is None:
        raise Unavailable("no Redis is known: start the system first, or set KIOSK_REDIS_URL")
    clock = SystemClock()
    why_full = DiskGuard(settings.data_dir, settings.disk_limit, clock).refusal_reason
    artifacts = open_artifact_store(settings)
    async with open_stores(address, slow_s=10.0, is_serving=False) as stores:
        work = UploadedFileIngest(
            stores,
            artifacts,
            settings.data_dir / "ingest",
            clock,
            node=socket.gethostname(),
            why_full=why_full,
        )
        return await work.run(app_id, import_id)


if __name__ == "__main__":
    sys.exit(main())
