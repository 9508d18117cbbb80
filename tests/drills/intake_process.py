"""Starts intakes quickly: imports everything once, then forks a child for every line it reads.

Run as `python -m tests.drills.intake_process <redis url> <shelf>`; answers every line with the child's pid.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import structlog

from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.connect import open_stores


async def live(url: str, artifacts: str) -> None:
    """Apply and settle until killed."""
    settle = CompactionConfig(every_s=0.05)
    rules = IntakeConfig(
        block_ms=20, apps_every_s=0.05, lease_ms=300, compaction_pause_s=0.05, compaction=settle
    )
    async with open_stores(url, slow_s=10.0) as stores:
        segments, embedder = SegmentStore(ArtifactStore.open(artifacts)), HashingEmbedder()
        owner = str(os.getpid())
        loop = IntakeLoop(stores, segments, embedder, SystemClock(), SilentMeter(), owner=owner, rules=rules)
        await loop.run()


def main() -> None:
    """Fork a child a line."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(live(sys.argv[1], sys.argv[2]))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
