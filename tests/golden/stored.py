"""What stands in a real Redis after a walk over all endpoints: names of keys. Then the commands that need no Ray."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis
from typer.testing import CliRunner

from cluster.store.connect import open_stores
from deployments.cli.__main__ import command_line
from tests.fakes.request_handler import StillClock
from tests.golden.answers import Recording
from tests.golden.archiving import make_token
from tests.golden.asking import ask
from tests.golden.caller import Caller
from tests.golden.catalog import make_interactions, make_products, make_users
from tests.golden.installation import SHOP, Installation, World, put_rules_and_people
from tests.golden.masks import UUID, mask_moments
from tests.golden.randomness import FixedRandomness
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY

_MOMENTARY = (":question-open", ":lease", ":answers-recheck", ":question-checked")
"Keys that are there while something is worked on, and those of the recheck, which begins only in slow recordings."
_DRAWN = re.compile(
    r"[0-9a-f]{12,}|(?<=[:-])[A-Za-z0-9_-]{20,}|\d{5,}|(?<=:)m-\d+|(?<=:)user-\d+|(?<=:)visitor-\d+|(?<=key-)[0-9a-f]+"
)
_RULES = json.dumps({"rules": [{"name": "a", "boost_fq": "x:1"}, {"name": "b", "boost_fq": "x:2"}]})
COMMANDS: list[tuple[str, ...]] = [
    ("apps", "list"),
    ("apps", "create", "bookshop"),
    ("apps", "create", "Book Shop"),
    ("apps", "switch", "bookshop"),
    ("apps", "switch", "bookshop", "bot_rule=log"),
    ("apps", "switch", "bookshop", "bot_rule=perhaps"),
    ("apps", "limit", "bookshop", "--queries", "200"),
    ("apps", "limit", "nobody"),
    ("keys", "list"),
    ("keys", "rotate", "bookshop", "--kind", "secret"),
    ("keys", "revoke", "unknown"),
    ("rules", "list", "shop"),
    ("rules", "put", "shop", "-"),
    ("rules", "delete", "shop", "b"),
    ("rules", "delete", "shop", "zzz"),
    ("engines", "list"),
    ("engines", "create", "shop", "second"),
    ("engines", "create", "shop", "Second!"),
    ("engines", "history", "shop"),
    ("engines", "delete", "shop", "nobody"),
    ("users", "list"),
    ("users", "disable", "ada"),
    ("users", "enable", "ada"),
    ("users", "enable", "nobody"),
    ("users", "clients", "ada"),
    ("clients", "list"),
    ("clients", "deny", "client-1"),
    ("clients", "list"),
    ("clients", "forget", "client-1"),
    ("quarantine", "list", "shop"),
    ("quarantine", "show", "shop", "unknown"),
    ("experiments", "list", "shop"),
    ("experiments", "show", "shop", "colours"),
    ("experiments", "report", "shop", "colours"),
    ("experiments", "pause", "shop", "colours"),
    ("runs", "list"),
    ("runs", "show", "unknown"),
    ("schedules", "list"),
    ("schedules", "remove", "shop"),
    ("learners", "list"),
    ("learners", "allow", "json:dumps"),
    ("learners", "remove", "nothing"),
    ("report", "search", "shop"),
    ("report", "mcp"),
    ("promote", "shop", "unknown"),
    ("rollback", "shop"),
    ("nothing",),
    ("apps",),
]


async def record_keys(
    recording: Recording, randomness: FixedRandomness, server: RedisProcess, folder: Path
) -> None:
    """Walk over a Redis and record which keys stand in it."""
    clock, names = StillClock(), set[str]()
    connection = redis.Redis.from_url(server.url)

    def look() -> None:
        names.update(name.decode() for name in connection.scan_iter(count=1_000))

    async with open_stores(server.url, clock=clock, **EASY) as stores:
        world = World(folder, clock)
        world.stores = stores
        process = await Installation.open(world)
        try:
            await put_rules_and_people(world)
            caller = Caller(Recording(), randomness, "walk", process.app, clock, process.corner.keys)
            await _walk(caller, process, look)
        finally:
            await process.close()
    masked = {_DRAWN.sub("*", UUID.sub("*", name)) for name in names}
    for name in sorted(name for name in masked if not name.endswith(_MOMENTARY)):
        recording.add("redis keys", name, 0, {}, name)


async def _walk(caller: Caller, process: Installation, look: Callable[[], None]) -> None:
    """Write something of every kind, and look at the keys while those with a short life are there."""
    now_ms = caller.clock.now_ms()
    for noun, records in (
        ("products", make_products(now_ms, 30)),
        ("users", make_users(now_ms, 5)),
        ("interactions", make_interactions(now_ms, 40, from_days=2, to_days=0)),
    ):
        headers = {"idempotency-key": f"once-{noun}"}
        await caller.send(
            "POST", f"/v1/{noun}", json={"data": records}, key=(SHOP, "secret"), headers=headers
        )
    look()
    await process.world.apply()
    page = {"user_id": "user-001", "pagination_id": "p", "rows": 2}
    await caller.post("/v1/recommendation/user_to_products", page)
    await caller.post("/v1/search/search", {"q": "steel", "user_id": "user-001"})
    look()
    await caller.post("/v1/qa/questions", {"data": [{"question": "How deep?"}]})
    draft = {"name": "Colours", "reports_exposure": True, "variants": [{"name": "a"}, {"name": "b"}]}
    await caller.post("/v1/experiments", draft)
    await caller.send("POST", "/v1/experiments/colours/start", key=(SHOP, "secret"))
    await caller.post("/v1/experiments/colours/events", {"user_id": "user-001"})
    question_id = await ask(caller, {"question": "Which trowel?", "user_id": "user-001"})
    thread = {"user_id": "user-001", "thread_id": question_id}
    await caller.post("/v1/ask/user_history/thread/updates/subscribe", thread)
    headers = {"host": "news.example.com", "authorization": f"Bearer {make_token(process)}"}
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "ask_archive", "arguments": {"question": "x"}},
    }
    await caller.send("POST", "/mcp", json=message, headers=headers)
    look()
    await caller.send("DELETE", "/v1/users/user-002?everything=true", key=(SHOP, "secret"))
    look()


@contextmanager
def _settings(url: str, folder: Path) -> Iterator[None]:
    """Let commands find the Redis and an empty data directory."""
    before = dict(os.environ)
    os.environ.update(
        KIOSK_REDIS_URL=url, KIOSK_DATA_DIR=str(folder), COLUMNS="80", NO_COLOR="1", TERM="dumb"
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def record_commands(
    recording: Recording, randomness: FixedRandomness, server: RedisProcess, folder: Path
) -> None:
    """Run every command with `--json`, and record exit code, output and refusal."""
    folder.mkdir(parents=True, exist_ok=True)
    with _settings(server.url, folder):
        for words in COMMANDS:
            _run(recording, randomness, [*words, "--json"], folder)


def _run(recording: Recording, randomness: FixedRandomness, words: Sequence[str], folder: Path) -> None:
    label = recording.label("commands", " ".join(words))
    randomness.begin(label)
    result = CliRunner().invoke(command_line(), list(words), input=_RULES)
    refusal = (
        "" if result.exception is None or isinstance(result.exception, SystemExit) else str(result.exception)
    )
    output = result.stdout if result.exit_code == 0 else refusal or "usage"
    text = mask_moments(output).replace(str(folder), "<folder>")
    recording.add("commands", label, result.exit_code, {}, text)
