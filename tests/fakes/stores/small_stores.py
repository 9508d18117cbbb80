"""Small stores in dictionaries: access, engines, their activity, rate limits, idempotency, shown products, leases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from cluster.clock import Clock
from cluster.records.api_keys import ApiKey
from cluster.records.apps import App
from cluster.records.engine import Engine, EngineStatus, Placement
from cluster.records.logged_query import pseudonym
from cluster.store.administration.apps_and_keys import AppAndKeyStore, AppsAndKeys, EndedTokens
from cluster.store.data import idempotency
from cluster.store.data.idempotency import IdempotencyState, IdempotencyStore
from cluster.store.engines import engine_activity, shown_products
from cluster.store.engines.engine_activity import EngineActivityStore, EngineTraffic
from cluster.store.engines.engines import EngineStore
from cluster.store.engines.shown_products import ShownProductStore
from cluster.store.installation import rate_limits
from cluster.store.installation.leases import LeaseStore
from cluster.store.installation.rate_limits import LimitStore, RateLimitGrant
from tests.fakes.stores.state import MemoryState

_SALT = b"salt"


class MemoryAppsAndKeys(AppAndKeyStore):
    """`AppAndKeyStore` in dictionaries."""

    def __init__(self) -> None:
        self._version = 0
        self._apps_by_id: dict[str, App] = {}
        self._keys_by_sha256: dict[str, ApiKey] = {}
        self._exposed: dict[str, int] = {}
        self._ended: dict[str, dict[str, int]] = {}
        self._ended_counts: dict[str, int] = {}

    async def version(self) -> int:
        return self._version

    async def read_all(self) -> AppsAndKeys:
        return AppsAndKeys(self._version, dict(self._apps_by_id), dict(self._keys_by_sha256))

    async def add_app(self, app: App) -> bool:
        if app.app_id in self._apps_by_id:
            return False
        await self.put_app(app)
        return True

    async def put_app(self, app: App) -> None:
        self._apps_by_id[app.app_id] = app
        self._version += 1

    async def update_app(self, app_id: str, change: Callable[[App], App]) -> App | None:
        if app_id not in self._apps_by_id:
            return None
        await self.put_app(change(self._apps_by_id[app_id]))
        return self._apps_by_id[app_id]

    async def put_key(self, key: ApiKey) -> None:
        self._keys_by_sha256[key.sha256] = key
        self._version += 1

    async def replace_key(self, before: ApiKey, after: ApiKey) -> bool:
        if self._keys_by_sha256.get(before.sha256) != before:
            return False
        self._keys_by_sha256[before.sha256] = after
        return True

    async def revoke_key(self, sha256: str) -> bool:
        if self._keys_by_sha256.pop(sha256, None) is None:
            return False
        self._version += 1
        return True

    async def end_tokens(self, app_id: str, user_id: str, now_ms: int) -> None:
        times = self._ended.setdefault(app_id, {})
        mark = pseudonym(_SALT, f"u:{user_id}")
        times[mark] = max(now_ms, times.get(mark, 0))
        self._ended_counts[app_id] = self._ended_counts.get(app_id, 0) + 1

    async def read_token_end(self, app_id: str, user_id: str) -> int | None:
        return self._ended.get(app_id, {}).get(pseudonym(_SALT, f"u:{user_id}"))

    async def ended_counts(self) -> dict[str, int]:
        return dict(self._ended_counts)

    async def ended_tokens(self, app_id: str, since_ms: int) -> EndedTokens:
        times = self._ended.get(app_id, {})
        newer = {mark: at_ms for mark, at_ms in times.items() if at_ms >= since_ms}
        return EndedTokens(_SALT, len(times), newer)

    async def record_exposed_key(self, key_id: str, at_ms: int) -> None:
        self._exposed[key_id] = at_ms

    async def list_exposed_keys(self) -> dict[str, int]:
        return dict(self._exposed)


class MemoryEngines(EngineStore):
    """`EngineStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._apps = state.apps

    async def get(self, app_id: str, engine_id: str) -> Engine | None:
        return self._apps[app_id].engines.get(engine_id)

    async def put(self, engine: Engine) -> None:
        self._apps[engine.app_id].engines[engine.engine_id] = engine

    async def add(self, engine: Engine) -> bool:
        return self._apps[engine.app_id].engines.setdefault(engine.engine_id, engine) is engine

    async def change(self, app_id: str, engine_id: str, change: Callable[[Engine], Engine]) -> Engine | None:
        engines = self._apps[app_id].engines
        if engine_id in engines:
            engines[engine_id] = change(engines[engine_id])
        return engines.get(engine_id)

    async def remove(self, app_id: str, engine_id: str) -> bool:
        return self._apps[app_id].engines.pop(engine_id, None) is not None

    async def all(self, app_id: str) -> list[Engine]:
        return [engine for _, engine in sorted(self._apps[app_id].engines.items())]


class MemoryEngineActivity(EngineActivityStore):
    """`EngineActivityStore` in dictionaries."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Placement, str, int], int] = {}
        self._last: dict[tuple[str, Placement, str], int] = {}
        self._statuses: dict[str, dict[str, EngineStatus]] = {}
        self._failures: dict[tuple[str, str], dict[str, int]] = {}

    async def add_failures(self, app_id: str, trial_id: str, version: str, count: int) -> None:
        counts = self._failures.setdefault((app_id, trial_id), {})
        counts[version] = counts.get(version, 0) + count

    async def read_failures(self, app_id: str, trial_id: str) -> dict[str, int]:
        return dict(self._failures.get((app_id, trial_id), {}))

    async def add_requests(
        self, app_id: str, requests: Mapping[tuple[Placement, str], int], now_ms: int
    ) -> None:
        for (place, engine_id), count in requests.items():
            name = (app_id, place, engine_id, now_ms // engine_activity.MINUTE_MS)
            self._counts[name] = self._counts.get(name, 0) + count
            self._last[app_id, place, engine_id] = now_ms

    async def read_traffic(self, app_id: str, now_ms: int) -> dict[tuple[Placement, str], EngineTraffic]:
        minute = now_ms // engine_activity.MINUTE_MS
        traffic = {}
        for (app, place, engine_id), last_ms in self._last.items():
            if app == app_id:
                before, now = (
                    self._counts.get((app, place, engine_id, at), 0) for at in (minute - 1, minute)
                )
                traffic[place, engine_id] = EngineTraffic(
                    engine_activity.estimate_rate(before, now, now_ms), last_ms
                )
        return traffic

    async def record(self, status: EngineStatus) -> None:
        self._statuses.setdefault(status.app_id, {})[status.engine_id] = status

    async def list_statuses(self, app_id: str) -> dict[str, EngineStatus]:
        return dict(self._statuses.get(app_id, {}))

    async def delete(self, app_id: str, engine_id: str) -> None:
        self._statuses.get(app_id, {}).pop(engine_id, None)


class MemoryLimits(LimitStore):
    """`LimitStore` in dictionaries."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str, str], tuple[float, int]] = {}

    async def take(
        self, app_id: str, key_id: str, bucket: str, *, rate: float, burst: int, want: int, now_ms: int
    ) -> RateLimitGrant:
        name = (app_id, key_id, bucket)
        tokens, at = self._buckets.get(name, (float(burst), now_ms))
        if now_ms > at:
            tokens += (now_ms - at) * rate / 1000
            at = now_ms
        elif at - now_ms > 60_000:
            at = now_ms
        tokens = min(tokens, burst)
        granted = max(0, min(want, math.floor(tokens)))
        tokens = round(tokens - granted, 6)
        self._buckets[name] = (tokens, at)
        if granted or want <= 0:
            return RateLimitGrant(granted, 0)
        if rate <= 0:
            return RateLimitGrant(0, rate_limits.LIFE_MS)
        return RateLimitGrant(0, max(1, math.ceil((1 - tokens) * 1000 / rate)))


class MemoryIdempotency(IdempotencyStore):
    """`IdempotencyStore` in dictionaries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._claims: dict[tuple[str, str], tuple[str, IdempotencyState, int]] = {}
        self._begun: dict[str, tuple[int, int]] = {}

    async def begin(self, app_id: str, token: str, body_sha256: str, *, most: int = 0) -> IdempotencyState:
        now_ms = self._clock.now_ms()
        body, replay, until_ms = self._claims.get((app_id, token), ("", IdempotencyState("new"), 0))
        if until_ms <= now_ms:
            begun, counted_ms = self._begun.get(app_id, (0, 0))
            if counted_ms <= now_ms:
                begun, counted_ms = 0, now_ms + idempotency.COUNTED_MS
            if most:
                if begun >= most:
                    return IdempotencyState("full")
                self._begun[app_id] = (begun + 1, counted_ms)
            self._claims[app_id, token] = (
                body_sha256,
                IdempotencyState("flying"),
                now_ms + idempotency.LOCK_MS,
            )
            return IdempotencyState("new")
        return replay if body == body_sha256 else IdempotencyState("other")

    async def finish(
        self,
        app_id: str,
        token: str,
        status: int,
        reply: bytes,
        user_keys: Sequence[str] = (),
        *,
        life_ms: int = idempotency.LIFE_MS,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        now_ms = self._clock.now_ms()
        body, _, until_ms = self._claims.get((app_id, token), ("", IdempotencyState("new"), 0))
        if until_ms > now_ms:
            state = IdempotencyState("done", status, reply, tuple(headers))
            self._claims[app_id, token] = (body, state, now_ms + life_ms)

    async def delete(self, app_id: str, token: str) -> None:
        self._claims.pop((app_id, token), None)


class MemoryShownProducts(ShownProductStore):
    """`ShownProductStore` in dictionaries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown: dict[tuple[str, str, str], tuple[list[str], int]] = {}

    async def read(self, app_id: str, user_key: str, pagination_id: str) -> list[str]:
        shown, until_ms = self._shown.get((app_id, user_key, pagination_id), ([], 0))
        return list(shown) if until_ms > self._clock.now_ms() else []

    async def record(
        self,
        app_id: str,
        user_key: str,
        pagination_id: str,
        product_ids: Sequence[str],
        *,
        is_strangers: bool = False,
    ) -> None:
        most = shown_products.STRANGERS_MOST if is_strangers else shown_products.MOST
        shown = [*await self.read(app_id, user_key, pagination_id), *product_ids][-most:]
        until_ms = self._clock.now_ms() + shown_products.IDLE_MS
        self._shown[app_id, user_key, pagination_id] = (shown, until_ms)


class MemoryLeases(LeaseStore):
    """`LeaseStore` in dictionaries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holders: dict[str, tuple[str, float]] = {}

    async def hold(self, name: str, owner: str, ttl_ms: int) -> bool:
        now_s = self._clock.monotonic_s()
        holder, until_s = self._holders.get(name, (owner, 0.0))
        if holder != owner and until_s > now_s:
            return False
        self._holders[name] = (owner, now_s + ttl_ms / 1000)
        return True

    async def release(self, name: str, owner: str) -> None:
        if self._holders.get(name, ("", 0.0))[0] == owner:
            del self._holders[name]
