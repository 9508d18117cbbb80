"""Questions in dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cluster.errors import TooMany
from cluster.records.question import Answer, Question
from cluster.store.archive.user_questions import (
    FREQUENCY_DAYS,
    MOST_CITING,
    MOST_OPEN,
    MOST_TEXTS,
    QuestionStore,
    StoredQuestion,
    select_popular,
    user_key_from_question,
)


@dataclass(slots=True)
class _Entry:
    recorded: StoredQuestion
    shown: bytes
    holder: str
    until_ms: int

    @property
    def finished(self) -> bool:
        return self.recorded.answer.finished


class MemoryQuestions(QuestionStore):
    """`QuestionStore` in dictionaries; nothing is ever too old."""

    def __init__(self, *, most_open: int = MOST_OPEN) -> None:
        self._most_open = most_open
        self._kept: dict[tuple[str, str], _Entry] = {}
        self._same: dict[tuple[str, str], str] = {}
        self._citing: dict[tuple[str, str, bool], set[str]] = defaultdict(set)
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._askers: dict[tuple[str, int], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._checked: dict[tuple[str, str], str] = {}

    async def ask(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        name = (question.app_id, question.question_id)
        if name in self._kept:
            return False
        if not answer.finished and await self.count_waiting(question.app_id) >= self._most_open:
            raise TooMany("too many questions wait for their answers", retry_after_s=2)
        self._kept[name] = _Entry(StoredQuestion(question, answer, 1), shown, holder, until_ms)
        return True

    async def shown(self, app_id: str, question_id: str) -> bytes | None:
        kept = self._kept.get((app_id, question_id))
        return None if kept is None else kept.shown

    async def shown_many(self, app_id: str, question_ids: Sequence[str]) -> list[bytes | None]:
        return [await self.shown(app_id, question_id) for question_id in question_ids]

    async def read(self, app_id: str, question_id: str) -> StoredQuestion | None:
        kept = self._kept.get((app_id, question_id))
        return None if kept is None else kept.recorded

    async def write(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        kept = self._kept.get((question.app_id, question.question_id))
        if kept is None or kept.finished or kept.holder != holder:
            return False
        if answer.revision <= kept.recorded.answer.revision:
            return False
        kept.recorded, kept.shown, kept.until_ms = replace(kept.recorded, answer=answer), shown, until_ms
        for passage in (*answer.passages, *answer.related) if answer.finished else ():
            self._citing[question.app_id, passage.product_id, question.is_entitled].add(question.question_id)
        return True

    async def replace_finished_answer(
        self, question: Question, answer: Answer, shown: bytes, *, since: int
    ) -> bool:
        kept = self._kept.get((question.app_id, question.question_id))
        if kept is None or not kept.finished or kept.recorded.answer.revision != since:
            return False
        kept.recorded, kept.shown = replace(kept.recorded, answer=answer), shown
        return True

    async def list_due(self, app_id: str, *, now_ms: int, count: int) -> list[str]:
        open_ones = [
            (kept.until_ms, question_id)
            for (app, question_id), kept in self._kept.items()
            if app == app_id and not kept.finished and kept.until_ms <= now_ms
        ]
        return [question_id for _, question_id in sorted(open_ones)[:count]]

    async def count_waiting(self, app_id: str) -> int:
        return sum(app == app_id and not kept.finished for (app, _), kept in self._kept.items())

    async def claim(
        self, app_id: str, question_id: str, *, holder: str, now_ms: int, until_ms: int
    ) -> StoredQuestion | None:
        kept = self._kept.get((app_id, question_id))
        if kept is None or kept.finished or kept.until_ms > now_ms:
            return None
        kept.holder, kept.until_ms = holder, until_ms
        kept.recorded = replace(kept.recorded, attempts=kept.recorded.attempts + 1)
        return kept.recorded

    async def renew(self, app_id: str, question_id: str, *, holder: str, until_ms: int) -> bool:
        kept = self._kept.get((app_id, question_id))
        if kept is None or kept.finished or kept.holder != holder:
            return False
        kept.until_ms = until_ms
        return True

    async def release(self, app_id: str, question_id: str, *, holder: str) -> None:
        await self.renew(app_id, question_id, holder=holder, until_ms=0)

    async def remember(self, app_id: str, digest: str, question_id: str, *, ttl_ms: int) -> None:
        self._same[app_id, digest] = question_id

    async def recall(self, app_id: str, digest: str) -> str | None:
        return self._same.get((app_id, digest))

    async def list_citing(self, app_id: str, product_id: str, *, entitled: bool = False) -> list[str]:
        return sorted(self._citing[app_id, product_id, entitled])[:MOST_CITING]

    async def discard(self, question: Question) -> None:
        self._kept.pop((question.app_id, question.question_id), None)

    async def list_recent(self, app_id: str, *, start: int, count: int) -> list[StoredQuestion]:
        kept = [
            entry.recorded
            for name, entry in self._kept.items()
            if name[0] == app_id and not entry.recorded.question.is_entitled
        ]
        kept.sort(key=lambda stored: stored.question.asked_at, reverse=True)
        return kept[start : start + count]

    async def count(self, app_id: str, user_key: str, day: int) -> int:
        self._counts[app_id, user_key, day] += 1
        return self._counts[app_id, user_key, day]

    async def count_stranger(self, app_id: str, address: str, day: int, *, each: int, total: int) -> bool:
        mine, everybody = (app_id, "ask:" + address, day), (app_id, "ask", day)
        if (each and self._counts[mine] >= each) or (total and self._counts[everybody] >= total):
            return False
        self._counts.update((mine, everybody))
        return True

    async def spend_tokens(self, app_id: str, day: int, tokens: int, *, most: int) -> bool:
        name = (app_id, "tokens", day)
        if most and tokens > 0 and self._counts[name] + tokens > most:
            return False
        self._counts[name] = max(0, self._counts[name] + tokens)
        return True

    async def record_question(self, app_id: str, text: str, user_key: str, day: int) -> None:
        if any(user_key in self._askers[app_id, day - ago][text] for ago in range(1, FREQUENCY_DAYS)):
            return
        users_by_text = self._askers[app_id, day]
        if text in users_by_text or len(users_by_text) < MOST_TEXTS:
            users_by_text[text].add(user_key)

    async def list_popular(self, app_id: str, days: Sequence[int], *, min_users: int, rows: int) -> list[str]:
        counts: Counter[str] = Counter()
        for day in days:
            counts.update({text: len(who) for text, who in self._askers[app_id, day].items()})
        return select_popular(counts, min_users, rows)

    async def erase(self, app_id: str, user_keys: Sequence[str]) -> int:
        names = [
            name
            for name, kept in self._kept.items()
            if name[0] == app_id and user_key_from_question(kept.recorded.question) in user_keys
        ]
        for name in names:
            del self._kept[name]
        return len(names)

    async def checked_offset(self, app_id: str, checker: str) -> str:
        return self._checked.get((app_id, checker), "")

    async def record_checked_offset(self, app_id: str, checker: str, offset: str) -> None:
        self._checked[app_id, checker] = offset
