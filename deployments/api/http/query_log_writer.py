"""The query log of one door: noted in memory while answering, written to the store twice a second.

A request never waits for it. Who asked becomes a pseudonym before anything is written; how it is made and whether
readers are told apart at all is the app's setting `query_log`. When the store is away the latest ten thousand
queries are kept until it is back; what a killed door had not written yet, half a second's worth, is lost.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError
from cluster.meter import Meter, SilentMeter
from cluster.records.logged_query import LONGEST, LoggedQuery, QueryKind, pseudonym
from cluster.store.ports.query_log import QueryStore
from deployments.api.http.browser_writes import address_pseudonym
from deployments.edge.batch_writer import BatchWriter
from deployments.edge.request import ApiRequest

MOST_WAITING = 10_000
MOST_A_BATCH = 150

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _PendingQuery:
    """A query as it was asked; never written like this."""

    app_id: str
    at: int
    kind: QueryKind
    text: str
    total: int
    language: str
    served_by: str
    engine_id: str
    took_ms: float
    reader_id: str
    typist: str
    origin: str


class QueryLogWriter:
    """`QueryLog` into the store."""

    def __init__(self, store: QueryStore, clock: Clock, meter: Meter | None = None) -> None:
        self._meter = SilentMeter() if meter is None else meter
        self._store = store
        self._clock = clock
        self._waiting: deque[_PendingQuery] = deque(maxlen=MOST_WAITING)
        self._salts: dict[str, bytes] = {}
        self._scribe = BatchWriter(self.write, "queries_lost")

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
        """Note a query."""
        rule = request.credential.app.settings.query_log
        if rule == "off" or not text or text.isspace():
            return
        if len(self._waiting) == MOST_WAITING:
            self._meter.count("kiosk_queries_lost")
        reader_id = next(iter(request.user_keys), "")
        self._waiting.append(
            _PendingQuery(
                app_id=request.app_id,
                at=self._clock.now_ms(),
                kind=kind,
                text=text[: 2 * LONGEST],
                total=total,
                language=language,
                served_by=served_by,
                engine_id=engine_id,
                took_ms=(self._clock.monotonic_s() - request.started_s) * 1000,
                reader_id=reader_id if rule == "pseudonym" else "",
                typist=reader_id or f"{request.ip} {request.user_agent}",
                origin=_origin(request) if kind != "autocomplete" and reader_id else "",
            )
        )

    async def start(self) -> None:
        """Begin to write."""
        await self._scribe.start()

    async def close(self) -> None:
        """Write what is left and stop."""
        await self._scribe.close()

    async def write(self) -> None:
        """Write what waits, in lots of one app; what can't be written stays."""
        waiting, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        by_app: dict[str, list[_PendingQuery]] = {}
        for noted in waiting:
            by_app.setdefault(noted.app_id, []).append(noted)
        kept: list[_PendingQuery] = []
        for app_id, queries in by_app.items():
            for start in range(0, len(queries), MOST_A_BATCH):
                lot = queries[start : start + MOST_A_BATCH]
                if kept or not await self._write_batch(app_id, lot):
                    kept += lot
        if kept:
            room = MOST_WAITING - len(self._waiting)
            if len(kept) > room:
                self._meter.count("kiosk_queries_lost", len(kept) - room)
            self._waiting.extendleft(reversed(kept[-room:] if room > 0 else []))
            _log.warning("queries_kept", count=len(self._waiting))

    async def _write_batch(self, app_id: str, lot: Sequence[_PendingQuery]) -> bool:
        try:
            salt = self._salts.get(app_id)
            if salt is None:
                salt = self._salts[app_id] = await self._store.salt(app_id)
            await self._store.append(app_id, [_logged_query_from(noted, salt) for noted in lot])
        except HouseError:
            return False
        return True


def _origin(request: ApiRequest) -> str:
    """Stand for a reader whom nobody proved: ids cost nothing. A hash that came along was checked before."""
    token, payload = request.token, request.payload
    if request.credential.is_secret or (token is not None and token.user_id):
        return ""
    return "" if isinstance(payload, dict) and payload.get("user_hash") else address_pseudonym(request)


def _logged_query_from(noted: _PendingQuery, salt: bytes) -> LoggedQuery:
    text = _fold_text(noted.text)
    written = " ".join(_printable(noted.text).split())[:LONGEST].rstrip()
    return LoggedQuery(
        at=noted.at,
        kind=noted.kind,
        text=text,
        written=written if written != text and noted.kind != "autocomplete" else "",
        origin=noted.origin,
        total=noted.total,
        language=noted.language,
        served_by=noted.served_by,
        engine_id=noted.engine_id,
        took_ms=round(noted.took_ms, 3),
        reader=pseudonym(salt, noted.reader_id) if noted.reader_id else "",
        typist=pseudonym(salt, noted.typist)[:12],
    )


def _fold_text(text: str) -> str:
    folded = text.lower()
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text.casefold())
        folded = unicodedata.normalize(
            "NFC", "".join(char for char in parts if not unicodedata.combining(char))
        )
    return " ".join(_printable(folded).split())[:LONGEST].rstrip()


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
