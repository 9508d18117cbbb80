"""Questions with their answers: a hash each, and indexes of unfinished, citing and popular questions."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import NewerRelease, TooMany
from cluster.ids import user_key_from_anonymous_id, user_key_from_id
from cluster.records.question import Answer, Question
from cluster.store import keys
from cluster.store.client.multiplexer import Argument
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script
from cluster.store.data.append_plan import MOST_ADDRESSES
from cluster.store.data.salts import Salts
from cluster.store.seals.quarantine import Quarantine
from cluster.store.seals.record_seal import SealedRecords, seal_record
from cluster.store.seals.seal import salt_from_key, seal, unseal


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question with its current answer."""

    question: Question
    answer: Answer
    attempts: int = 0
    "Number of attempts to answer it."


DAY_MS = 86_400_000
LIFE_MS = 30 * DAY_MS
STRANGER_LIFE_MS = 2 * DAY_MS
"Lifetime of an unverified question from a publishable key."
LOGGED_LIFE_MS = 400 * DAY_MS
"Lifetime of a question in a history."
FREQUENCY_LIFE_MS = 8 * DAY_MS
FREQUENCY_DAYS = 7
"Days within which a user's question counts once."
COUNT_LIFE_MS = 2 * DAY_MS
MOST_OPEN = 1_000
"Unfinished questions of an app."
MOST_TEXTS = 20_000
"Different questions of an app counted on one day."
MOST_CITING = 1_000
"Answers checked again after a change of one product."
MOST_RECENT = 1_000
"Questions of an app that editors can list."
_TOP = 200

_ASK = Script.load("ask_question")
_WRITE = Script.load("write_answer")
_REVISE = Script.load("revise_answer")
_CLAIM = Script.load("claim_question")
_RENEW = Script.load("renew_question")
_ERASE = Script.load("erase_questions")
_NOTE = Script.load("note_asked")
_COUNT = Script.load("count_stranger")
_SPEND = Script.load("spend_tokens")


