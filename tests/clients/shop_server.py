"""The REST interface on a port of its own, without Ray: memory stores, an empty app, a recommender.

    python -m tests.clients.shop_server PORT

Prints one line of JSON with the keys when it answers.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvicorn

from cluster.clock import SystemClock
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.contract.example_player import ExamplePlayer

_EVERY_S = 0.05


async def main(port: int) -> None:
    """Serve until told to stop, and apply what is uploaded."""
    player = await ExamplePlayer.open(SystemClock())
    corner = player.corner
    app = HotPathMiddleware(build_application(corner.handler, version="0"), lambda: corner.handler)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    applying = asyncio.create_task(_apply(player, server))
    try:
        await server.serve()
    finally:
        applying.cancel()
        await player.close()


async def _apply(player: ExamplePlayer, server: uvicorn.Server) -> None:
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.02)
    keys = {"secret_key": player.corner.secret(), "publishable_key": player.corner.publishable()}
    print(json.dumps({"ready": True, **keys}), flush=True)
    while True:
        await player.apply()
        await asyncio.sleep(_EVERY_S)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
