"""Checks of a Redis outside the installation: whether it answers, and which variable names it."""

from __future__ import annotations

import asyncio
import time

from cluster.errors import Fault, KioskError
from cluster.paths import InstallationPaths
from cluster.settings import Settings
from cluster.store.client.address import Address
from cluster.store.client.discovery import ClusterMap, build_locator
from cluster.store.client.handshake import dial_located
from cluster.store.client.multiplexer import ConnectionObserver

WAIT_S = 10.0
"Seconds that a server started together with Kiosk may need."
PAUSE_S = 0.5
SILENCE_S = 3.0
"Seconds of one attempt."


def wait_for_redis(settings: Settings, within_s: float = WAIT_S) -> None:
    """Wait until the external Redis answers.

    Errors:
        Fault: it does not; names the address without its password, and the setting
        Invalid: the setting holds no address of a Redis
    """
    text = settings.redis_address
    assert text is not None
    until = time.monotonic() + within_s
    address = Address.parse(text)
    while True:
        try:
            asyncio.run(_ping(address))
            return
        except KioskError as error:
            if time.monotonic() >= until:
                reason = error.facts.get("reason") or error.message
                advice = f"start it, or correct {_naming_variable(settings)}"
                raise Fault(f"the Redis at {address.place} can't be reached ({reason}); {advice}") from None
        time.sleep(PAUSE_S)


async def _ping(address: Address) -> None:
    if address.kind == "cluster":
        await ClusterMap(address).read()
        return
    dial = dial_located(address, build_locator(address))
    wire = await dial(ConnectionObserver(lambda: None, lambda late: None, lambda lost: None), SILENCE_S)
    wire.disconnect("it was only asked whether somebody is there")


def _naming_variable(settings: Settings) -> str:
    """Return the variable that the operator set: the first process replaces KIOSK_REDIS_URL by a file."""
    path = settings.redis_url_file
    secrets_dir = InstallationPaths.from_data_dir(settings.data_dir).secrets_dir
    return "KIOSK_REDIS_URL" if path is None or path.parent == secrets_dir else "KIOSK_REDIS_URL_FILE"