class QuestionStore:
    """Questions with their answers, and the queue of unfinished ones.

    `shown` is the public record as JSON, written together with its answer, so that polling parses nothing. The
    worker that answers a question holds a lease on it under its name. After the expiry any worker may claim it,
    and the store refuses later writes of the former holder.
    """

    def __init__(self, server: RedisClient, quarantine: Quarantine, *, most_open: int = MOST_OPEN) -> None:
        self._server = server
        self._records = SealedRecords(quarantine)
        self._salts = Salts(server)
        self._most_open = most_open

    async def ask(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write a new question with its lease in one step; return False when it existed already.

        A question with a finished answer needs no lease.

        Errors:
            TooMany: more unfinished questions of the app than may wait
        """
        app_id = question.app_id
        question_id = question.question_id
        name = keys.question(app_id, question_id)
        user_key = user_key_from_question(question)
        args: list[Argument] = [
            question_id,
            seal_record(question, name, "asked"),
            seal_record(answer, name, "answer"),
            seal(shown, salt_from_key(name, "shown")),
            answer.revision,
            _flag(answer.finished),
            holder,
            until_ms,
            lifetime_ms(question),
            self._most_open,
            _flag(bool(user_key)),
            question.asked_at,
            # editors see the answers that everybody gets
            0 if question.is_entitled else MOST_RECENT,
        ]
        recent = keys.question_recent(app_id)
        names = [name, keys.question_open(app_id), keys.question_by(app_id, user_key), recent]
        # One script: index, bound and record change together, or a crash leaves a question without a worker.
        done = int(await self._server.run(_ASK, names, args))
        if done < 0:
            raise TooMany("too many questions wait for their answers", retry_after_s=2)
        return done == 1

    async def shown(self, app_id: str, question_id: str) -> bytes | None:
        """Return the public record; None when it is absent or broken."""
        name = keys.question(app_id, question_id)
        sealed = await self._server.execute("HGET", name, "shown")
        return None if sealed is None else unseal(sealed, salt_from_key(name, "shown"))

    async def shown_many(self, app_id: str, question_ids: Sequence[str]) -> list[bytes | None]:
        return list(await asyncio.gather(*(self.shown(app_id, question_id) for question_id in question_ids)))

    async def read(self, app_id: str, question_id: str) -> StoredQuestion | None:
        name = keys.question(app_id, question_id)
        fields = await self._server.execute_slow("HMGET", name, "asked", "answer", "attempts")
        return await self._recorded(app_id, name, fields)

    async def write(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write the next revision and keep the lease.

        Returns False, and writes nothing, if the answer is finished, another worker holds the lease, or the revision
        is not larger. A finished answer is indexed under every product it cites or names.
        """
        app_id = question.app_id
        question_id = question.question_id
        name = keys.question(app_id, question_id)
        # Only finished answers are checked again after a change of a product.
        shown_beside = (*answer.passages, *answer.related) if answer.finished else ()
        cited = dict.fromkeys(passage.product_id for passage in shown_beside)
        citing = keys.question_entitled_citing if question.is_entitled else keys.question_citing
        names = [
            name,
            keys.question_open(app_id),
            *(citing(app_id, product_id) for product_id in cited),
        ]
        args: list[Argument] = [
            question_id,
            holder,
            seal_record(answer, name, "answer"),
            seal(shown, salt_from_key(name, "shown")),
            answer.revision,
            _flag(answer.finished),
            until_ms,
            lifetime_ms(question),
        ]
        return bool(await self._server.run(_WRITE, names, args))

    async def replace_finished_answer(
        self, question: Question, answer: Answer, shown: bytes, *, since: int
    ) -> bool:
        """Write the rest of a finished answer whose sources changed; return False if its revision is not `since`."""
        name = keys.question(question.app_id, question.question_id)
        args: list[Argument] = [
            since,
            seal_record(answer, name, "answer"),
            seal(shown, salt_from_key(name, "shown")),
            answer.revision,
        ]
        return bool(await self._server.run(_REVISE, [name], args))

    async def list_due(self, app_id: str, *, now_ms: int, count: int) -> list[str]:
        """Return unfinished questions without a valid lease, the longest waiting first."""
        # Scores are the ends of leases, so all up to now are those without a valid one.
        names = await self._server.execute_slow(
            "ZRANGEBYSCORE", keys.question_open(app_id), "-inf", now_ms, "LIMIT", 0, count
        )
        return [name_of(name) for name in names]

    async def count_waiting(self, app_id: str) -> int:
        """Return the number of unfinished questions."""
        return int(await self._server.execute_slow("ZCARD", keys.question_open(app_id)))

    async def claim(
        self, app_id: str, question_id: str, *, holder: str, now_ms: int, until_ms: int
    ) -> StoredQuestion | None:
        """Claim a question without a valid lease; return None when it is leased, finished or absent."""
        name = keys.question(app_id, question_id)
        args: list[Argument] = [question_id, holder, now_ms, until_ms]
        fields = await self._server.run(_CLAIM, [name, keys.question_open(app_id)], args)
        try:
            return await self._recorded(app_id, name, fields) if fields else None
        except NewerRelease:
            return None  # a replica of the newer release takes it over when this lease ends

    async def renew(self, app_id: str, question_id: str, *, holder: str, until_ms: int) -> bool:
        """Renew the lease; return False when another worker has it."""
        names = [keys.question(app_id, question_id), keys.question_open(app_id)]
        return bool(await self._server.run(_RENEW, names, [question_id, holder, until_ms]))

    async def release(self, app_id: str, question_id: str, *, holder: str) -> None:
        """Release the lease, so that any worker may claim the question at once."""
        await self.renew(app_id, question_id, holder=holder, until_ms=0)

    async def discard(self, question: Question) -> None:
        """Delete a question that nobody needs."""
        app_id = question.app_id
        question_id = question.question_id
        owned = keys.question_by(app_id, user_key_from_question(question))
        names = [owned, keys.question_open(app_id), keys.question(app_id, question_id)]
        await self._server.run(_ERASE, names, [question_id])

    async def remember(self, app_id: str, digest: str, question_id: str, *, ttl_ms: int) -> None:
        """Record which question was answered from these inputs, so that equal questions reuse its answer."""
        await self._server.execute_slow("SET", keys.question_same(app_id, digest), question_id, "PX", ttl_ms)

    async def recall(self, app_id: str, digest: str) -> str | None:
        question_id = await self._server.execute_slow("GET", keys.question_same(app_id, digest))
        return None if question_id is None else name_of(question_id)

    async def list_citing(self, app_id: str, product_id: str, *, entitled: bool = False) -> list[str]:
        """Return questions whose finished answers cite a product; some may be revised or deleted since.

        `entitled` lists the answers that only their askers read; both lists are apart, so that one shows nothing of
        the other, not even by its length.
        """
        citing = keys.question_entitled_citing if entitled else keys.question_citing
        members = await self._server.execute_slow("SMEMBERS", citing(app_id, product_id))
        return sorted(name_of(member) for member in members)[:MOST_CITING]

    async def list_recent(self, app_id: str, *, start: int, count: int) -> list[StoredQuestion]:
        """Return questions with their answers, the newest first, from a place on; deleted ones are left out. The
        newest 1,000 are listed."""
        name = keys.question_recent(app_id)
        last = start + count - 1
        # Ids of deleted questions may still be in the list; they read as None below.
        ids = [name_of(member) for member in await self._server.execute_slow("ZREVRANGE", name, start, last)]
        read = await asyncio.gather(*(self.read(app_id, question_id) for question_id in ids))
        return [stored for stored in read if stored is not None]

    async def count(self, app_id: str, user_key: str, day: int) -> int:
        """Increment the user's questions of a day and return the new count."""
        # A pseudonym: the key of a counter must not name the user.
        mark = await self._salts.pseudonym(app_id, user_key)
        name = keys.question_count(app_id, mark, day)
        # First, or a process that dies between the two would leave a counter that never ends.
        await self._server.execute_slow("SET", name, 0, "NX", "PX", COUNT_LIFE_MS)
        return int(await self._server.execute_slow("INCR", name))

    async def count_stranger(self, app_id: str, address: str, day: int, *, each: int, total: int) -> bool:
        """Count one more unverified question from an address (a digest) on a day.

        Returns False, and counts nothing, when the address sent `each` or all of them sent `total`; 0: no bound.
        """
        args: list[Argument] = ["ask", address, each, total, MOST_ADDRESSES, COUNT_LIFE_MS // 1000]
        return bool(await self._server.run(_COUNT, [keys.stranger(app_id, day)], args))

    async def spend_tokens(self, app_id: str, day: int, tokens: int, *, most: int) -> bool:
        """Spend tokens of the language model on a day; a negative number gives back.

        Returns False, and spends nothing, when the sum would exceed `most`; 0: no bound.
        """
        names = [keys.provider_tokens(app_id, day)]
        return bool(await self._server.run(_SPEND, names, [tokens, most, COUNT_LIFE_MS]))

    async def record_question(self, app_id: str, text: str, user_key: str, day: int) -> None:
        """Count a question of a user on a day for the list of popular questions. Kept eight days; the same question
        of the same user counts once in seven."""
        earlier = [keys.question_asker(app_id, day - ago) for ago in range(1, FREQUENCY_DAYS)]
        names = [keys.question_asker(app_id, day), keys.question_frequency(app_id, day), *earlier]
        await self._server.run(
            _NOTE, names, [text, question_fingerprint(text, user_key), FREQUENCY_LIFE_MS, MOST_TEXTS]
        )

    async def list_popular(self, app_id: str, days: Sequence[int], *, min_users: int, rows: int) -> list[str]:
        """Return questions that at least `min_users` different users asked on these days, the most frequent first."""
        counts: Counter[str] = Counter()
        for day in days:
            name = keys.question_frequency(app_id, day)
            # Only the most frequent of each day: a bound for the read, at the
            # price of questions that are rare every day.
            flat = await self._server.execute_slow("ZREVRANGE", name, 0, _TOP - 1, "WITHSCORES")
            for text, count in split_pairs(flat):
                counts[text_of(text)] += int(float(count))
        return select_popular(counts, min_users, rows)

    async def erase(self, app_id: str, user_keys: Sequence[str]) -> int:
        """Erase all questions of users; return their number."""
        return await erase_questions(self._server, app_id, user_keys)

    async def checked_offset(self, app_id: str, checker: str) -> str:
        """Return the offset of the product log up to which `checker` checked finished answers; empty at first."""
        offset = await self._server.execute_slow("HGET", keys.question_checked(app_id), checker)
        return "" if offset is None else name_of(offset)

    async def record_checked_offset(self, app_id: str, checker: str, offset: str) -> None:
        await self._server.execute_slow("HSET", keys.question_checked(app_id), checker, offset)

    async def _recorded(
        self, app_id: str, name: str, fields: Sequence[bytes | None]
    ) -> StoredQuestion | None:
        sealed_question = fields[0]
        sealed = fields[1]
        if sealed_question is None or sealed is None:
            return None
        question = await self._records.get(Question, app_id, name, "asked", sealed_question)
        answer = await self._records.get(Answer, app_id, name, "answer", sealed)
        if question is None or answer is None:
            return None
        return StoredQuestion(question, answer, int(fields[2] or 0))


async def erase_questions(server: RedisClient, app_id: str, user_keys: Sequence[str]) -> int:
    """Erase the questions and answers of users and return their number; see `QuestionStore`."""
    gone = 0
    for user_key in user_keys:
        owned = keys.question_by(app_id, user_key)
        ids = [name_of(member) for member in await server.execute_slow("SMEMBERS", owned)]
        # A script blocks Redis while it runs, so each takes a bounded number.
        for start in range(0, len(ids), 500):
            some = ids[start : start + 500]
            names = [
                owned,
                keys.question_open(app_id),
                *(keys.question(app_id, question_id) for question_id in some),
            ]
            gone += int(await server.run(_ERASE, names, some))
            await server.execute_slow("ZREM", keys.question_recent(app_id), *some)
    return gone


def user_key_from_question(question: Question) -> str:
    """Return the prefixed id of the user who asked; empty when unknown."""
    if question.user_id:
        return user_key_from_id(question.user_id)
    return user_key_from_anonymous_id(question.anonymous_id) if question.anonymous_id else ""


def lifetime_ms(question: Question) -> int:
    """Return the lifetime of a question in milliseconds."""
    if question.logged or question.lives_as_logged:
        return LOGGED_LIFE_MS
    return STRANGER_LIFE_MS if question.is_strangers else LIFE_MS


def question_fingerprint(text: str, user_key: str) -> str:
    """Return a digest of a user's question that does not contain the user."""
    # NUL separates text and user unambiguously; 96 bits make equal digests of different pairs unlikely.
    return hashlib.sha256(f"{text}\0{user_key}".encode()).hexdigest()[:24]


def select_popular(counts: Counter[str], min_users: int, rows: int) -> list[str]:
    """Return the questions that enough users asked, the most frequent first."""
    often = sorted((-count, text) for text, count in counts.items() if count >= min_users)
    return [text for _, text in often[:rows]]


def _flag(truth: bool) -> str:
    return "1" if truth else "0"
