"""Starts writers of the log of answers quickly: imports everything once, then forks a child for every line it reads.

Run as `python -m tests.suites.served_log_process <redis url> <journal>`; answers every line with the child's pid. A
child answers about 400 calls a second and appends each id with its time to the journal before the log has it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from cluster.clock import SystemClock
from cluster.records.archive.archive_client import ArchiveCall
from cluster.store.connect import open_stores
from deployments.api.http.served_log_writer import ServedLogWriter

APP = "shop"
PAUSE_S = 0.0025


async def answer_calls(url: str, journal: int) -> None:
    """Log an answer every few milliseconds until killed."""
    clock, number = SystemClock(), 0
    async with open_stores(url, slow_s=10.0) as stores:
        writer = ServedLogWriter(stores.served, clock, find_mode=lambda app_id: "on")
        await writer.start()
        while True:
            number += 1
            call_id = f"{os.getpid()}-{number}"
            os.write(journal, f"{os.getpid()} {call_id} {time.monotonic()}\n".encode())
            call = ArchiveCall(clock.now_ms(), "search", "c", "c", call_id=call_id, articles=("a", "b"))
            writer.record_call(APP, call)
            await asyncio.sleep(PAUSE_S)


def main() -> None:
    """Fork a child a line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    journal = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(answer_calls(sys.argv[1], journal))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
