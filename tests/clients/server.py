"""The archive on a port of its own, without Ray: memory stores, a small archive, one account.

    python -m tests.clients.server PORT

Prints one line when it answers. KIOSK_USER and KIOSK_PASSWORD name the account; with KIOSK_CLIENTS_FORGET the book of
calls is thrown away, which otherwise grows in this process. It knows the client of the metadata document at DOCUMENT.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

import uvicorn
from starlette.applications import Starlette

from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.records.account import Account, hash_password
from cluster.records.archive.archive_client import ArchiveCall
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.oauth.client_identity.metadata_validation import read_client_document
from deployments.archive.services import build_archive_routes, open_archive
from tests.fakes.archive import SmallArchive, sample_articles
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores
from tests.fakes.stores.query_log import MemoryLogStream

DOCUMENT = "https://client.example/oauth/client.json"
"Address of a metadata document that is pinned, so nothing is fetched."
_REDIRECTS = [
    "http://localhost/callback",
    "http://127.0.0.1/callback",
    "http://localhost/oauth/callback",
    "http://127.0.0.1/oauth/callback",
]


async def main(port: int) -> None:
    """Serve until told to stop."""
    clock = SystemClock()
    stores = memory_stores(clock)
    if os.environ.get("KIOSK_CLIENTS_FORGET"):
        stores = replace(stores, archive_calls=_Forgetful(clock))
    account = Account(
        username=os.environ["KIOSK_USER"],
        user_id="u-1",
        password=hash_password(os.environ["KIOSK_PASSWORD"]),
        created_at=clock.now_ms(),
    )
    await stores.accounts.add(account)
    document = {"client_id": DOCUMENT, "client_name": "Client with a document", "redirect_uris": _REDIRECTS}
    client = read_client_document(DOCUMENT, json.dumps(document).encode()).client
    config = ArchiveConfig(port=port, client_documents="pinned", pinned_clients={DOCUMENT: client})
    services = open_archive(stores, Vault(MASTER), SmallArchive(sample_articles()), clock, config)
    await services.start()
    app = Starlette(routes=build_archive_routes(services))
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    telling = asyncio.create_task(_report_ready(server))
    try:
        await server.serve()
    finally:
        telling.cancel()
        await services.close()


class _Forgetful(MemoryLogStream[ArchiveCall]):
    async def append(self, app_id: str, rows: Sequence[ArchiveCall]) -> bool:
        return True


async def _report_ready(server: uvicorn.Server) -> None:
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.02)
    print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
