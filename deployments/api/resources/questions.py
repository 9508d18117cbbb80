"""Endpoints of questions: a question is accepted at once, answered in the background, and read from the store.

Published in `docs/reference/rest.md`, section Ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from pydantic_core import PydanticCustomError

from actors.answers.client import QuestionClient
from actors.archive.client import ArchiveClient
from actors.history.tracker import ThreadTracker
from actors.recommender.messages import UserQuery
from actors.retrieval.messages import SearchQuery
from actors.serving.client import RecommenderClient
from cluster.access_tier import NOBODY
from cluster.clock import Clock
from cluster.errors import KioskError, NotFound, TooMany, Unauthenticated, Unavailable, messages
from cluster.ids import DEFAULT_ENGINE, new_question_id
from cluster.query.language.parser import parse
from cluster.records.logged_query import UNKNOWN, has_link
from cluster.records.question import ANSWER_WITHIN_MS, CLAIMS_MARK, Format, Question, build_entitled_question
from cluster.store.archive.user_questions import QuestionStore, StoredQuestion
from deployments.api.http.article_access import keep_readable, tiers_from_request
from deployments.api.http.confidential_fields import check_format, check_hidden_filter
from deployments.api.http.user_identity import UserIdentity, user_identity_from_request
from deployments.api.resources.answer_reads import read_answer, read_shown
from deployments.api.resources.query_services import QueryServices
from deployments.api.wire.ask import AnswerFormatBody, AskAnswers, AskBody, AskQuestion, parse_question_id
from deployments.api.wire.query_bodies import parse_filter
from deployments.api.wire.validation_errors import refuse, validate_body
from deployments.edge.access.admission import verify_bearer_token
from deployments.edge.http.replies import Reply, dumps, success, success_json, with_etag
from deployments.edge.http.request import ApiRequest

NAMED = "question_id"
_AGAIN_S = 3600
"Seconds after which an unproven user may retry whose address exceeded its daily limit."
QUOTA_SPENT = "The number of questions for today is used up."
_DAY_MS = 86_400_000
_HISTORY_WAIT_S = 1.0
"Seconds for which a reply waits until the question is in the user's history."
_HISTORY_PAUSES_S = (0.2, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class AskServices:
    """What the ask endpoints depend on."""

    client: QuestionClient
    archive: ArchiveClient
    store: QuestionStore
    clock: Clock
    history: ThreadTracker
    new_question_id: Callable[[], str] = new_question_id


class QuestionsResource:
    """The endpoints that accept questions and return answers."""

    def __init__(self, services: AskServices, queries: QueryServices) -> None:
        self._services = services
        self._queries = queries
        self._put = record_in_history(services.history)
        self._noting: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger()

    def parse_request(self, request: ApiRequest) -> tuple[AskQuestion, UserIdentity]:
        """Validate the body of a question."""
        body = validate_body(AskQuestion, request.payload)
        check_browser_question(request, body)
        check_hidden_filter(request, "fq", parse_filter(body.fq, "fq"))
        check_hidden_filter(request, "boost_fq", parse_filter(body.boost_fq, "boost_fq"))
        return body, user_identity_from_request(request, body, self._services.clock.now_ms())

    async def ask(self, request: ApiRequest) -> Reply:
        """Accept a question."""
        body, identity = request.parsed
        question = self.build_question(request, body, body.question, identity)
        question_id = await self.accept(request, question, identity, body.parent_question_id)
        self._queries.query_log.record(
            request,
            "ask",
            question.text,
            total=UNKNOWN,
            language=question.language,
            served_by="ask_questions",
        )
        return success({"question_id": question_id})

    def build_question(
        self, request: ApiRequest, body: Any, text: str, identity: UserIdentity, **more: Any
    ) -> Question:
        """Return a question from a body."""
        now_ms = self._services.clock.now_ms()
        default = Format(related_resource_fl=tuple(getattr(body, "related_resource_fl", None) or ("title",)))
        return Question(
            question_id=self._services.new_question_id(),
            app_id=request.app_id,
            text=" ".join(text.split()),
            asked_at=now_ms,
            deadline_at=now_ms + ANSWER_WITHIN_MS,
            user_id=identity.user_id,
            anonymous_id=identity.anonymous_id,
            user_type=identity.user_type,
            logged=bool(identity.user_id) and body.log_user_history,
            fq=body.fq or "",
            boost_fq=body.boost_fq or "",
            yearly_decay=body.yearly_decay,
            type=body.type,
            language=(getattr(body, "language", None) or "").lower(),
            format=body.format(default),
            metadata=identity.metadata,
            claims=identity.claims,
            is_strangers=bool(identity.origin),
            is_automated=request.is_automated,
            **more,
        )

    async def accept(
        self, request: ApiRequest, question: Question, identity: UserIdentity, parent_id: str | None
    ) -> str:
        """Store a question unless its user has reached a limit; it is answered in the background.

        Errors:
            NotFound: the parent question is missing, or another user's
            TooMany: the user or the address has reached its daily limit
            Unavailable: the store is unavailable, or writes are refused
        """
        services = self._services
        if parent_id is not None:
            question = self._check_parent(
                question, await services.store.read(request.app_id, parent_id), parent_id
            )
        reason = request.gate.why_no_writes()
        if reason:
            raise Unavailable(reason, retry_after_s=10, told=True)
        day = question.asked_at // _DAY_MS
        await self._admit(request, identity, day)
        quotas = request.credential.app.settings.questions_per_day.items()
        quota = next((bound for kind, bound in quotas if kind == identity.user_type), None)
        if quota is not None and await self._is_over_quota(request.app_id, identity, day, quota):
            await services.client.refuse(question, QUOTA_SPENT)
            return question.question_id
        question = await self._queries.treatment.apply_to_question(request, question)
        tiers = tiers_from_request(request)
        countable = not has_link(question.text)
        # The same whether there are locked articles or not, or else the popular questions would tell.
        question = question.model_copy(update={"is_counted_late": countable and bool(tiers)})
        try:
            await self._submit(question, tiers)
        except KioskError:
            self._queries.treatment.record_failed_question(question)
            raise
        if countable and not tiers:
            self._run_in_background(
                services.store.record_question(request.app_id, question.text, identity.counting_id, day)
            )
        if question.logged:
            await asyncio.wait(
                {self._run_in_background(self._record_in_history(question))}, timeout=_HISTORY_WAIT_S
            )
        return question.question_id

    async def _submit(self, question: Question, tiers: frozenset[str]) -> None:
        """Store a question, with the entitled one if the tiers may open articles."""

        async def select(readable: frozenset[str]) -> tuple[str, ...] | None:
            return await list_filtered_products(
                self._queries.recommender, question.app_id, question.fq, question.type, readable
            )

        entitled = None
        if self._may_open_articles(question.app_id, tiers):
            entitled = build_entitled_question(question, tiers, await select(tiers))
        only = await select(NOBODY)
        await self._services.client.submit(question.model_copy(update={"only": only}), entitled)

    def _may_open_articles(self, app_id: str, tiers: frozenset[str]) -> bool:
        """Return whether some tiers may open locked articles of the archive, as far as it is loaded."""
        locked = self._services.archive.locked_accesses(app_id) if tiers else NOBODY
        return bool(tiers) if locked is None else not locked.isdisjoint(tiers)

    async def _admit(self, request: ApiRequest, identity: UserIdentity, day: int) -> None:
        """Check the daily limits of unproven users before anything is written.

        Errors:
            TooMany: the address, or all unproven users, reached the limit
        """
        settings = request.credential.app.settings
        each = settings.questions_per_address
        total = settings.questions_without_proof
        if not identity.origin or not (each or total):
            return
        counted = self._services.store.count_stranger(
            request.app_id, identity.origin, day, each=each, total=total
        )
        if not await counted:
            raise TooMany(QUOTA_SPENT, retry_after_s=_AGAIN_S)

    async def _is_over_quota(self, app_id: str, identity: UserIdentity, day: int, quota: int) -> bool:
        """Count a question against its user, and against the address if the user is unproven."""
        counts = [
            await self._services.store.count(app_id, counted_key, day)
            # A set, because both keys of a proven user are equal, and a question counts once.
            for counted_key in {identity.user_key, identity.counting_id}
        ]
        return max(counts) > quota

    def parse_id(self, request: ApiRequest) -> str:
        """Validate the id in the path."""
        try:
            return parse_question_id(request.ids[NAMED])
        except PydanticCustomError as error:
            refuse(error.message(), NAMED, kind=error.type, within="path")

    async def answer(self, request: ApiRequest) -> Reply:
        """Return the current state of an answer, as the bytes in the store.

        A poll needs no user. A valid token in the header gives its asker the entitled answer and the claims.

        Errors:
            NotFound: the app has no such question
        """
        try:
            token = verify_bearer_token(request)
        except Unauthenticated:
            token = None
        (shown,) = await read_shown(self._services.store, request.app_id, (request.parsed,), token)
        if shown is None:
            raise NotFound(messages.NOT_FOUND)
        if shown.endswith(CLAIMS_MARK):
            user_id = token.user_id if token is not None else ""
            shown = await self._with_claims(request, shown.removesuffix(CLAIMS_MARK) + b"}", user_id)
        return with_etag(success_json(shown))

    def parse_many(self, request: ApiRequest) -> AskAnswers:
        """Validate a list of ids."""
        body = validate_body(AskAnswers, request.payload)
        check_browser_format(request, body)
        return body

    async def answers(self, request: ApiRequest) -> Reply:
        """Return several answers in the requested format."""
        body: AskAnswers = request.parsed
        store = self._services.store
        ids = body.question_ids
        if not body.has_format:
            shown = await read_shown(store, request.app_id, ids, request.token)
            plain = (b"null" if answer is None else _strip_mark(answer) for answer in shown)
            return success_json(b"[" + b",".join(plain) + b"]")
        questions = await asyncio.gather(
            *(read_answer(store, request.app_id, question_id, request.token) for question_id in ids)
        )
        return success_json(dumps([await self._format_answer(question, body) for question in questions]))

    async def _with_claims(self, request: ApiRequest, shown: bytes, user_id: str) -> bytes:
        """Add the claims of the user's token, which only this user and a secret key see."""
        if not user_id and not request.credential.is_secret:
            return shown
        recorded = await self._services.store.read(request.app_id, request.parsed)
        if recorded is None or not (request.credential.is_secret or user_id == recorded.question.user_id):
            return shown
        record = orjson.loads(shown)
        record["metadata"].update(recorded.question.claims)
        return dumps(record)

    def _check_parent(self, question: Question, parent: StoredQuestion | None, parent_id: str) -> Question:
        if parent is None or (parent.question.user_id and parent.question.user_id != question.user_id):
            raise NotFound(messages.NOT_FOUND)
        before = (*parent.question.before, parent.question.text)[-5:]
        return question.model_copy(update={"parent_id": parent_id, "before": before})

    async def _format_answer(
        self, recorded: StoredQuestion | None, body: AskAnswers
    ) -> dict[str, Any] | None:
        if recorded is None:
            return None
        return await self._services.client.render_answer(recorded, body.format(recorded.question.format))

    async def _record_in_history(self, question: Question) -> None:
        """Add a question to its user's history; a permanent failure is logged, and the question is still answered."""
        for pause_s in (*_HISTORY_PAUSES_S, 0.0):
            try:
                return await self._put(question)
            except KioskError as error:
                reason = error.message
            await asyncio.sleep(pause_s)
        self._log.warning("history_missed", question_id=question.question_id, reason=reason)

    def _run_in_background(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(_ignore_store_errors(work))
        # The loop keeps only a weak reference to a task, so without this set a task may vanish before its
        # end.
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)
        return task


