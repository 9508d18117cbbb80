"""The protocol of the store of questions: no answer is lost, revisions only grow, a finished answer stays finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.question import Answer, Question


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question with its current answer."""

    question: Question
    answer: Answer
    attempts: int = 0
    "Number of attempts to answer it."


class QuestionStore(Protocol):
    """Questions with their answers, and the queue of unfinished ones.

    `shown` is the public record as JSON, written together with its answer, so that polling parses nothing. The
    worker that answers a question holds a lease on it under its name. After the expiry any worker may claim it,
    and the store refuses later writes of the former holder.
    """

    async def ask(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write a new question with its lease in one step; return False when it existed already.

        A question with a finished answer needs no lease.

        Errors:
            TooMany: more unfinished questions of the app than may wait
        """
        ...

    async def shown(self, app_id: str, question_id: str) -> bytes | None:
        """Return the public record; None when it is absent or broken."""
        ...

    async def shown_many(self, app_id: str, question_ids: Sequence[str]) -> list[bytes | None]: ...

    async def read(self, app_id: str, question_id: str) -> StoredQuestion | None: ...

    async def write(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write the next revision and keep the lease.

        Returns False, and writes nothing, if the answer is finished, another worker holds the lease, or the revision
        is not larger. A finished answer is indexed under every product it cites or names.
        """
        ...

    async def revise(self, question: Question, answer: Answer, shown: bytes, *, since: int) -> bool:
        """Write the rest of a finished answer whose sources changed; return False if its revision is not `since`."""
        ...

    async def list_due(self, app_id: str, *, now_ms: int, count: int) -> list[str]:
        """Return unfinished questions without a valid lease, the longest waiting first."""
        ...

    async def count_waiting(self, app_id: str) -> int:
        """Return the number of unfinished questions."""
        ...

    async def claim(
        self, app_id: str, question_id: str, *, holder: str, now_ms: int, until_ms: int
    ) -> StoredQuestion | None:
        """Claim a question without a valid lease; return None when it is leased, finished or absent."""
        ...

    async def renew(self, app_id: str, question_id: str, *, holder: str, until_ms: int) -> bool:
        """Renew the lease; return False when another worker has it."""
        ...

    async def release(self, app_id: str, question_id: str, *, holder: str) -> None:
        """Release the lease, so that any worker may claim the question at once."""
        ...

    async def remember(self, app_id: str, digest: str, question_id: str, *, ttl_ms: int) -> None:
        """Record which question was answered from these inputs, so that equal questions reuse its answer."""
        ...

    async def recall(self, app_id: str, digest: str) -> str | None: ...

    async def list_citing(self, app_id: str, product_id: str) -> list[str]:
        """Return questions whose finished answers cite a product; some may be revised or deleted since."""
        ...

    async def list_recent(self, app_id: str, *, start: int, count: int) -> list[StoredQuestion]:
        """Return questions with their answers, the newest first, from a place on; deleted ones are left out. The
        newest 1,000 are listed."""
        ...

    async def count(self, app_id: str, reader_id: str, day: int) -> int:
        """Increment the user's questions of a day and return the new count."""
        ...

    async def count_stranger(self, app_id: str, address: str, day: int, *, each: int, total: int) -> bool:
        """Count one more unverified question from an address (a digest) on a day.

        Returns False, and counts nothing, when the address sent `each` or all of them sent `total`; 0: no bound.
        """
        ...

    async def spend_tokens(self, app_id: str, day: int, tokens: int, *, most: int) -> bool:
        """Spend tokens of the language model on a day; a negative number gives back.

        Returns False, and spends nothing, when the sum would exceed `most`; 0: no bound.
        """
        ...

    async def record_question(self, app_id: str, text: str, reader_id: str, day: int) -> None:
        """Count a question of a user on a day for the list of popular questions. Kept eight days; the same question
        of the same user counts once in seven."""
        ...

    async def list_popular(self, app_id: str, days: Sequence[int], *, readers: int, rows: int) -> list[str]:
        """Return questions that at least `readers` different users asked on these days, the most frequent first."""
        ...

    async def erase(self, app_id: str, reader_ids: Sequence[str]) -> int:
        """Erase all questions of users; return their number."""
        ...

    async def checked_offset(self, app_id: str, checker: str) -> str:
        """Return the offset of the product log up to which `checker` checked finished answers; empty at first."""
        ...

    async def record_checked_offset(self, app_id: str, checker: str, offset: str) -> None: ...
