"""Redis over TLS with an authority of our own and a client certificate; and its password from a file that is replaced.

The servers that the packages bring speak no TLS, so an end of TLS stands before a real one, as stunnel does.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.errors import Unavailable
from cluster.settings import Settings
from cluster.store.connect import open_stores
from tests.fakes.certificates import Authority
from tests.suites.doing import require
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

pytestmark = pytest.mark.redis

CLIENTS = pytest.mark.parametrize("is_serving", [True, False], ids=["multiplexed", "redis-py"])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
async def port(authority: Authority, private_server: RedisProcess) -> AsyncIterator[int]:
    """An end of TLS that asks for client certificates and passes everything on to Redis."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.file))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.issue("server"))
    tasks = set[asyncio.Task[None]]()
    writers = list[asyncio.StreamWriter]()

    async def pump(incoming: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await incoming.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(incoming: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = require(asyncio.current_task())
        tasks.add(task)
        there, back = await asyncio.open_unix_connection(str(private_server.socket))
        writers.extend((writer, back))
        await asyncio.gather(pump(incoming, back), pump(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for task in tasks:
        task.cancel()
    # A cancelled task closes nothing, and a socket that is left open fails a later test.
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*tasks, *(writer.wait_closed() for writer in writers), return_exceptions=True)
    await server.wait_closed()


@CLIENTS
async def test_settings_lead_to_a_server_that_knows_us_by_certificate(
    authority: Authority, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_serving: bool
) -> None:
    certificate, key = authority.issue("client")
    for name, text in {
        "URL": f"rediss://127.0.0.1:{port}/0", "CA": authority.file, "CERT": certificate, "KEY": key,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"KIOSK_REDIS_{name}", str(text))
    address = require(Settings(data_dir=tmp_path).redis_address)
    async with open_stores(address, **EASY, is_serving=is_serving) as stores:
        assert await stores.leases.hold("one", "me", 1000)


@CLIENTS
async def test_without_our_certificate_or_their_authority_we_are_refused(
    authority: Authority, port: int, tmp_path: Path, is_serving: bool
) -> None:
    certificate, key = authority.issue("client")
    stranger = Authority(tmp_path, "stranger")
    for query in (
        f"ssl_ca_certs={authority.file}",
        f"ssl_ca_certs={stranger.file}&ssl_certfile={certificate}&ssl_keyfile={key}",
        f"ssl_certfile={certificate}&ssl_keyfile={key}",
        f"ssl_ca_certs={tmp_path}/none.pem",
    ):
        async with open_stores(
            f"rediss://127.0.0.1:{port}/0?{query}", **EASY, is_serving=is_serving
        ) as stores:
            with pytest.raises(Unavailable):
                await stores.access.version()


@CLIENTS
async def test_a_replaced_password_file_needs_no_restart(
    private_server: RedisProcess, tmp_path: Path, is_serving: bool
) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    private_server.say("ACL", "SETUSER", "default", "resetpass", ">first")
    url = f"{private_server.url}?password_file={file}"
    async with open_stores(url, **EASY, is_serving=is_serving) as stores:
        assert await stores.leases.hold("one", "me", 1000)
        file.write_text("second\n")
        async with open_stores(private_server.url.replace("unix://", "unix://:first@")) as administrator:
            await administrator.server.execute_slow("ACL", "SETUSER", "default", "resetpass", ">second")
            await administrator.server.execute_slow("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        until = asyncio.get_running_loop().time() + 5
        while True:
            with contextlib.suppress(Unavailable):
                if await stores.leases.hold("one", "me", 1000):
                    break
            assert asyncio.get_running_loop().time() < until
            await asyncio.sleep(0.05)
