"""The monitor of one app: reads uploads, scores them for the watched threads, and starts notifications.

    watched threads   read the threads of users that changed since the last version, twice a second
    judge             score a few changes at a time in a separate thread, and record significant ones in the thread of
                      the user; only then move the offset
    notify            ask the question again and append the answer (`UpdateNotifier`)

After a crash, the monitor resumes at the offset. Recorded news is not recorded twice; all other changes are scored
again. When the log no longer holds changes, the monitor reads them from the artifact store. The monitor waits a short
time before it reads a change. Answering processes then have the change too, and a subscription whose reply is on its
way is stored before the content that follows it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson
import structlog

from actors.history import threads as rules
from actors.history.article_relevance import (
    THRESHOLD,
    ArticleRelevance,
    QuestionEmbeddings,
    ReadArticle,
    TermFrequencies,
    UploadedArticle,
    extract_terms,
    score_article,
)
from actors.history.messages import AnswerService
from actors.history.notifier import UpdateNotifier
from actors.history.tracker import ThreadTracker
from actors.history.watched_thread_index import ThreadKey, WatchedThreadIndex
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import Embedder
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.errors import Fault
from cluster.ids import new_question_id, position_from_offset
from cluster.meter import Meter
from cluster.records.thread import News
from cluster.store.data.change_log import ChangeLogEntry, Follower
from cluster.store.stores import Stores

LAG_MS = 2_500
"Minimal age of a change; longer than any write of a subscription may take."
MAX_CHANGES = 4
"Changes read at a time; an upload is one change of at most some hundred articles."
_BATCH = 25
"Articles scored between two heartbeats."
PAGE = 200
"Users whose threads are read at a time."
FULL_RELOAD_S = 600.0
"Time after which all watched threads are read again, so that those without a user go."
_REPORT_S = 3.0
_FOLLOWER = "tracker"
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"Errors that a malformed record may cause; they must not stop the other records."

Findings = dict[ThreadKey, list[tuple[ArticleRelevance, UploadedArticle]]]


@dataclass(frozen=True, slots=True)
class RelevanceDependencies:
    """The dependencies of scoring, beside the threads."""

    read_article: ReadArticle
    embedder: Embedder
    threshold: float = THRESHOLD


class NewsMonitor:
    """Monitors one app."""

    def __init__(
        self,
        app_id: str,
        stores: Stores,
        judges: RelevanceDependencies,
        answering: AnswerService,
        clock: Clock,
        meter: Meter,
        *,
        lag_ms: int = LAG_MS,
        languages: tuple[str, ...] = ("en",),
        segments: SegmentStore | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._app_id = app_id
        self._stores = stores
        self.relevance = judges
        self._clock = clock
        self._meter = meter
        self._lag_ms = lag_ms
        self._segments = segments
        self._compacted_changes: deque[ChangeLogEntry] = deque()
        "Read from the artifact store and not scored yet; the log follows."
        self._alive = alive
        self._tracker = ThreadTracker(stores, clock)
        self._analyzers = Analyzers()
        self._frequencies = TermFrequencies()
        self._embeddings = QuestionEmbeddings(judges.embedder)
        self.watched_threads = WatchedThreadIndex(self._analyzers, languages)
        self._notifier = UpdateNotifier(app_id, self._tracker, answering, self.watched_threads, clock, meter)
        self._version = 0
        self._loaded_s = float("-inf")
        self._noted_s = float("-inf")
        self._offset = ""
        self._log = structlog.get_logger().bind(app=app_id)

    async def run_once(self) -> bool:
        """Read the watched threads, score a few changes, advance notifications; return whether more work is left."""
        await self._refresh_watched_threads()
        if not len(self.watched_threads):
            # Nobody waits: the next subscription begins at its own offset.
            self._offset = ""
            self._compacted_changes.clear()
            return False
        more = await self._judge_changes()
        await self._notifier.run_once()
        return more

    async def _refresh_watched_threads(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._loaded_s >= FULL_RELOAD_S:
            self._loaded_s = now_s
            self.watched_threads.keep_only(set(await self._load_watchers(0)))
        else:
            await self._load_watchers(self._version)

    async def _load_watchers(self, after: int) -> list[str]:
        """Read the threads of users who changed them since the last version."""
        names: list[str] = []
        while True:
            page = await self._stores.threads.watchers(self._app_id, after, PAGE)
            user_ids = [watcher.user_id for watcher in page]
            for user_id, user_threads in zip(
                user_ids, await self._stores.threads.read_many(self._app_id, user_ids), strict=True
            ):
                self.watched_threads.put(user_id, user_threads)
            names += user_ids
            if not page:
                return names
            # A user who changes again comes again, after the page's last version.
            after = page[-1].version
            self._version = max(self._version, after)

    async def _judge_changes(self) -> bool:
        offset = await self._next_offset()
        changes = list(islice(self._compacted_changes, MAX_CHANGES)) or await self._stores.changes.read(
            self._app_id, {"product": offset}, count=MAX_CHANGES, block_ms=0
        )
        ripe = [change for change in changes if self._is_ripe(change)]
        if not ripe:
            return False
        for change in ripe:
            for name, matches in (await self._judge_change(change)).items():
                await self._record_news(name, change.offset, matches)
                self._alive()
            # Recorded before the offset moves: a crash in between scores again and records nothing twice.
            self._offset = change.offset
            if self._compacted_changes and self._compacted_changes[0] is change:
                self._compacted_changes.popleft()
        await self._stores.threads.record_judged_offset(self._app_id, self._offset)
        return len(ripe) == MAX_CHANGES

    async def _next_offset(self) -> str:
        """Return the offset of the next read: the app's judged offset, but at least that of the oldest subscription."""
        changes = self._stores.changes
        app_id = self._app_id
        if not self._offset:
            oldest_judged = min(
                (subject.judged_offset or "0" for subject in self.watched_threads.subjects),
                key=position_from_offset,
            )
            self._offset = max(
                await self._stores.threads.judged_offset(app_id) or "0",
                oldest_judged,
                key=position_from_offset,
            )
        now_s = self._clock.monotonic_s()
        if now_s - self._noted_s >= _REPORT_S:
            first = await changes.first(app_id, "product")
            if not self._compacted_changes and rules.is_after(first, self._offset):
                await self._fill_gap(first)
            await changes.record_follower(
                app_id, Follower(_FOLLOWER, self._clock.now_ms(), {"product": self._offset})
            )
            self._noted_s = now_s
        return self._offset

    async def _fill_gap(self, first: str) -> None:
        """Read changes that were trimmed from the log from the artifact store; log those that it does not hold."""
        self._log.warning("log_gap_found", noun="product", offset=self._offset)
        try:
            if self._segments is None:
                raise Fault("there is no artifact store to read from")
            self._compacted_changes = await asyncio.to_thread(
                _read_compacted_changes, self._segments, self._app_id, self._offset, first
            )
        except Fault as error:
            self._log.error("thread_news_missed", offset=self._offset, reason=error.message)
            self._meter.count("kiosk_thread_gaps_total")
            # What is lost is counted and skipped, or the monitor would stand still for ever.
            self._offset = first

    def _is_ripe(self, change: ChangeLogEntry) -> bool:
        return position_from_offset(change.offset)[0] + self._lag_ms <= self._clock.now_ms()

    async def _judge_change(self, change: ChangeLogEntry) -> Findings:
        """Score all articles of a change for all threads that they may concern; the best first."""
        findings: Findings = defaultdict(list)
        contents = await asyncio.to_thread(list, self._read_articles(change))
        for start in range(0, len(contents), _BATCH):
            await asyncio.to_thread(
                self._judge_articles, contents[start : start + _BATCH], change.offset, findings
            )
            self._alive()
        for matches in findings.values():
            matches.sort(key=lambda match: (-match[0].score, match[1].product_id))
        return findings

    def _judge_articles(self, contents: Sequence[UploadedArticle], offset: str, findings: Findings) -> None:
        threshold = self.relevance.threshold
        for content in contents:
            article = extract_terms(content, self._analyzers)
            self._frequencies.add(article.places)
            for subject in self.watched_threads.find_candidates(article, self._frequencies, threshold):
                # The change is older than the subscription, so its user may have seen it.
                if not rules.is_after(offset, subject.judged_offset):
                    continue
                verdict = score_article(
                    subject, article, self._frequencies, self._embeddings, threshold=threshold
                )
                self._meter.count("kiosk_thread_judgements_total")
                if verdict.score >= threshold:
                    findings[subject.user_id, subject.thread_id].append((verdict, content))

    def _read_articles(self, change: ChangeLogEntry) -> Iterator[UploadedArticle]:
        if change.op != "put":
            return
        records: Any = orjson.loads(change.payload)
        for record in records:
            # One malformed article must not hold up the others of its upload.
            try:
                content = self.relevance.read_article(record)
            except _UNREADABLE:
                self._log.exception("content_failed", offset=change.offset)
                continue
            if content is not None:
                yield content

    async def _record_news(
        self, name: ThreadKey, offset: str, matches: Sequence[tuple[ArticleRelevance, UploadedArticle]]
    ) -> None:
        subject = self.watched_threads.get_subject(name)
        if subject is None:
            return
        verdict, best = matches[0]
        now_ms = self._clock.now_ms()
        news = News(
            question_id=new_question_id(),
            offset=offset,
            product_ids=tuple(content.product_id for _, content in matches[: rules.MAX_PRODUCTS]),
            score=round(verdict.score, 4),
            reason=f"{verdict.reason}: {best.title[:120]}",
            sketch=verdict.sketch,
            found_ms=now_ms,
            due_ms=now_ms,
        )
        user_id, thread_id = name
        user_threads = await self._tracker.apply(
            self._app_id, user_id, lambda before: rules.add_news(before, thread_id, news)
        )
        self.watched_threads.put(user_id, user_threads)
        self._meter.count("kiosk_thread_news_total")
        self._log.info(
            "news_found", thread=thread_id, score=news.score, reason=verdict.reason, articles=len(matches)
        )


def _read_compacted_changes(
    segments: SegmentStore, app_id: str, after: str, until: str
) -> deque[ChangeLogEntry]:
    """Read compacted articles between two offsets as changes; the last change has the end offset, perhaps no records.

    An article that was written several times is one change with its current content.
    """
    changes = deque(
        ChangeLogEntry("product", offset, "put", b"[" + b",".join(records) + b"]")
        for offset, records in segments.load_records_between(app_id, "product", after, until)
    )
    # An empty change at the end moves the offset to where the log begins.
    if not changes or changes[-1].offset != until:
        changes.append(ChangeLogEntry("product", until, "put", b"[]"))
    return changes
