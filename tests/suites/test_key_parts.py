"""Keys of every type and of sizes around the limits of a part are read and written again, from any server to any."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cluster
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.process.free_ports import free_ports
from cluster.store.client.key_loader import KeyLoader, KeyPart
from cluster.store.client.key_writer import KeyWriter
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.routing import WRITES
from cluster.store.connect import OpenStores, open_stores
from tests.suites.redis_process import RedisProcess, redis_binaries
from tests.suites.redis_waiting import EASY
from tests.suites.waiting import until

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]

SIZES = (1, 2, 15, 16, 17, 31, 33, 99, 100, 101, 199, 200, 201, 999, 1000, 1001, 2001)
HOUR_MS = 3_600_000
SERVERS = tuple(dict.fromkeys((redis_binaries() or [""])[-1::-1][:2]))
"The newest server and the oldest one."
PAIRS = tuple(itertools.product(range(len(SERVERS)), repeat=2))
KEY = b"{shop}:thing"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[tuple[RedisProcess, RedisProcess]]]:
    """Two servers of each program."""
    if not SERVERS[0]:
        pytest.skip("no Redis server")
    made = [(RedisProcess(binary=binary), RedisProcess(binary=binary)) for binary in SERVERS]
    try:
        for server in itertools.chain(*made):
            server.start()
        yield made
    finally:
        for server in itertools.chain(*made):
            server.stop()


@pytest.fixture(params=PAIRS, ids=str)
async def sides(
    request: pytest.FixtureRequest, servers: list[tuple[RedisProcess, RedisProcess]]
) -> AsyncIterator[tuple[OpenStores, OpenStores]]:
    """An emptied server to read, and one to write."""
    source, target = servers[request.param[0]][0], servers[request.param[1]][1]
    for server in (source, target):
        assert server.say("FLUSHALL") == b"+OK\r\n"
    async with (
        open_stores(source.url, **EASY) as source_stores,
        open_stores(target.url, **EASY) as target_stores,
    ):
        yield source_stores, target_stores


@pytest.fixture
async def stores(servers: list[tuple[RedisProcess, RedisProcess]]) -> AsyncIterator[OpenStores]:
    """The newest server, emptied."""
    assert servers[0][0].say("FLUSHALL") == b"+OK\r\n"
    async with open_stores(servers[0][0].url, **EASY) as stores:
        yield stores


async def read(server: RedisClient, *names: bytes) -> list[KeyPart]:
    """Read keys as a backup does."""
    return [part async for part in KeyLoader(server, SystemClock()).read(names)]


async def write(server: RedisClient, parts: list[KeyPart], seed: int = 0) -> None:
    """Write parts as a restore does, some in each call, after the way through a file."""
    rng = random.Random(seed)
    writer = KeyWriter(server, SystemClock().now_ms())
    while parts:
        count = rng.randint(1, 5)
        some, parts = parts[:count], parts[count:]
        await writer.write(msgspec.msgpack.decode(msgspec.msgpack.encode(some), type=list[KeyPart]))
    await writer.finish()


async def state(server: RedisClient, key: bytes, *, counts: bool = True) -> Any:
    """Read all that a server knows of a key."""
    ask = server.execute_slow
    kind = await ask("TYPE", key)
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    commands: dict[str, tuple[Any, ...]] = {
        "string": ("GET", key), "hash": ("HGETALL", key), "set": ("SMEMBERS", key), "list": ("LRANGE", key, 0, -1),
        "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"), "stream": ("XRANGE", key, "-", "+"),
    }  # fmt: skip
    value: Any = await ask(*commands[kind]) if kind != "none" else None
    if kind == "hash":
        value = dict(zip(value[::2], value[1::2], strict=True))
    elif kind == "set":
        value = set(value)
    elif kind == "zset":  # servers write numbers in more than one way
        value = dict(zip(value[::2], map(float, value[1::2]), strict=True))
    more: list[Any] = []
    if kind == "stream":
        flat = await ask("XINFO", "STREAM", key)
        facts = dict(zip(flat[::2], flat[1::2], strict=True))
        kept = (b"last-generated-id", *((b"entries-added", b"max-deleted-entry-id") if counts else ()))
        more = [facts.get(name) for name in kept]
    life = await ask("PTTL", key)
    return kind, value, more, life if life < 0 else life // HOUR_MS


async def fill(server: RedisClient) -> list[bytes]:
    """Make keys of every type and size; return their names."""
    ask, rng = server.execute_slow, random.Random(7)
    values = [rng.randbytes(rng.choice((0, 1, 30, 300))) + b"%d" % n for n in range(max(SIZES))]
    for size in SIZES:
        some = values[:size]
        await ask(
            "HSET", KEY + b":hash:%d" % size, *itertools.chain(*((b"f" + value, value) for value in some))
        )
        await ask("SADD", KEY + b":set:%d" % size, *some)
        await ask(
            "ZADD",
            KEY + b":zset:%d" % size,
            *itertools.chain(*((n * 0.1, value) for n, value in enumerate(some))),
        )
        await ask("RPUSH", KEY + b":list:%d" % size, *some)
        for n, value in enumerate(some):
            await ask(
                "XADD", KEY + b":stream:%d" % size, f"{n // 3 + 5}-{n % 3}", "field", value, value, "value"
            )
    await ask("SADD", KEY + b":numbers", *range(300))  # another encoding
    await ask("SET", KEY + b":binary\xff\x00\r\n", b"\x00\xff" * 1000)
    await ask("SET", KEY + b":empty", b"")
    await ask("RPUSH", KEY + b":large", *(rng.randbytes(3000) for _ in range(250)))
    for kind in ("hash", "set", "zset", "list", "stream"):
        await ask("PEXPIRE", KEY + f":{kind}:201".encode(), 5 * HOUR_MS + HOUR_MS // 2)
    return list(await ask("KEYS", "*"))


async def test_every_type_and_size_is_there_again(sides: tuple[OpenStores, OpenStores]) -> None:
    source, target = (side.server for side in sides)
    names = await fill(source)
    assert len(names) == 5 * len(SIZES) + 4
    parts = [
        part for first in range(0, len(names), 10) for part in await read(source, *names[first : first + 10])
    ]
    await write(target, parts)
    both_count = [
        b"entries-added" in await server.execute_slow("XINFO", "STREAM", KEY + b":stream:17")
        for server in (source, target)
    ]
    for name in names:
        expected = await state(source, name, counts=all(both_count))
        assert await state(target, name, counts=all(both_count)) == expected, name


async def make_streams(server: RedisClient) -> None:
    """Make streams with deletions, without entries, and with consumer groups."""
    ask = server.execute_slow
    names = (b"inner", b"top", b"all", b"trimmed", b"group", b"emptied-group")
    for name in names:
        for n in range(1, 41):
            await ask("XADD", KEY + name, f"{n}-0", "n", n)
    await ask("XDEL", KEY + b"inner", *(f"{n}-0" for n in range(5, 36)))
    await ask("XDEL", KEY + b"top", *(f"{n}-0" for n in range(10, 41)))
    await ask("XDEL", KEY + b"all", *(f"{n}-0" for n in range(1, 41)))
    await ask("XTRIM", KEY + b"trimmed", "MAXLEN", "=", 3)
    for name in (b"group", b"emptied-group"):
        await ask("XGROUP", "CREATE", KEY + name, "workers", "0")
        await ask("XREADGROUP", "GROUP", "workers", "one", "COUNT", 30, "STREAMS", KEY + name, ">")
        await ask("XACK", KEY + name, "workers", *(f"{n}-0" for n in range(1, 21)))
    await ask("XDEL", KEY + b"emptied-group", *(f"{n}-0" for n in range(1, 41)))
    await ask("XACK", KEY + b"emptied-group", "workers", *(f"{n}-0" for n in range(1, 41)))
    await ask("XGROUP", "CREATE", KEY + b"only-group", "workers", "$", "MKSTREAM")
    await ask("XADD", KEY + b"only-group", "9-9", "a", "b")
    await ask("XDEL", KEY + b"only-group", "9-9")
    await ask("XGROUP", "CREATE", KEY + b"never-used", "workers", "0", "MKSTREAM")


async def test_streams_keep_their_newest_id_and_their_groups(sides: tuple[OpenStores, OpenStores]) -> None:
    source, target = (side.server for side in sides)
    await make_streams(source)
    names = sorted(await source.execute_slow("KEYS", "*"))
    assert len(names) == 8
    counts = all(
        [
            b"entries-added" in await server.execute_slow("XINFO", "STREAM", names[0])
            for server in (source, source)
        ]
    )
    await write(target, await read(source, *names))
    counts = counts and b"entries-added" in await target.execute_slow("XINFO", "STREAM", names[0])
    for name in names:
        assert await state(target, name, counts=counts) == await state(source, name, counts=counts), name
    ask = target.execute_slow
    with pytest.raises(Exception, match="equal or smaller"):
        await ask("XADD", KEY + b"all", "40-0", "late", "id")
    # 21 to 30 were handed out and not acknowledged, 31 to 40 were not handed out
    reply = await ask("XREADGROUP", "GROUP", "workers", "two", "COUNT", 100, "STREAMS", KEY + b"group", ">")
    assert [entry[0] for entry in reply[0][1]] == [b"%d-0" % n for n in range(21, 41)]
    assert not await ask("XREADGROUP", "GROUP", "workers", "two", "STREAMS", KEY + b"emptied-group", ">")


async def test_the_control_keys_of_a_cut_keep_the_state_of_streams_too(
    sides: tuple[OpenStores, OpenStores],
) -> None:
    source, target = (side.server for side in sides)
    await make_streams(source)
    names = [key.decode() for key in sorted(await source.execute_slow("KEYS", "*"))]
    cut, _, _ = await KeyLoader(source, SystemClock()).read_cut(names)
    bulk = await read(source, *(name.encode() for name in names))
    assert {part.key: part.stream for part in cut} == {part.key: part.stream for part in bulk if part.stream}
    await write(target, cut)
    for name in names:
        assert (await state(target, name.encode(), counts=False)) == await state(
            source, name.encode(), counts=False
        )


@pytest.mark.parametrize("newest", ["40-0", "90-0", "30-0"], ids=["exact", "above", "read before entries"])
async def test_parts_of_older_backups_have_the_newest_id_in_each(stores: OpenStores, newest: str) -> None:
    entries = [[f"{n}-0".encode(), [b"n", b"%d" % n]] for n in range(1, 41)]
    parts = [
        KeyPart(KEY, "stream", entries[first : first + 16], 0, newest.encode()) for first in range(0, 40, 16)
    ]
    await write(stores.server, [*parts, KeyPart(b"{shop}:other", "string", [b"x"])], seed=3)
    _, value, (last, *_), _ = await state(stores.server, KEY)
    assert value == entries
    assert last == max(newest, "40-0").encode()


async def test_expired_keys_stay_away(stores: OpenStores) -> None:
    now_ms = SystemClock().now_ms()
    gone = [
        KeyPart(KEY + b"1", "hash", [b"a", b"b"], now_ms - 1),
        KeyPart(KEY + b"2", "stream", [[b"1-0", [b"a", b"b"]]], now_ms - 1, b"1-0"),
    ]
    await write(stores.server, gone)
    assert await stores.server.execute_slow("KEYS", "*") == []


async def test_the_server_calls_the_same_commands_writes(stores: OpenStores) -> None:
    """A command that writes goes over the connection whose writes replicas confirm."""
    packages = Path(cluster.__file__).parent
    sources = [path for part in ("store", "backup") for path in (packages / part).rglob("*.py")]
    words = {word for path in sources for word in re.findall(r'"([A-Z]{3,})"', path.read_text("utf-8"))}
    facts = await stores.server.execute_slow("COMMAND", "INFO", *sorted(words | WRITES))
    # Newer servers have the categories of XGROUP at its subcommands only.
    writes = {fact[0].decode().upper() for fact in facts if fact and "@write" in str(fact)}
    # It is sent to block, and what it writes is sent again when it is lost.
    assert writes - {"XREADGROUP"} == WRITES


async def test_keys_still_expire_when_replicas_confirm_their_writes() -> None:
    (port,) = free_ports(1)
    master = RedisProcess("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = RedisProcess("--replicaof", "127.0.0.1", str(port))
    try:
        master.start()
        replica.start()
        async with open_stores(f"{master.url}?wait_replicas=1", **EASY) as stores:
            await until(lambda: is_confirmed(stores))
            expires_ms = SystemClock().now_ms() + HOUR_MS
            kinds = {
                "string": [b"a"],
                "set": [b"a"],
                "list": [b"a"],
                "hash": [b"a", b"b"],
                "zset": [b"a", b"1"],
            }
            await write(
                stores.server,
                [
                    KeyPart(b"{shop}:" + kind.encode(), kind, items, expires_ms)
                    for kind, items in kinds.items()
                ],
            )
            for kind in kinds:
                assert 0 < await stores.server.execute_slow("PTTL", f"{{shop}}:{kind}") <= HOUR_MS, kind
    finally:
        master.stop()
        replica.stop()


async def is_confirmed(stores: OpenStores) -> bool:
    """Return whether the replica follows."""
    try:
        await stores.server.execute_slow("SET", KEY, "1")
    except Unavailable:
        return False
    return True


async def test_a_list_that_grows_at_its_head_is_read_as_it_was_at_one_moment(stores: OpenStores) -> None:
    ask, done = stores.server.execute_slow, asyncio.Event()
    await ask("LPUSH", KEY, *range(200))

    async def push() -> None:
        for number in itertools.count(200):
            await asyncio.gather(ask("LPUSH", KEY, number), ask("LTRIM", KEY, 0, 199))
            if done.is_set():
                return

    pushing = [asyncio.create_task(push())]
    try:
        for _ in range(100):
            (part,) = await read(stores.server, KEY)
            newest = int(part.items[0])
            # between both commands of the writer it has 201 members
            assert list(map(int, part.items)) == list(range(newest, newest - len(part.items), -1))
            assert len(part.items) in (200, 201)
    finally:
        done.set()
        await asyncio.gather(*pushing)


async def test_streams_and_keys_that_change_while_they_are_read(sides: tuple[OpenStores, OpenStores]) -> None:
    source, target = (side.server for side in sides)
    done, ask = asyncio.Event(), source.execute_slow
    names = [KEY + b":%d" % n for n in range(60)]

    async def change() -> None:
        rng = random.Random(1)
        for number in itertools.count():
            name, kind = rng.choice(names), rng.randrange(6)
            kept = int(name.rpartition(b":")[2]) % 6
            if kind == 0:
                await ask("DEL", name)
            elif kept < 3:
                await ask("XADD", name, "*", "n", number)
                if kind == 1:
                    await ask("XTRIM", name, "MAXLEN", "=", 20)
            elif kept == 3:
                await ask("HSET", name, *(word for n in range(150) for word in (f"{number}-{n}", "x" * 80)))
            elif kept == 4:
                await ask("SET", name, number)
            else:
                await ask("RPUSH", name, *range(number, number + 200))
            if done.is_set():
                return

    changing = asyncio.create_task(change())
    try:
        for round_number in range(20):
            parts = await read(source, *names)
            await target.execute_slow("FLUSHALL")
            await write(target, parts, seed=round_number)
            for part in parts:
                if part.stream is not None:
                    _, _, (last, *_), _ = await state(target, part.key)
                    assert last == part.stream.last_id
    finally:
        done.set()
        await changing
