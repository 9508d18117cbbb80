"""Apps in a Redis server, written and read with deadlines that a server with a slow disk keeps."""

from __future__ import annotations

from cluster.records.apps import App
from cluster.store.connect import open_stores


async def put_apps(url: str, *app_ids: str) -> None:
    """Store apps."""
    async with open_stores(url, slow_s=10.0) as stores:
        for app_id in app_ids:
            await stores.access.put_app(App(app_id=app_id, environment="development", created_at=1))


async def list_app_ids(url: str) -> set[str]:
    """List the stored apps."""
    async with open_stores(url, slow_s=10.0) as stores:
        return set((await stores.access.read_all()).apps)
