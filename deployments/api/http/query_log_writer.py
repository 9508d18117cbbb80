"""The query log: which queries an API replica answered.

Before an entry is stored the user id becomes a pseudonym. The app's setting `query_log` decides whether entries tell
users apart at all.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.serving.client import PREVIEW
from cluster.artifacts.logs.day_files import ERASURE_MEMORY_MS
from cluster.clock import Clock
from cluster.meter import Meter, SilentMeter
from cluster.records.logged_query import LONGEST, LoggedQuery, QueryKind, pseudonym
from cluster.store.archive.log_stream import LogStream
from deployments.api.http.browser_writes import address_pseudonym
from deployments.edge.batch_writer import BatchWriter, split_by_app
from deployments.edge.http.request import ApiRequest

MOST_A_BATCH = 150


@dataclass(frozen=True, slots=True)
class _PendingQuery:
    """A query with the plain user id; the store gets a pseudonym instead."""

    app_id: str
    at: int
    kind: QueryKind
    text: str
    total: int
    language: str
    served_by: str
    engine_id: str
    took_ms: float
    user_key: str
    typist: str
    origin: str


class QueryLogWriter(BatchWriter[_PendingQuery]):
    """Writes the query log to the store."""

    def __init__(self, store: LogStream[LoggedQuery], clock: Clock, meter: Meter | None = None) -> None:
        super().__init__("queries")
        self._meter = SilentMeter() if meter is None else meter
        self._store = store
        self._clock = clock

    def record(
        self,
        request: ApiRequest,
        kind: QueryKind,
        text: str,
        *,
        total: int,
        language: str = "",
        served_by: str = "",
        engine_id: str = "",
    ) -> None:
        """Record a query, unless it previews a rule."""
        rule = request.credential.app.settings.query_log
        if rule == "off" or not text or text.isspace() or PREVIEW.get() is not None:
            return
        user_key = next(iter(request.user_keys), "")
        self.put(
            _PendingQuery(
                app_id=request.app_id,
                at=self._clock.now_ms(),
                kind=kind,
                # Folding drops characters, so more than the stored length is kept until then.
                text=text[: 2 * LONGEST],
                total=total,
                language=language,
                served_by=served_by,
                engine_id=engine_id,
                took_ms=(self._clock.monotonic_s() - request.started_s) * 1000,
                user_key=user_key if rule == "pseudonym" else "",
                typist=user_key or f"{request.ip} {request.user_agent}",
                origin=_origin(request) if kind != "autocomplete" and user_key else "",
            )
        )

    def split(self, entries: Sequence[_PendingQuery]) -> Iterable[Sequence[_PendingQuery]]:
        return split_by_app(entries, MOST_A_BATCH)

    async def write_batch(self, batch: Sequence[_PendingQuery]) -> None:
        app_id = batch[0].app_id
        salt = await self._store.salt(app_id)
        # An erasure forgets whom it erased after this time, so older rows could bring a person back.
        oldest_ms = self._clock.now_ms() - ERASURE_MEMORY_MS
        rows = [_logged_query_from(pending, salt) for pending in batch if pending.at > oldest_ms]
        is_stored = await self._store.append(app_id, rows)
        self.count_dropped(len(batch) - (len(rows) if is_stored else 0))

    def count_dropped(self, count: int) -> None:
        if count:
            self._meter.count("kiosk_queries_lost", count)


def _origin(request: ApiRequest) -> str:
    """Return the pseudonym of the client's address if the user is not proven, because ids are free to invent."""
    token = request.token
    payload = request.payload
    if request.credential.is_secret or (token is not None and token.user_id):
        return ""
    return "" if isinstance(payload, dict) and payload.get("user_hash") else address_pseudonym(request)


def _logged_query_from(pending: _PendingQuery, salt: bytes) -> LoggedQuery:
    text = _fold_text(pending.text)
    written = " ".join(_printable(pending.text).split())[:LONGEST].rstrip()
    return LoggedQuery(
        at=pending.at,
        kind=pending.kind,
        text=text,
        written=written if written != text and pending.kind != "autocomplete" else "",
        origin=pending.origin,
        total=pending.total,
        language=pending.language,
        served_by=pending.served_by,
        engine_id=pending.engine_id,
        took_ms=round(pending.took_ms, 3),
        reader=pseudonym(salt, pending.user_key) if pending.user_key else "",
        typist=pseudonym(salt, pending.typist)[:12],
    )


def _fold_text(text: str) -> str:
    folded = text.lower()
    if not text.isascii():
        # NFKD separates accents from their letters, and NFC joins again what is left, such as Korean
        # syllables.
        parts = unicodedata.normalize("NFKD", text.casefold())
        folded = unicodedata.normalize(
            "NFC", "".join(char for char in parts if not unicodedata.combining(char))
        )
    return " ".join(_printable(folded).split())[:LONGEST].rstrip()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


class QueryLog(Protocol):
    """Records answered queries; it reads user and duration from the request."""

    def record(
        self,
        request: ApiRequest,
        kind: QueryKind,
        text: str,
        *,
        total: int,
        language: str = "",
        served_by: str = "",
        engine_id: str = "",
    ) -> None:
        """Record a query. Cost: a few microseconds; it never raises."""
        ...


class DisabledQueryLog(QueryLog):
    """Records nothing: it inherits the empty body of the protocol."""
