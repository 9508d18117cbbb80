"""A person whose every value is unique, put into every store, and a search for them in every byte that is kept."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from actors.history import threads as rules
from actors.intake.batch_preparation import prepare_batch
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.app_storage import RUNS
from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOME_COLUMNS
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.ids import new_task_id
from cluster.records.experiment import Experiment, Exposure
from cluster.records.file_import import ImportProgress
from cluster.records.interaction import RecentEvent
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.records.question import Answer, CitedPassage, Question
from cluster.records.served_list import ServedAnswer
from cluster.records.validation.upload import parse_upload
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores
from jobs.ingest.pipeline import IngestSpec, ingest
from jobs.refresh.recipe import Recipe
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.training_source import read_training_source
from tests.suites.redis_process import RedisProcess

APP = "shop"
USER, VISITOR, SECOND = "canary-user-7f3a", "canary-visitor-91c2", "canary-tablet-55d0"
MAIL, CITY = "canary.5e1b@birds.example", "Canaryville-2d9c"
QUERY, QUESTION, TITLE = "canary seed mix 4c77", "do canaries 88ab sing at night", "canary thread b30e"
NEEDLES = (USER, VISITOR, SECOND, MAIL, CITY, QUERY, QUESTION, TITLE)
PROFILE = {"user_id": USER, "name": "Canary", "city": CITY, "custom_attributes": {"mail": MAIL}}


async def upload(stores: Stores, noun: Any, records: list[dict[str, Any]], now_ms: int) -> str:
    """Send records down the road of all uploads."""
    body = orjson.dumps({"data": records})
    accepted: Any = parse_upload(noun, body, now_ms=now_ms)
    checked = accepted.check_types({})
    took = await stores.intake.accept(
        APP,
        noun,
        "put",
        checked.payload,
        task_id=new_task_id(),
        total=len(records),
        now_ms=now_ms,
        attribute_types=checked.attribute_types,
        errors=checked.messages,
    )
    return took.task_id


async def act(stores: Stores, items: list[dict[str, Any]], now_ms: int) -> None:
    """Send interactions as the API does."""
    accepted: Any = parse_upload("interaction", orjson.dumps({"data": items}), now_ms=now_ms)
    links = [(user_id, visitor_id, b"") for user_id, visitor_id in accepted.links]
    await stores.interactions.append(APP, accepted.payload, [*accepted.recents, *links])


async def live(stores: OpenStores, now_ms: int, at: str) -> None:
    """Let the canary do everything a person can do, before and after signing in."""
    await upload(stores, "user", [PROFILE], now_ms)
    visits = [("click", ["p1", "p4"]), ("product_detail_page_view", ["p2"])]
    await act(
        stores,
        [
            {"type": kind, "anonymous_id": VISITOR, "product_ids": product_ids, "timestamp": at}
            for kind, product_ids in visits
        ],
        now_ms,
    )
    both = {"user_id": USER, "anonymous_id": VISITOR, "timestamp": at}
    await act(stores, [{"type": "add_to_cart", "product_ids": ["p3"], **both}], now_ms)
    await act(stores, [{"type": "search", "search": {"keywords": QUERY}, **both}], now_ms)
    await act(
        stores,
        [
            {
                "type": "click",
                "user_id": USER,
                "anonymous_id": SECOND,
                "product_ids": ["p5"],
                "timestamp": at,
            }
        ],
        now_ms,
    )
    salt = await stores.queries.salt(APP)
    for user_key in (f"u:{USER}", f"a:{VISITOR}"):
        noted = LoggedQuery(now_ms - 60_000, "search", QUERY, 3, reader=pseudonym(salt, user_key), typist="t")
        await stores.queries.append(APP, [noted])
        served = ServedAnswer(
            f"served-{user_key[0]}",
            now_ms - 60_000,
            "search",
            "default",
            user=pseudonym(salt, user_key),
            products=("p1",),
        )
        await stores.served.append(APP, [served])
    await _asks(stores, now_ms)
    await _meets_an_experiment(stores, now_ms)
    await stores.shown_products.record(APP, f"u:{USER}", "page-1", ["p1", "p2"])
    await stores.shown_products.record(APP, f"a:{VISITOR}", "page-2", ["p1"])
    # as releases before this one named them
    await stores.server.execute_slow("SET", f"{{{APP}}}:question-count:20000:u:{USER}", 3)
    await stores.server.execute_slow("RPUSH", f"{{{APP}}}:page:a:{VISITOR}:page-3", "p1")
    await stores.idempotency.begin(APP, "key-1", "digest")
    reply = orjson.dumps({"message": "success", "data": {"title": TITLE}})
    await stores.idempotency.finish(APP, "key-1", 200, reply, [f"u:{USER}"])
    await stores.idempotency.begin(APP, "key-2", "digest")
    await stores.idempotency.finish(
        APP, "key-2", 422, orjson.dumps({"detail": [{"msg": f"no such user {USER}"}]})
    )


async def _asks(stores: Stores, now_ms: int) -> None:
    for number, identity in enumerate(({"user_id": USER}, {"anonymous_id": VISITOR})):
        question = Question(
            question_id=f"question-{number}", app_id=APP, text=QUESTION, asked_at=now_ms,
            deadline_at=now_ms + 60_000, logged=number == 0, **identity,
        )  # fmt: skip
        shown = orjson.dumps({"question": QUESTION})
        await stores.questions.ask(question, Answer(), shown, holder="one", until_ms=now_ms + 60_000)
        cited = CitedPassage(product_id="p1", position=0, text="birds sing")
        done = Answer(revision=1, finish_reason="success", passages=(cited,))
        await stores.questions.write(question, done, shown, holder="one", until_ms=now_ms + 60_000)
        name = f"u:{USER}" if number == 0 else f"a:{VISITOR}"
        await stores.questions.count(APP, name, now_ms // DAY_MS)
        await stores.questions.record_question(APP, QUESTION, name, now_ms // DAY_MS)
        await stores.questions.remember(APP, f"digest-{number}", question.question_id, ttl_ms=DAY_MS)
    before = await stores.threads.read(APP, USER)
    after = rules.add_question(before, "question-0", QUESTION, None, now_ms)
    assert await stores.threads.compare_and_set(APP, USER, before, after)
    named = await stores.threads.read(APP, USER)
    thread = named.threads["question-0"].model_copy(
        update={"title": TITLE, "subscribed": True, "has_new": True}
    )
    assert await stores.threads.compare_and_set(
        APP, USER, named, named.model_copy(update={"threads": {"question-0": thread}})
    )


async def _meets_an_experiment(stores: Stores, now_ms: int) -> None:
    book = await stores.experiments.read_all(APP)
    for experiment in book.experiments:
        met = Exposure("a", now_ms)
        await stores.experiments.assign(experiment, [f"u:{USER}", f"a:{VISITOR}"], met, "take")


async def open_experiment(stores: Stores, now_ms: int) -> None:
    """Have an experiment at work."""
    variants = [{"variant_id": name, "name": name, "slug": name} for name in ("a", "b")]
    experiment = Experiment.model_validate(
        {
            "app_id": APP, "experiment_id": "id-one", "slug": "one", "name": "one", "status": "Active",
            "variants": variants, "entry_salt": "entry-salt", "variant_salt": "variant-salt", "created_at": now_ms,
        }
    )  # fmt: skip
    assert await stores.experiments.compare_and_set(experiment, 0) is not None


async def be_refused(stores: OpenStores, folder: Path, now_ms: int) -> None:
    """Leave refused rows: in the quarantine of Redis, in messages of a task, and in the file of an ingest."""
    poison = orjson.dumps([{"user_id": USER, "email": MAIL}, {"user_id": 5, "email": MAIL, "city": CITY}])
    example = {
        "text": "age is invalid",
        "count": 1,
        "row": 0,
        "example": f'{{"user_id": "{USER}", "age": "{MAIL}"}}',
    }
    progress = ImportProgress(attempt="a", at=now_ms, reasons=(example,))  # as releases before stored it
    await stores.imports.put_progress(APP, "an-old-import", progress)
    task_id = new_task_id()
    await stores.intake.accept(
        APP,
        "user",
        "put",
        poison,
        task_id=task_id,
        total=2,
        now_ms=now_ms,
        errors=[f"user {USER} is no good"],
    )
    assert prepare_batch("user", poison, HashingEmbedder()).failed
    await stores.server.execute_slow(
        "XADD", f"{{{APP}}}:quarantine", "*", "kind", "batch", "noun", "user", "id", "t", "reason", "no",
        "at", now_ms, "payload", poison,
    )  # fmt: skip
    rows = [
        {"user_id": USER, "nonsense": {"a": 1}, "email": MAIL, "city": CITY},
        {"user_id": "other-1", "zip": 5},
    ]
    path = folder / "people.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    await ingest(IngestSpec(str(path), "user", APP), stores, state_dir=folder / "ingest")
    path.unlink()


def leave_outcome(artifacts: ArtifactStore, salt: bytes, now_ms: int) -> None:
    """Let an answer to the canary have led to a click."""
    click: dict[str, Any] = dict.fromkeys(OUTCOME_COLUMNS.names)
    click |= {"at": now_ms, "answered_at": now_ms, "type": "click", "user": pseudonym(salt, f"u:{USER}")}
    table = pa.Table.from_pylist([click], schema=OUTCOME_COLUMNS)
    OutcomeStore(artifacts).replace_days(APP, {name_day(now_ms // DAY_MS): table}, {})


def leave_checkpoints(artifacts: ArtifactStore, recipe: Recipe, *run_ids: str) -> None:
    """Leave the data of runs in the artifact store, as workers that died do."""
    source = read_training_source(SegmentStore(artifacts), APP, recipe)
    for run_id in run_ids:
        CheckpointStore(artifacts, APP, run_id, folder=RUNS).put_source(source)


# --- searching ----------------------------------------------------------------------------------------------------


async def traces_in_redis(stores: OpenStores) -> list[str]:
    """Search the name, the type's own form and every byte of every key."""
    ask, cursor, traces = stores.server.execute_slow, b"0", list[str]()
    while True:
        cursor, names = await ask("SCAN", cursor, "COUNT", 500)
        for name in names:
            dumped = await ask("DUMP", name) or b""
            traces += [f"redis {name!r} {needle}" for needle in _needles_in(name + b"\0" + dumped)]
        if cursor == b"0":
            return sorted(set(traces))