def record_in_history(history: ThreadTracker) -> Callable[[Question], Awaitable[None]]:
    """Return the function that adds a question to its user's history; a repeated call changes nothing."""

    async def note(question: Question) -> None:
        await history.add_question(
            question.app_id, question.user_id, question.question_id, question.text, question.parent_id
        )

    return note


def _strip_mark(shown: bytes) -> bytes:
    return shown.removesuffix(CLAIMS_MARK) + b"}" if shown.endswith(CLAIMS_MARK) else shown


async def _ignore_store_errors(work: Any) -> None:
    """Wait for a background write; an unavailable store is logged elsewhere."""
    try:
        await work
    except KioskError as error:
        structlog.get_logger().info("note_missed", reason=error.message)


MOST_METADATA = 4 << 10
"Bytes of `metadata` as JSON."
_MARKUP = frozenset("<>&")


def check_browser_question(request: ApiRequest, body: AnswerFormatBody) -> None:
    """Check metadata and format of a question from a browser."""
    if not request.credential.is_secret:
        _check_metadata(body)
        check_browser_format(request, body)


def check_browser_format(request: ApiRequest, body: AnswerFormatBody) -> None:
    """Check that citation marks contain no markup, because pages insert answers into their HTML.

    Errors:
        Unprocessable
    """
    if request.credential.is_secret:
        return
    check_format(request, body)
    for name in ("cite_start", "cite_end"):
        mark = getattr(body, name) or ""
        if any(char in _MARKUP or not char.isprintable() for char in mark):
            refuse("ensure this value has no <, > or &, and no control characters", name)


def _check_metadata(body: AskBody) -> None:
    for name, value in (("metadata", body.metadata), ("_meta", body.meta)):
        if value and len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)) > MOST_METADATA:
            refuse(f"ensure this value has at most {MOST_METADATA} bytes", name, kind="value_error.size")


MOST_LISTED = 1_000


async def list_filtered_products(
    recommender: RecommenderClient, app_id: str, fq: str | None, kind: str | None, tiers: frozenset[str]
) -> tuple[str, ...] | None:
    """Return the products that a filter matches and these tiers may read; None if many, or without an engine."""
    if fq is None or not fq.strip():
        return None
    listing = SearchQuery(campaigns=False, personalization=0)
    query = UserQuery(
        kind="search",
        app_id=app_id,
        engine_id=DEFAULT_ENGINE,
        rows=MOST_LISTED,
        type=kind,
        dedupe=False,
        filter=parse(fq),
        search=listing,
    )
    try:
        answered = await recommender.answer(keep_readable(query, tiers))
    except KioskError:
        return None
    if answered.search is None or answered.search.total > MOST_LISTED:
        return None
    return tuple(str(product["product_id"]) for product in answered.products)
