"""Histories of an installation without Ray: random operations, a backup in their middle, a restore, a comparison.

    operations   uploads, deletes, interactions, erasures, questions, threads, rules, experiments, engines, keys,
                 accounts, apps, a new master key, trainings, compactions; the intake or Redis is killed
    backup       at a random moment, while operations and the intake go on
    cut          operations and the intake stand still for a moment, and everything is read
    restore      into an empty Redis and an empty artifact store
    comparison   every key; the records written down at the cut; answers of both sides
    next         the restored installation goes on as the next history

What a backup reads at the cut (control keys, change logs, records and their indexes) must be exactly that of the cut.
Every other key must have a value that it had between the start of the backup and its cut. The list of a person who was
erased meanwhile had none, also where the person came back before the next look.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import orjson

from actors.history import threads as thread_rules
from actors.intake.client import Erasures
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.admin.master_keys import derive_manifest_keys
from cluster.admin.reseal import MasterKeyReseal
from cluster.admin.schema import ensure_schema
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.catalogue import load_backup
from cluster.backup.creation import BackupJob
from cluster.backup.restoring import RestoreJob, empty_for_restore, plan_restore
from cluster.backup.verification import compare_records, verify_sample
from cluster.backup_pace import Pace
from cluster.clock import SystemClock, iso_ms
from cluster.crypto import Signer, Vault
from cluster.errors import KioskError
from cluster.ids import new_task_id
from cluster.meter import SilentMeter
from cluster.records.experiment import Exposure
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.records.question import Answer, Question
from cluster.records.validation.upload import parse_upload
from cluster.store import keys
from cluster.store.backup_key_classes import key_class
from cluster.store.client.replies import text_of
from cluster.store.connect import OpenStores, open_stores
from cluster.store.seals.seal import salt_from_key, unseal
from deployments.cli.installation.backup_verification import Verification, compare_answers
from deployments.operations.framework.principal import COMMAND_LINE
from deployments.operations.open_admin import open_admin
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY, until_it_works

MARK = ("f" * 32,)
APPS = ("shop", "news")
PRODUCTS, USERS = 300, 150
TYPES = ("click", "product_detail_page_view", "add_to_cart", "checkout")
RECIPE = load_recipe_file("fast").with_changes({"limits.memory_mb": 4096})
ADMINISTRATION = {
    "rules.put": 4.0, "rules.delete": 1.0, "experiments.create": 1.0, "keys.rotate": 1.0, "apps.set_switches": 1.0,
    "apps.create": 0.3, "engines.create": 0.5, "people.create": 0.3, "people.delete": 0.3, "bank.add": 1.0,
    "schedules.add": 0.5,
}  # fmt: skip
"Operation of the administration -> weight."
Dump = dict[bytes, tuple[str, Any, bool]]
"Key -> kind, value, and whether it expires."


@dataclass
class Side:
    """One installation: a Redis that keeps a file, and an artifact store."""

    folder: Path
    server: RedisProcess
    stores: OpenStores
    vault: Vault

    @property
    def artifacts(self) -> ArtifactStore:
        """Return the artifact store."""
        return ArtifactStore.open(self.folder / "shelf", signer=Signer(derive_manifest_keys(self.vault)))

    async def read_all(self) -> Dump:
        """Read all keys that a backup keeps."""
        ask = self.stores.server.execute_slow
        names = [key for key in await ask("KEYS", "*") if key_class(key.decode()) != "ephemeral"]
        kinds = [text_of(kind) for kind in await asyncio.gather(*(ask("TYPE", name) for name in names))]
        pairs = [pair for pair in zip(names, kinds, strict=True) if pair[1] != "none"]
        values = await asyncio.gather(*(ask(*_read(name, kind)) for name, kind in pairs))
        lives = await asyncio.gather(*(ask("PTTL", name) for name, _ in pairs))
        return {
            name: (kind, _members(kind, value), life > 0)
            for (name, kind), value, life in zip(pairs, values, lives, strict=True)
            if life != -2
        }


def _read(name: bytes, kind: str) -> tuple[Any, ...]:
    return {
        "string": ("GET", name), "hash": ("HGETALL", name), "set": ("SMEMBERS", name), "list": ("LRANGE", name, 0, -1),
        "zset": ("ZRANGE", name, 0, -1, "WITHSCORES"), "stream": ("XRANGE", name, "-", "+"),
    }[kind]  # fmt: skip


def _members(kind: str, value: Any) -> Any:
    """Return a value in a form without order where the kind has none."""
    if kind == "hash":
        return dict(zip(value[::2], value[1::2], strict=True))
    if kind == "zset":
        return dict(zip(value[::2], map(float, value[1::2]), strict=True))
    if kind == "stream":
        return {entry_id: tuple(fields) for entry_id, fields in value}
    return set(value) if kind == "set" else value


@dataclass
class Figures:
    """What histories did and compared."""

    histories: int = 0
    operations: collections.Counter[str] = field(default_factory=collections.Counter)
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    during: int = 0
    "Operations while a backup ran."
    keys: int = 0
    records: int = 0
    answers: int = 0
    moved: int = 0
    "Apps without compared answers, because a compaction between bulk read and cut took the source beyond the copy."
    backups_repeated: int = 0

    def to_text(self) -> str:
        """Return the figures as a text."""
        done = sum(self.operations.values())
        return (
            f"{self.histories} histories, {done} operations of {len(self.operations)} kinds ({self.during} while a "
            f"backup ran), {self.keys} keys, {self.records} records and {self.answers} answers compared, "
            f"{self.moved} apps moved on, "
            f"{self.backups_repeated} backups repeated after a kill; {dict(sorted(self.operations.items()))}; "
            f"refused {dict(self.refused)}"
        )


class _FrozenBackup(BackupJob):
    """A backup that reads its cut while everything else stands still."""

    history: History

    async def _read_control(self, *arguments: Any) -> Any:
        async with self.history.frozen():
            return await super()._read_control(*arguments)


class History:
    """Drives one installation, and another into which it is restored."""

    def __init__(self, folder: Path, rng: random.Random, side: Side, other: Side, figures: Figures) -> None:
        self.rng, self.side, self.other, self.figures = rng, side, other, figures
        self.target_folder = folder / "target"
        self.compaction_s: tuple[float, ...] = (0.1, 0.5, 5.0)
        "Seconds between compactions; each intake chooses."
        self.dumps: list[Dump] = []
        self._turn = asyncio.Lock()
        self._is_backing_up = False
        self._intake: IntakeLoop | None = None
        self._work: asyncio.Task[None] | None = None

    @property
    def stores(self) -> OpenStores:
        """Return the stores of the installation at work."""
        return self.side.stores

    @property
    def now_ms(self) -> int:
        """Return the time."""
        return SystemClock().now_ms()

    @property
    def app(self) -> str:
        """Choose an app."""
        return self.rng.choice(APPS)

    # --- life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run one history; the restored installation is the next one's."""
        self.start_intake()
        try:
            for _ in range(self.rng.randint(5, 40)):
                await self.act()
            await self.back_up()
        finally:
            await self.stop_intake()
        await self.restore()
        self.figures.histories += 1

    def start_intake(self) -> None:
        """Start an intake, as after the death of the one before."""
        owner = f"intake-{self.rng.getrandbits(32):x}"
        self._intake = IntakeLoop(
            self.stores, SegmentStore(self.side.artifacts), HashingEmbedder(), SystemClock(), SilentMeter(),
            owner=owner,
            rules=IntakeConfig(
                apps_every_s=0.0, compaction_pause_s=0.05, erase_pause_s=0.05,
                compaction=CompactionConfig(every_s=self.rng.choice(self.compaction_s)),
            ),
            files=LocalPersonFiles(self.side.folder), owns_redis=True,
        )  # fmt: skip
        self._work = asyncio.create_task(self._intake.run())

    async def stop_intake(self, *, kill: bool = False) -> None:
        """End the intake, at once or after its step."""
        if self._work is None or self._intake is None:
            return
        self._intake.stop()
        if kill:
            self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        self._work = self._intake = None
        await self.stores.server.execute_slow("DEL", keys.lease("intake"))

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Let everything stand still, and read all keys."""
        async with self._turn:
            await self.stop_intake(kill=self.rng.random() < 0.3)
            self.dumps.append(await self.side.read_all())
            yield
            assert await self.side.read_all() == self.dumps[-1], "something writes at the cut"

    async def back_up(self) -> None:
        """Back up while operations go on."""
        pace = Pace(rest=self.rng.choice((0.0, 1.0, 5.0)))
        for _ in range(5):
            # a new master key ends a backup: the next one is made with it, as by a new command
            job = _FrozenBackup(self.stores, self.side.artifacts, self.target, MARK, pace=pace)
            job.history = self
            if self._work is None:
                self.start_intake()
            self.dumps = [await self.side.read_all()]
            self._is_backing_up = True
            acting = asyncio.create_task(self._act_until_the_cut(self.rng.choice((0, 3, 30))))
            try:
                await job.run()
                return
            except KioskError:
                self.figures.backups_repeated += 1
                await until_it_works(self.stores)
            finally:
                self._is_backing_up = False
                await acting
        raise AssertionError("no backup succeeds")

    async def _act_until_the_cut(self, most: int) -> None:
        for _ in range(most):
            async with self._turn:
                # after the cut the intake stands still, and so does everything else
                if not self._is_backing_up or self._work is None:
                    return
                await self.act()
                self.dumps.append(await self.side.read_all())
            self.figures.during += 1
            await asyncio.sleep(0)

    @property
    def target(self) -> ArtifactStore:
        """Return the place of the backups."""
        return ArtifactStore.open(self.target_folder, signer=Signer(derive_manifest_keys(self.side.vault)))

    async def restore(self) -> None:
        """Restore into the other side, compare, and go on there."""
        side, other = self.side, self.empty_other()
        plan = plan_restore(self.target, MARK)
        sample = await verify_sample(self.target, plan.backup, other.stores, SystemClock(), seconds=2.0)
        assert sample.is_good, sample
        await empty_for_restore(other.stores, other.artifacts, plan.backup.facts.backup_id)
        await RestoreJob(plan, self.target, other.stores, other.artifacts, self.now_ms).run()
        restored = await other.read_all()
        assert_equal_keys(restored, self.dumps, at_cut=self.dumps[-1])
        self.figures.keys += len(restored)
        await assert_complete_orders(other.stores)
        records = await compare_records(self.target, plan.backup, other.stores, 10_000)
        assert records.different == ()
        self.figures.records += records.compared
        verification = Verification(load_backup(self.target, plan.backup.facts.backup_id, MARK), [])
        await compare_answers(
            verification, self.target, (other.stores, other.artifacts), (side.stores, side.artifacts), 1000
        )
        assert verification.different == [], verification.different[:3]
        reasons = set(verification.not_compared.values())
        assert reasons <= {"its changes were compacted since"}, verification.not_compared
        self.figures.moved += len(verification.not_compared)
        self.figures.answers += verification.compared
        await ensure_schema(other.stores, self.now_ms)
        shutil.rmtree(self.target_folder)
        self.side, self.other = other, side

    def empty_other(self) -> Side:
        """Return the other side without data."""
        assert self.other.server.say("FLUSHALL") == b"+OK\r\n"
        shutil.rmtree(self.other.folder / "shelf", ignore_errors=True)
        self.other.vault = self.side.vault
        return self.other

    # --- operations ------------------------------------------------------------------------------------------------

    async def act(self) -> None:
        """Do one operation; a refusal is an answer too."""
        names = list(self.operations)
        name = self.rng.choices(names, [self.operations[operation][0] for operation in names])[0]
        try:
            await self.operations[name][1]()
            self.figures.operations[name] += 1
        except KioskError:
            self.figures.refused[name] += 1

    @cached_property
    def operations(self) -> dict[str, tuple[float, Callable[[], Awaitable[object]]]]:
        """Return the operations with their weights."""
        return {
            "put products": (9, self.put_products),
            "put users": (5, self.put_users),
            "delete products": (2, lambda: self.delete("product", [f"p{n}" for n in self.some(PRODUCTS)])),
            "delete users": (1, lambda: self.delete("user", [f"u{n}" for n in self.some(USERS)])),
            "interact": (12, self.interact),
            "erase": (1.5, self.erase),
            "ask": (4, self.ask),
            "search": (3, self.search),
            "meet an experiment": (3, self.meet_experiment),
            "schedule experiment": (1, self.schedule_experiment),
            "change master key": (0.4, self.change_master_key),
            "train": (0.25, self.train),
            "compact": (2, self.compact),
            "rest": (2, lambda: asyncio.sleep(self.rng.random() * 0.2)),
            "kill the intake": (0.7, self.kill_intake),
            "kill Redis": (0.2, self.kill_redis),
            **{name: (weight, partial(self.administer, name)) for name, weight in ADMINISTRATION.items()},
        }

    async def administer(self, name: str) -> Any:
        """Perform an operation of the administration with random arguments."""
        number = self.rng.randrange(6)
        rule = {"name": f"r{number}", "boost_fq": f"brand:b{self.rng.randrange(5)}", "position": [1, 3]}
        draft = {"name": f"x{self.rng.getrandbits(20)}", "variants": [{"name": "a"}, {"name": "b"}]}
        arguments: dict[str, dict[str, Any]] = {
            "rules.put": {"rules": [rule]},
            "rules.delete": {"engine_id": "default", "names": [f"r{number}"]},
            "experiments.create": {"experiments": [draft]},
            "keys.rotate": {},
            "apps.set_switches": {"switches": {"max_records": self.rng.randrange(10_000, 20_000)}},
            "apps.create": {"app_id": f"app-{self.rng.getrandbits(16):x}"},
            "engines.create": {"engine_id": f"e{number}"},
            "people.create": {"username": f"name-{number}", "role": "reader"},
            "people.delete": {"username": f"name-{number}"},
            "bank.add": {"question": f"what is {self.rng.getrandbits(10)}?"},
            "schedules.add": {"schedule": f"s{number}", "recipe": "fast", "at": "03:00"},
        }
        return await self.perform(name, **arguments[name])

    async def put_users(self) -> None:
        """Upload users."""
        records = [{"user_id": f"u{n}", "city": f"c{self.rng.random()}"} for n in self.some(USERS)]
        await self.upload("user", records)

    def some(self, most: int) -> list[int]:
        """Choose numbers."""
        return self.rng.sample(range(most), self.rng.choice((1, 1, 3, 60)))

    async def perform(self, name: str, **arguments: Any) -> Any:
        """Perform an operation of the administration."""
        if name.partition(".")[0] not in ("people", "apps") or name == "apps.set_switches":
            arguments.setdefault("app_id", self.app)
        admin = open_admin(self.stores, self.side.vault, SystemClock(), self.side.artifacts)
        return await admin.perform(COMMAND_LINE, name, arguments)

    async def upload(self, noun: Any, records: list[dict[str, Any]], app_id: str = "") -> None:
        """Send records as all uploads."""
        accepted: Any = parse_upload(noun, orjson.dumps({"data": records}), now_ms=self.now_ms)
        checked = accepted.check_types({})
        await self.stores.intake.accept(
            app_id or self.app, noun, "put", checked.payload, task_id=new_task_id(), total=len(records),
            now_ms=self.now_ms, attribute_types=checked.attribute_types, errors=checked.messages,
        )  # fmt: skip

    async def put_products(self) -> None:
        """Upload products; some change their type."""
        await self.upload("product", [self.build_product(n) for n in self.some(PRODUCTS)])

    def build_product(self, n: int) -> dict[str, Any]:
        """Return a product with random fields."""
        rng = self.rng
        kind = rng.choice(("book", "film", "article"))
        return {
            "product_id": f"p{n}", "title": f"Thing {n} {rng.randrange(9)}", "type": kind,
            "brand": f"b{rng.randrange(5)}", "price": rng.randrange(99), "categories": [[f"c{n % 7}"]],
        }  # fmt: skip

    async def delete(self, noun: Any, record_ids: list[str]) -> None:
        """Delete records."""
        await self.stores.intake.accept(
            self.app, noun, "remove", orjson.dumps(record_ids), task_id=new_task_id(), total=len(record_ids),
            now_ms=self.now_ms,
        )  # fmt: skip

    async def interact(self) -> None:
        """Send interactions of users and visitors, some of which are linked by them."""
        rng, items = self.rng, []
        for _ in range(rng.choice((1, 5, 150))):
            who: dict[str, Any] = {"user_id": f"u{rng.randrange(USERS)}"} if rng.random() < 0.7 else {}
            if not who or rng.random() < 0.2:
                who["anonymous_id"] = f"v{rng.randrange(USERS)}"
            at = iso_ms(self.now_ms - rng.randrange(86_400_000))
            items.append(
                {
                    "type": rng.choice(TYPES),
                    "product_ids": [f"p{rng.randrange(PRODUCTS)}"],
                    "timestamp": at,
                    **who,
                }
            )
        accepted: Any = parse_upload("interaction", orjson.dumps({"data": items}), now_ms=self.now_ms)
        links = [(user_id, visitor_id, b"") for user_id, visitor_id in accepted.links]
        await self.stores.interactions.append(self.app, accepted.payload, [*accepted.recents, *links])

    async def erase(self) -> None:
        """Order the erasure of a user or visitor."""
        n = self.rng.randrange(USERS)
        who = {"user_id": f"u{n}"} if self.rng.random() < 0.8 else {"anonymous_id": f"v{n}"}
        await Erasures(self.stores, SystemClock()).order(self.app, request_id="r", by="command", **who)

    async def ask(self) -> None:
        """Ask a question, answer it, and keep it in a thread."""
        app, user, now_ms = self.app, f"u{self.rng.randrange(USERS)}", self.now_ms
        name, text = f"q{self.rng.getrandbits(40):x}", f"why {self.rng.randrange(20)}?"
        question = Question(
            question_id=name, app_id=app, text=text, asked_at=now_ms,
            deadline_at=now_ms + 60_000, logged=True, user_id=user,
        )  # fmt: skip
        shown = orjson.dumps({"question": question.text})
        await self.stores.questions.ask(question, Answer(), shown, holder="one", until_ms=now_ms + 60_000)
        if self.rng.random() < 0.8:
            answer = Answer(revision=1, finish_reason="success")
            await self.stores.questions.write(question, answer, shown, holder="one", until_ms=now_ms + 60_000)
        await self.stores.questions.record_question(app, question.text, f"u:{user}", now_ms // 86_400_000)
        before = await self.stores.threads.read(app, user)
        after = thread_rules.add_question(before, question.question_id, question.text, None, now_ms)
        await self.stores.threads.compare_and_set(app, user, before, after)

    async def search(self) -> None:
        """Log searches."""
        app = self.app
        salt = await self.stores.queries.salt(app)
        mark = pseudonym(salt, f"u:u{self.rng.randrange(USERS)}")
        logged = LoggedQuery(
            self.now_ms, "search", f"thing {self.rng.randrange(30)}", 3, reader=mark, typist="t"
        )
        await self.stores.queries.append(app, [logged])

    async def meet_experiment(self) -> None:
        """Assign users to a variant of each experiment."""
        book = await self.stores.experiments.read_all(self.app)
        for experiment in book.experiments:
            exposure = Exposure(experiment.variants[0].variant_id, self.now_ms)
            await self.stores.experiments.assign(
                experiment, [f"u:u{self.rng.randrange(USERS)}"], exposure, "take"
            )

    async def schedule_experiment(self) -> None:
        """Start an experiment."""
        app = self.app
        book = await self.stores.experiments.read_all(app)
        if book.experiments:
            chosen = self.rng.choice(list(book.experiments)).experiment_id
            await self.perform(
                "experiments.schedule", app_id=app, experiment=chosen, starts_at=self.now_ms + 60_000
            )

    async def change_master_key(self) -> None:
        """Seal everything with a new master key; the old one still opens."""
        master = self.rng.randbytes(32)
        self.side.vault = Vault(master, previous=self.side.vault._masters)
        await MasterKeyReseal(
            self.stores.access, self.stores.accounts, self.side.artifacts, self.side.vault
        ).run()
        await self.stop_intake()
        self.start_intake()

    async def train(self) -> None:
        """Train an engine and promote the result."""
        run = await create_run(
            self.stores, self.app, "default", RECIPE.model_dump(mode="json"), now_ms=self.now_ms, by="a test"
        )
        context = WorkerResources(
            self.stores, self.side.artifacts, SystemClock(), self.side.folder / "scratch", beat_s=0.05, patience_s=0.0,
            settle_s=5.0,
        )  # fmt: skip
        done = await TrainingWorker(context, "worker").work(run.app_id, run.run_id)
        if done is not None and done.version:
            await self.perform(
                "promotions.promote", app_id=run.app_id, engine_id="default", version=done.version
            )

    async def compact(self) -> None:
        """Ask for a compaction of all changes."""
        app = self.app
        for noun in ("user", "product", "interaction"):
            await self.stores.changes.request_compaction(
                app, {noun: await self.stores.changes.last(app, noun)}
            )  # type: ignore[dict-item,arg-type]

    async def kill_intake(self) -> None:
        """Kill the intake in the middle of its step; another one takes over."""
        await self.stop_intake(kill=True)
        self.start_intake()

    async def kill_redis(self) -> None:
        """Kill Redis; it starts again with its file."""
        self.side.server.kill()
        self.side.server.start()
        await until_it_works(self.stores)
        if self._work is not None and self._work.done():
            self.start_intake()


def assert_equal_keys(restored: Dump, dumps: list[Dump], *, at_cut: Dump) -> None:
    """Compare all keys of a restored installation with those of the installation that was backed up."""
    emptied = list_emptied_keys(dumps[0], at_cut)
    for key in restored.keys() | at_cut.keys() | dumps[0].keys():
        value = restored.get(key)
        if _is_exact(key):
            assert value == at_cut.get(key), _describe(key, value, at_cut)
            continue
        values = [dump.get(key) for dump in dumps]
        if value in values or key.partition(b"}:")[2].startswith(b"task:"):
            continue  # the intake changes tasks between two looks
        if value is None and key in emptied:
            continue  # it had no value for a moment between two looks; a restore repeats the erasure
        present = [state for state in values if state is not None]
        assert value is not None, f"{key!r} is missing"
        assert present, f"{key!r} was never there"
        assert value[2] in {state[2] for state in present}, key
        assert _items(value) <= set().union(*map(_items, present)), key
        assert _items(value) >= set.intersection(*map(_items, present)) or None in values, key


def list_emptied_keys(before: Dump, at_cut: Dump) -> set[bytes]:
    """Return the keys of the recent lists that an erasure emptied between two looks, by the log of interactions."""
    emptied = set[bytes]()
    for key, (_, entries, _) in at_cut.items():
        tag, _, name = key.partition(b"}:")
        if name != b"change:interaction":
            continue
        _, earlier, _ = before.get(key, ("stream", {}, False))
        for entry_id in entries.keys() - earlier.keys():
            flat = entries[entry_id]
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            if fields[b"op"] == b"erase":
                user_keys = orjson.loads(unseal(fields[b"payload"], salt_from_key("interaction")) or b"[]")
                emptied |= {keys.recent(tag[1:].decode(), user_key).encode() for user_key in user_keys}
    return emptied


async def assert_complete_orders(stores: OpenStores) -> None:
    """Check that every unfinished erasure has its receipt, and every unfinished task its record."""
    ask = stores.server.execute_slow
    assert len(await stores.erasures.list_orders()) == int(await ask("HLEN", keys.erasure_order()))
    for app_id in map(text_of, await ask("HKEYS", keys.access_app())):
        for task_id in map(text_of, await ask("ZRANGE", keys.task_open(app_id), 0, -1)):
            assert await ask("HEXISTS", keys.task(app_id, task_id), "total"), (app_id, task_id)


def is_record_key(key: bytes) -> bool:
    """Return whether a key has a user, a product or types of products."""
    return key.partition(b"}:")[2].startswith((b"user:", b"product:", b"product-type"))


def _is_exact(key: bytes) -> bool:
    return is_record_key(key) or key_class(key.decode()) in ("control", "log", "derived")


def _describe(key: bytes, value: Any, at_cut: Dump) -> str:
    """Return both values of a key that differs, and the entries of the change log that name its record."""
    tag, _, name = key.partition(b"}:")
    noun, _, record_id = name.partition(b":")
    log = at_cut.get(tag + b"}:change:" + noun, ("stream", {}, False))[1]
    entries = [entry for entry in log.items() if any(record_id in field for field in entry[1])]
    return f"{key!r}: restored {value}, at the cut {at_cut.get(key)}, entries {entries[-3:]}"


def _items(value: tuple[str, Any, bool]) -> set[Any]:
    return set(value[1].items()) if isinstance(value[1], dict) else set(_hashable(value[1]))


def _hashable(value: Any) -> Iterable[Any]:
    return [value] if isinstance(value, bytes) else value


@contextlib.asynccontextmanager
async def open_histories(folder: Path, seed: int) -> AsyncIterator[History]:
    """Open two installations, the first with two apps."""
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for name in ("one", "other"):
            (folder / name / "redis").mkdir(parents=True)
            server = RedisProcess(durable=True, folder=folder / name / "redis").start()
            stack.callback(server.stop)
            stores = await stack.enter_async_context(open_stores(server.url, **EASY))
            sides.append(Side(folder / name, server, stores, Vault(b"m" * 32)))
        history = History(folder, random.Random(seed), *sides, Figures())
        await ensure_schema(sides[0].stores, history.now_ms)
        for app_id in APPS:
            await AppKeyAdmin(sides[0].stores.access, sides[0].vault).create_app(
                app_id, "development", history.now_ms
            )
        yield history
