"""What the store of questions promises: an answer is never lost, its revision only grows, finished is finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cluster.records.question import Answer, Question


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A question with its answer as it stands."""

    question: Question
    answer: Answer
    attempts: int = 0
    "How often somebody began to answer it."


class QuestionStore(Protocol):
    """Questions with their answers, and which of them wait for somebody to go on.

    `shown` is the public record as JSON, written beside the answer it was made from, so that polling parses
    nothing. Whoever answers holds the question under a name until a time; afterwards anybody may take it over,
    and what the former holder still writes is refused.
    """

    async def ask(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write a new question in one step; it is held from the beginning. False: it was there before.

        A finished answer waits for nobody.

        Errors:
            TooMany: more unfinished questions of the app than may wait
        """
        ...

    async def shown(self, app_id: str, question_id: str) -> bytes | None:
        """Read the public record; None when there is none, also when it is broken."""
        ...

    async def shown_many(self, app_id: str, question_ids: Sequence[str]) -> list[bytes | None]: ...

    async def read(self, app_id: str, question_id: str) -> StoredQuestion | None: ...

    async def write(
        self, question: Question, answer: Answer, shown: bytes, *, holder: str, until_ms: int
    ) -> bool:
        """Write the next revision and go on holding it.

        False, and nothing written: it is finished, somebody else holds it, or the revision is not larger.
        A finished one is entered under every product it cites or names beside.
        """
        ...

    async def revise(self, question: Question, answer: Answer, shown: bytes, *, since: int) -> bool:
        """Write what is left of a finished answer whose sources changed; False when it is not at `since`."""
        ...

    async def list_due(self, app_id: str, *, now_ms: int, count: int) -> list[str]:
        """List unfinished questions that nobody holds any more, those waiting longest first."""
        ...

    async def count_waiting(self, app_id: str) -> int:
        """Count unfinished questions."""
        ...

    async def claim(
        self, app_id: str, question_id: str, *, holder: str, now_ms: int, until_ms: int
    ) -> StoredQuestion | None:
        """Take over a question nobody holds any more; None when somebody does, or it is finished or gone."""
        ...

    async def renew(self, app_id: str, question_id: str, *, holder: str, until_ms: int) -> bool:
        """Hold on to it; False when it is not ours any more."""
        ...

    async def release(self, app_id: str, question_id: str, *, holder: str) -> None:
        """Let go, so that anybody may go on at once."""
        ...

    async def remember(self, app_id: str, digest: str, question_id: str, *, ttl_ms: int) -> None:
        """Note which question was answered from exactly this: the same again need not be answered anew."""
        ...

    async def recall(self, app_id: str, digest: str) -> str | None: ...

    async def list_citing(self, app_id: str, product_id: str) -> list[str]:
        """List questions whose finished answers cite a product; some may have been revised since, or gone."""
        ...

    async def count(self, app_id: str, reader_id: str, day: int) -> int:
        """Count one more question of a reader on a day and say the how manieth it is."""
        ...

    async def count_stranger(self, app_id: str, address: str, day: int, *, each: int, total: int) -> bool:
        """Count one more question without proof from an address (a digest) on a day.

        False, and nothing counted, when the address sent `each` or all of them sent `total` already; 0: no bound.
        """
        ...

    async def spend_tokens(self, app_id: str, day: int, tokens: int, *, most: int) -> bool:
        """Spend tokens of the language model on a day; a negative number gives back.

        False, and nothing spent, when that would be more than `most`; 0: no bound.
        """
        ...

    async def record_question(self, app_id: str, text: str, reader_id: str, day: int) -> None:
        """Note what was asked by whom on a day, for what is often asked lately. Kept eight days; the same question of
        the same reader counts once in seven."""
        ...

    async def list_popular(self, app_id: str, days: Sequence[int], *, readers: int, rows: int) -> list[str]:
        """List questions that at least so many different readers asked on these days, the most asked first."""
        ...

    async def erase(self, app_id: str, reader_ids: Sequence[str]) -> int:
        """Forget all questions of readers."""
        ...

    async def checked_offset(self, app_id: str, checker: str) -> str:
        """Read up to which change of products somebody checked finished answers; empty at first."""
        ...

    async def record_checked_offset(self, app_id: str, checker: str, offset: str) -> None: ...
