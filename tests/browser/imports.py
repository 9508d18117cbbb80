"""A signed-in browser before a console whose imports run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.store.connect import OpenStores
from jobs.ingest.upload.upload_ingest import UploadedFileIngest
from tests.browser.stage import Tab, open_browser, open_stage


@asynccontextmanager
async def open_import_tab(
    stores: OpenStores, folder: Path
) -> AsyncIterator[tuple[Tab, list[asyncio.Task[Any]]]]:
    """Yield the page and the imports that were started; no page complains in the end."""
    running: list[asyncio.Task[Any]] = []
    artifacts = ArtifactStore.open(folder / "artifacts")

    async def launch(app_id: str, import_id: str) -> None:
        work = UploadedFileIngest(
            stores, artifacts, folder / "ingest", SystemClock(), node="here", beat_s=0.1
        )
        running.append(asyncio.create_task(work.run(app_id, import_id)))

    async with open_stage(stores, folder, launch_import=launch) as stage:
        await stage.add_person()
        async with open_browser() as browser:
            tab = await Tab.open(browser, stage.origin)
            await tab.sign_in()
            await tab.page.get_by_role("heading", level=1).wait_for()
            yield tab, running
            assert tab.complaints == []
