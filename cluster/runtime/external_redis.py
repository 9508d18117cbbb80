"""The Redis that was given from outside: is it there, and who named it."""

from __future__ import annotations

import asyncio
import time

from cluster.errors import Fault, HouseError
from cluster.runtime.places import Places
from cluster.settings import Settings
from cluster.store.address import Address
from cluster.store.connect import open_stores

WAIT_S = 10.0
"A server that was started together with us may need that long."
PAUSE_S = 0.5


def await_external_redis(settings: Settings, within_s: float = WAIT_S) -> None:
    """Wait until the given Redis answers.

    Errors:
        Fault: it does not; names the address without its password, and the setting
        Invalid: the setting holds no address of a Redis
    """
    assert settings.redis_url is not None
    url, until = settings.redis_url.get_secret_value(), time.monotonic() + within_s
    place = Address.parse(url).place
    while True:
        try:
            asyncio.run(_greet(url))
            return
        except HouseError as error:
            if time.monotonic() >= until:
                reason = error.facts.get("reason") or error.message
                raise Fault(
                    f"the Redis at {place} can't be reached ({reason}); start it, or correct {_named_by(settings)}"
                ) from None
        time.sleep(PAUSE_S)


async def _greet(url: str) -> None:
    async with open_stores(url) as stores:
        await stores.info("server")


def _named_by(settings: Settings) -> str:
    """Name the variable that a person set: the first process turns KIOSK_REDIS_URL into a file of its own."""
    path, own = settings.redis_url_file, Places.of(settings.data_dir).secrets_dir
    return "KIOSK_REDIS_URL" if path is None or path.parent == own else "KIOSK_REDIS_URL_FILE"
