"""Look-ups of an app's record that use cases share."""

from __future__ import annotations

from cluster.errors import NotFound
from cluster.store.stores import Stores


async def require_app(stores: Stores, app_id: str) -> None:
    """Refuse an app that does not exist.

    Errors:
        NotFound: there is no app of that name
    """
    if app_id not in (await stores.access.read_all()).apps:
        raise NotFound(f"there is no app named {app_id}; see `kiosk apps list`")
