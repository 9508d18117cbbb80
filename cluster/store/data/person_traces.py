"""All data of a person in Redis, found by key name where possible and by a scan of the app's keys.

    known by name    profile, recent lists, links, threads, questions, quarantine, change logs
    by the walk      exposures, replies stored for repeated requests, counters, pages, task messages, references
    to a question, and any key whose name contains a user id: also those of other releases

One walk serves reading and erasing: every trace has its content and the step that removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.records.erasure import Person
from cluster.records.experiment import Exposure
from cluster.records.logged_query import pseudonym
from cluster.records.question import is_entitled_answer_id
from cluster.store import keys
from cluster.store.archive.user_questions import question_fingerprint
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.engines.experiments import erase_exposures_of
from cluster.store.seals.seal import WIDTH, salt_from_key, seal, unseal

PROFILE = "profile"
RECENTS = "recent list"
LINKS = "links to visitors"


THREADS = "threads"
QUESTIONS = "questions and answers"
POPULAR_QUESTIONS = "question statistics"


EXPOSURES = "exposures of experiments"
REPLIES = "replies kept for retries"
COUNTERS = "counters and pages"


TASKS = "task messages"
QUARANTINE = "quarantine"
LOG = "change log"


IMPORTS = "imports of files"


REDIS_PLACES = (
    PROFILE,
    RECENTS,
    LINKS,
    THREADS,
    QUESTIONS,
    POPULAR_QUESTIONS,
    EXPOSURES,
    REPLIES,
    COUNTERS,
    TASKS,
    QUARANTINE,
    LOG,
    IMPORTS,
)
"All places in Redis, in the order of the receipts."


PersonData = dict[str, list[Any]]
"Place -> the person's data in it, as JSON values."


_PAGE = 1_000
_LOG_PAGE = 20
_QUARANTINE_PAGE = 40
_REFERENCES = ("question-same", "question-citing", "question-entitled-citing")
_OWNED = frozenset(("user", "product", "recent", "linked", "question-by", "erasure", *_REFERENCES))
"Key families named by record ids, or with an owner who erases them."
_HIDDEN = "(names the person)"

Act = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class PersonTrace:
    """Data of a person in one place."""

    place: str
    items: list[Any]
    erase: Act | None = None
    "Removes the data; none: the intake or the owning store does."


class PersonTraces:
    """Finds all data of one person in Redis."""

    def __init__(self, server: RedisClient, person: Person, salt: bytes) -> None:
        self._server = server
        self._person = person
        self._app = person.app_id
        # Counters name users by pseudonyms only, which the app's salt gives.
        self._marks = frozenset(pseudonym(salt, user_key) for user_key in person.user_keys)
        self._questions: set[str] = set()

    async def find_all(self) -> AsyncIterator[PersonTrace]:
        """Iterate over all traces; references to a question come after the questions."""
        for part in (
            self._owned_keys,
            self._threads,
            self._question_traces,
            self._quarantined,
            self._logged,
            self._imports,
            self._walk,
        ):
            async for trace in part():
                yield trace

    async def _owned_keys(self) -> AsyncIterator[PersonTrace]:
        person = self._person
        ask = self._server.execute_slow
        if person.user_id:
            key = keys.record(self._app, "user", person.user_id)
            if (sealed := await ask("GET", key)) is not None:
                yield PersonTrace(PROFILE, [_read(unseal(sealed, salt_from_key(key)))])
            visitors = await ask("SMEMBERS", keys.linked(self._app, person.user_id))
            if visitors:
                yield PersonTrace(LINKS, sorted(map(name_of, visitors)))
        for user_key in person.user_keys:
            if packed := await ask("LRANGE", keys.recent(self._app, user_key), 0, -1):
                yield PersonTrace(RECENTS, [_read(interaction) for interaction in packed])

    async def _threads(self) -> AsyncIterator[PersonTrace]:
        user = self._person.user_id
        of = keys
        if not user:
            return
        sealed = await self._server.execute_slow("HGET", of.threads(self._app), user)
        if sealed is not None:
            body = _read(unseal(sealed, salt_from_key(of.threads(self._app), user)))
            yield PersonTrace(
                THREADS, body["threads"] if isinstance(body, dict) and "threads" in body else [body]
            )
        elif await self._server.execute_slow("HEXISTS", of.thread_revision(self._app), user):
            yield PersonTrace(THREADS, [{"revision": True}])

    async def _question_traces(self) -> AsyncIterator[PersonTrace]:
        for user_key in self._person.user_keys:
            # Kept for the walk, which finds references to these questions.
            for name in await self._server.execute_slow("SMEMBERS", keys.question_by(self._app, user_key)):
                self._questions.add(name_of(name))
        for question_id in sorted(self._questions):
            if shown := await self._question(question_id):
                yield PersonTrace(QUESTIONS, [shown])

    async def _question(self, question_id: str) -> dict[str, Any]:
        key = keys.question(self._app, question_id)
        question, shown = await self._server.execute_slow("HMGET", key, "asked", "shown")
        if question is None and shown is None:
            return {}
        return {
            "question": _read(unseal(question or b"", salt_from_key(key, "asked"))),
            # what locked articles gave is the publisher's, not the person's
            "answer": None
            if is_entitled_answer_id(question_id)
            else _read(unseal(shown or b"", salt_from_key(key, "shown"))),
        }

    async def _quarantined(self) -> AsyncIterator[PersonTrace]:
        name = keys.quarantine(self._app)
        async for entry_id, fields in self._entries(name, _QUARANTINE_PAGE):
            texts = [fields.get(part, b"") for part in (b"id", b"reason", b"payload")]
            if name_of(texts[0]) in self._person.words or any(map(self._names, texts)):
                item = {text_of(part): text_of(value) for part, value in fields.items()}
                yield PersonTrace(QUARANTINE, [item], self._act("XDEL", name, entry_id))

    async def _logged(self) -> AsyncIterator[PersonTrace]:
        for noun in ("user", "interaction"):
            async for _, fields in self._entries(keys.change_log(self._app, noun), _LOG_PAGE):
                payload = fields.get(b"payload", b"")
                if self._names(payload):
                    yield PersonTrace(LOG, self._mine(unseal(payload, salt_from_key(noun))))

    async def _imports(self) -> AsyncIterator[PersonTrace]:
        """Find examples of refused rows that earlier releases stored, and names of files."""
        for key in (keys.import_progress(self._app), keys.file_import(self._app)):
            flat = await self._server.execute_slow("HGETALL", key)
            for field, sealed in split_pairs(flat):
                salt = salt_from_key(key, name_of(field))
                stored = _read(unseal(sealed, salt))
                if not isinstance(stored, dict):
                    continue
                reasons = stored.get("reasons") or []
                mine = [reason for reason in reasons if self._person.is_named_in(orjson.dumps(reason))]
                name = str(stored.get("file_name", ""))
                is_named = self._person.is_named_in_file(name)
                if not mine and not is_named:
                    continue
                kept = [
                    {**reason, "example": "", "text": "erased"} if reason in mine else reason
                    for reason in reasons
                ]
                changed = {**stored, "reasons": kept} if mine else {**stored, "file_name": "erased"}
                erase = self._act("HSET", key, field, seal(orjson.dumps(changed), salt))
                yield PersonTrace(IMPORTS, [*mine, *([name] if is_named else [])], erase)

    def _mine(self, payload: bytes | None) -> list[Any]:
        """Select the person's rows from the payload of a change."""
        tree = _read(payload)
        items = tree if isinstance(tree, list) else [tree]
        return [item for item in items if self._person.is_named_in(orjson.dumps(item))] or [_HIDDEN]

    async def _entries(self, stream: str, count: int) -> AsyncIterator[tuple[bytes, dict[bytes, bytes]]]:
        start = "-"
        while entries := await self._server.execute_slow("XRANGE", stream, start, "+", "COUNT", count):
            for entry_id, flat in entries:
                yield entry_id, dict(split_pairs(flat))
            start = "(" + text_of(entries[-1][0])

    async def _walk(self) -> AsyncIterator[PersonTrace]:
        """Scan all keys of the app; references to a question come after all questions are found."""
        seen: set[str] = set()
        references: list[str] = []
        # `SCAN`, not `KEYS`: that would block Redis for all keys at once.
        async for names in self._pages_of_keys():
            references += [name for name in names if self._family(name) in _REFERENCES]
            for name, trace in zip(names, await asyncio.gather(*map(self._inspect_key, names)), strict=True):
                if trace is not None and name not in seen:  # a scan may return a key twice
                    seen.add(name)
                    yield trace
        for some in _pages(list(dict.fromkeys(references))):
            for trace in await asyncio.gather(*map(self._refers, some)):
                if trace is not None:
                    yield trace

    async def _inspect_key(self, name: str) -> PersonTrace | None:
        looks: dict[str, Callable[[str], Awaitable[PersonTrace | None]]] = {
            "exposure": self._exposures,
            "idempotency": self._reply,
            "task": self._task,
            "question": self._stray_question,
            "question-asked": self._statistics,
        }
        look = looks.get(self._family(name))
        return self._named(name) if look is None else await look(name)

    async def _refers(self, name: str) -> PersonTrace | None:
        return await (self._same if self._family(name) == "question-same" else self._citing)(name)

    def _family(self, name: str) -> str:
        return name[len(self._app) + 3 :].partition(":")[0]

    async def _pages_of_keys(self) -> AsyncIterator[list[str]]:
        cursor = b"0"
        pattern = f"{{{self._app}}}:*"
        while True:
            cursor, names = await self._server.execute_slow("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
            yield list(map(name_of, names))
            if cursor == b"0":
                return

    def _named(self, name: str) -> PersonTrace | None:
        """Find keys named by the person's id or a pseudonym; keys with an owner are not included."""
        family, _, rest = name[len(self._app) + 3 :].partition(":")
        if family in _OWNED:
            return None
        # Between colons: an id must not match the beginning of a longer one.
        plain = any(f":{user_key}:" in f":{rest}:" for user_key in self._person.user_keys)
        if not plain and self._marks.isdisjoint(rest.split(":")):
            return None
        return PersonTrace(COUNTERS, [family], self._act("DEL", name))

    async def _exposures(self, name: str) -> PersonTrace | None:
        experiment = name.rpartition(":")[2]
        user_keys = list(self._person.user_keys)
        stored = await self._server.execute_slow("HMGET", name, *user_keys)
        given = [Exposure.unpack(name_of(packed)) for packed in stored if packed is not None]
        if not given:
            return None
        items = [
            {
                "experiment_id": experiment,
                "variant_id": exposure.variant_id if exposure else "",
                "at": exposure.at_ms if exposure else 0,
            }
            for exposure in given
        ]

        async def erase() -> None:
            await erase_exposures_of(self._server, self._app, experiment, user_keys)

        return PersonTrace(EXPOSURES, items, erase)

    async def _reply(self, name: str) -> PersonTrace | None:
        reply, marks = await self._server.execute_slow("HMGET", name, "reply", "readers")
        # By mark, and by text: a reply may name the person without a mark.
        if not self._marks.isdisjoint(text_of(marks or b"").split()) or self._names(reply or b""):
            return PersonTrace(REPLIES, [_read(reply)], self._act("DEL", name))
        return None

    async def _task(self, name: str) -> PersonTrace | None:
        """Find messages that name the person; erasing keeps the count of failures and deletes the texts."""
        parts = ("errors", "late_errors")
        texts = dict(zip(parts, await self._server.execute_slow("HMGET", name, *parts), strict=True))
        removed: list[Any] = []
        kept: list[str | bytes] = []
        for part, text in texts.items():
            if text and self._names(text):
                parsed = _read(text)
                messages = parsed if isinstance(parsed, list) else [parsed]
                mine = [message for message in messages if self._person.is_named_in(orjson.dumps(message))]
                removed += mine
                kept += (
                    part,
                    orjson.dumps(
                        ["the message is erased" if message in mine else message for message in messages]
                    ),
                )
        return PersonTrace(TASKS, removed, self._act("HSET", name, *kept)) if removed else None

    async def _stray_question(self, name: str) -> PersonTrace | None:
        """Find a question of the person that none of the person's lists contains."""
        question_id = name.rpartition(":")[2]
        if question_id in self._questions:
            return None
        body = unseal(
            await self._server.execute_slow("HGET", name, "asked") or b"", salt_from_key(name, "asked")
        )
        if not body or not self._names(body):
            return None
        question = _read(body)
        people = (
            {question.get("user_id"), question.get("anonymous_id")} if isinstance(question, dict) else set()
        )
        # The text may name the person by chance; only the asker's own questions are erased.
        if people.isdisjoint(self._person.words):
            return None
        self._questions.add(question_id)

        async def erase() -> None:
            await self._server.execute_slow("DEL", name)
            await self._server.execute_slow("ZREM", keys.question_open(self._app), question_id)

        return PersonTrace(QUESTIONS, [await self._question(question_id)], erase)

    async def _same(self, name: str) -> PersonTrace | None:
        question_id = name_of(await self._server.execute_slow("GET", name) or b"")
        erase = self._act("DEL", name)
        return PersonTrace(COUNTERS, ["question-same"], erase) if question_id in self._questions else None

    async def _citing(self, name: str) -> PersonTrace | None:
        """Find the list of questions that cite a product."""
        if not self._questions:
            return None
        question_ids = sorted(self._questions)
        are_members = await self._server.execute_slow("SMISMEMBER", name, *question_ids)
        mine = [question_id for question_id, is_in in zip(question_ids, are_members, strict=True) if is_in]
        return (
            PersonTrace(COUNTERS, [self._family(name)] * len(mine), self._act("SREM", name, *mine))
            if mine
            else None
        )

    async def _statistics(self, name: str) -> PersonTrace | None:
        """Find the person's questions among the popular questions."""
        day = int(name.rpartition(":")[2])
        texts = [name_of(text) for text in await self._server.execute_slow("ZRANGE", name, 0, -1)]
        marks = [
            (text, question_fingerprint(text, user_key))
            for text in texts
            for user_key in self._person.user_keys
        ]
        asker = keys.question_asker(self._app, day)
        pairs = list[tuple[str, str]]()
        for some in _pages(marks):
            are_members = await self._server.execute_slow("SMISMEMBER", asker, *(mark for _, mark in some))
            pairs += [pair for pair, is_in in zip(some, are_members, strict=True) if is_in]
        if not pairs:
            return None

        async def erase() -> None:
            for text, mark in pairs:
                # Only what was removed is subtracted, so that a repeated erasure counts once.
                if await self._server.execute_slow("SREM", asker, mark):
                    await self._server.execute_slow("ZINCRBY", name, -1, text)
            # A text without any asker left goes too.
            await self._server.execute_slow("ZREMRANGEBYSCORE", name, "-inf", 0)

        return PersonTrace(POPULAR_QUESTIONS, [text for text, _ in pairs], erase)

    def _names(self, data: bytes) -> bool:
        # A checksum stands in front of sealed JSON; the search must begin behind it.
        sealed = data[:1] == b"1" and data[WIDTH : WIDTH + 1] in (b"{", b"[")
        return self._person.is_named_in(data[WIDTH:] if sealed else data)

    def _act(self, *command: str | bytes) -> Act:
        async def erase() -> None:
            await self._server.execute_slow(*command)

        return erase


async def erase_all(traces: Iterable[PersonTrace]) -> None:
    """Remove all traces."""
    acts = [trace.erase for trace in traces if trace.erase is not None]
    for some in _pages(acts):
        await asyncio.gather(*(act() for act in some))


def _pages(things: Sequence[Any]) -> list[Any]:
    return [things[start : start + _PAGE] for start in range(0, len(things), _PAGE)]


def _read(body: bytes | None) -> Any:
    """Parse JSON; return other content as text."""
    if body is None:
        return "(damaged)"
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return text_of(body)