def traces_in_files(folder: Path) -> list[str]:
    """Search every file below a folder: its bytes, and what is packed in it."""
    traces = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_socket():
            for data in _readings(path):
                traces += [f"{path.relative_to(folder)} {needle}" for needle in _needles_in(data)]
    return sorted(set(traces))


def _readings(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        yield repr(pq.read_table(pa.BufferReader(data)).to_pylist()).encode()
        yield repr(pq.read_metadata(pa.BufferReader(data))).encode()
    if path.suffix == ".arrow" and path.parent.parent.parent.name not in (RUNS, "sweeps"):
        yield repr(pa.ipc.open_file(pa.BufferReader(data)).read_all().to_pylist()).encode()
    for start in (data.find(b"\x1f\x8b\x08"), data.find(b"\x78\x9c")):
        if start >= 0:
            try:
                yield zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[start:])
            except zlib.error:
                continue


def _needles_in(data: bytes) -> list[str]:
    return [needle for needle in NEEDLES if needle.encode() in data]


def a_recent(product_id: str, at_ms: int) -> bytes:
    """One packed interaction."""
    return RecentEvent("click", (product_id,), at_ms, 0.0).pack()


def kept_on_disk(server: RedisProcess) -> list[str]:
    """Search the files of a server."""
    return traces_in_files(server.folder)
