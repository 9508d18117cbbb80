"""Spans and lines of slow requests, through the whole request handler, with the SDK's exporter in memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from actors.recommender.messages import RecommendationResult, UserQuery
from cluster.meter import SilentMeter
from cluster.process.tracing import OtelTracer
from cluster.records.engine import Engine
from cluster.store.refreshing_cache import EngineRecordsCache
from cluster.tracing import current_span, current_trace, is_sampled, parse_traceparent
from deployments.api.http.engine_router import EngineRouter
from deployments.edge.observation import request_observer
from deployments.edge.observation.request_observer import MOST_FOLLOWED, MOST_LINES, RequestObserver
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = f"00-{CALLER}-00f067aa0ba902b7-01"
BODY = {"user_id": "gina-CANARY", "rows": 3}


class Engines:
    """An engine that remembers queries, and takes its time."""

    def __init__(self, clock: StillClock) -> None:
        self.clock = clock
        self.requests: list[UserQuery] = []
        self.took_ms = 0
        self.late: asyncio.Task[bool] | None = None

    async def answer(self, query: UserQuery) -> RecommendationResult:
        self.requests.append(query)
        self.clock.pass_ms(self.took_ms)
        self.late = asyncio.create_task(self._outlive())
        return RecommendationResult(products=[{"product_id": "hoe-11"}])

    async def _outlive(self) -> bool:
        """Return whether a task still sees the trace of a request that is over."""
        await asyncio.sleep(0.01)
        return current_trace() is None and current_span() is None


class SlowMeter(SilentMeter):
    """A meter that counts slow requests."""

    def __init__(self) -> None:
        self.slow = 0.0

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        assert name == "kiosk_slow_requests"
        self.slow += by


class Scene:
    """A request handler with one engine, and the spans that it made."""

    def __init__(self, corner: Corner, clock: StillClock, engines: Engines) -> None:
        self.corner, self.clock, self.engines = corner, clock, engines
        self.exporter = InMemorySpanExporter()
        self.meter = SlowMeter()
        self.tracer = OtelTracer(SimpleSpanProcessor(self.exporter), "api")

    def observe(self, **options: Any) -> None:
        self.corner.handler._observer = RequestObserver(self.clock, self.meter, **options)

    async def ask(self, target: str = "", engine: str = "default", **headers: str) -> Answer:
        path = target or "/v1/recommendation/user_to_products"
        given = {**self.corner.headers(), **headers}
        return await call(
            self.corner.handler, "POST", path, headers=given, json={**BODY, "engine_id": engine}
        )

    @property
    def spans(self) -> dict[str, Any]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


@pytest.fixture
async def scene() -> Scene:
    clock = StillClock()
    stores, engines = memory_stores(clock), Engines(clock)

    async def reach(app_id: str, engine_id: str) -> Any:
        return engines

    router = EngineRouter(EngineRecordsCache(stores.engines, clock), engines, reach, clock)
    corner = await open_corner(clock=clock, stores=stores, client=router)
    for engine_id, placement in (("default", "door"), ("far", "own")):
        await stores.engines.put(Engine(app_id="shop", engine_id=engine_id, placement=placement))
    return Scene(corner, clock, engines)


async def test_short_stages_of_a_traced_request_have_no_spans(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_observer, "LEAST_S", 60.0)
    scene.observe(tracer=scene.tracer, share=1.0)
    assert (await scene.ask()).status == 200
    assert not scene.spans.keys() & {"admission", "parse", "bytes"}


async def test_a_traced_request_has_a_span_for_each_stage(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_observer, "LEAST_S", 0.0)
    scene.observe(tracer=scene.tracer, share=1.0)
    answer = await scene.ask("/v1/recommendation/user_to_products?note=CANARY", **{"X-Request-Id": "r-7"})
    assert answer.status == 200
    spans = scene.spans
    (root,) = [span for span in spans.values() if span.parent is None]
    assert set(spans) == {root.name, "admission", "parse", "prepare", "engine", "encode", "bytes"}
    assert root.name.startswith("POST ")
    assert root.kind.name == "SERVER"
    assert root.attributes["http.response.status_code"] == 200
    assert (root.attributes["kiosk.request_id"], root.attributes["kiosk.app"]) == ("r-7", "shop")
    for name in set(spans) - {root.name}:
        assert spans[name].parent.span_id == root.context.span_id, name
        assert root.start_time - 5_000_000 <= spans[name].start_time <= spans[name].end_time, name
    assert "CANARY" not in "".join(span.to_json() for span in spans.values())


async def test_a_dedicated_engine_gets_the_trace_and_an_embedded_one_does_not_need_it(scene: Scene) -> None:
    scene.observe(tracer=scene.tracer, share=1.0)
    await scene.ask()
    await scene.ask(engine="far")
    near, far = scene.engines.requests
    assert near.traceparent == ""
    hop = scene.spans["hop"]
    assert far.traceparent.startswith(f"00-{hop.context.trace_id:032x}-{hop.context.span_id:016x}-")
    assert is_sampled(far.traceparent)
    assert hop.kind.name == "CLIENT"
    assert replace(far, engine_id=near.engine_id) == near, "the trace is no part of what a query asks"


async def test_a_caller_that_traces_is_followed_a_few_times_a_second(scene: Scene) -> None:
    scene.observe(tracer=scene.tracer, share=0.0)
    for _ in range(3 * MOST_FOLLOWED):
        await scene.ask(traceparent=SAMPLED)
    roots = [span for span in scene.exporter.get_finished_spans() if span.kind.name == "SERVER"]
    assert len(roots) == MOST_FOLLOWED
    assert {f"{span.context.trace_id:032x}" for span in roots} == {CALLER}
    assert {f"{span.parent.span_id:016x}" for span in roots} == {"00f067aa0ba902b7"}
    scene.clock.pass_ms(1_000)
    scene.exporter.clear()
    for text in (
        "",
        SAMPLED[:-1] + "0",
        SAMPLED.replace("00-", "ff-"),
        "00-" + "0" * 32 + SAMPLED[35:],
        "x" * 9_000,
    ):
        await scene.ask(traceparent=text)
    assert scene.exporter.get_finished_spans() == ()


async def test_the_share_of_traced_requests_is_the_setting(scene: Scene) -> None:
    turns = iter([0.005, 0.015, 0.5])  # none, one and 68 requests pass
    scene.observe(tracer=scene.tracer, share=0.01, chance=lambda: next(turns))
    traced = []
    for _ in range(5):
        scene.exporter.clear()
        await scene.ask()
        traced.append(bool(scene.spans))
    assert traced == [True, False, True, False, False]


def test_a_hundredth_of_many_requests_is_traced(scene: Scene) -> None:
    observer = RequestObserver(
        scene.clock, scene.meter, tracer=scene.tracer, share=0.01, chance=Random(5).random
    )
    traced = 0
    for _ in range(100_000):
        observer.untraced -= 1
        traced += observer.start("GET", "users.read", None) is not None
    assert 900 < traced < 1_100


async def test_a_failed_request_is_an_error_in_its_trace(scene: Scene) -> None:
    scene.observe(tracer=scene.tracer, share=1.0)

    async def breaks(query: UserQuery) -> RecommendationResult:
        raise RuntimeError("CANARY")

    scene.engines.answer = breaks  # type: ignore[method-assign]
    assert (await scene.ask()).status == 500
    (root,) = [span for span in scene.exporter.get_finished_spans() if span.parent is None]
    assert (root.status.status_code.name, root.status.description) == ("ERROR", "status 500")
    assert scene.spans["engine"].status.description == "RuntimeError"
    assert "CANARY" not in "".join(span.to_json() for span in scene.exporter.get_finished_spans())


async def test_a_slow_request_gets_one_line_with_its_stages(scene: Scene) -> None:
    scene.observe(slow_ms=200)
    scene.engines.took_ms = 250
    with structlog.testing.capture_logs() as lines:
        await scene.ask("/v1/recommendation/user_to_products?note=CANARY", **{"X-Request-Id": "r-8"})
        scene.engines.took_ms = 150
        await scene.ask()
    (line,) = [line for line in lines if line["event"] == "request_slow"]
    assert (line["request_id"], line["status"], line["app"], line["took_ms"]) == ("r-8", 200, "shop", 250)
    assert set(line["stages"]) == {"admission", "parse", "prepare", "engine", "encode", "bytes"}
    assert "CANARY" not in str(line)
    assert scene.engines.late is not None
    assert await scene.engines.late, "a task that outlives its request records nothing any more"


async def test_a_slow_read_without_a_body_needs_no_trace(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.observe(slow_ms=200, tracer=scene.tracer, share=0.0)
    seen = []
    users, get = scene.corner.stores.records, scene.corner.stores.records.get

    async def read(*names: str) -> Any:
        seen.append(current_trace())
        scene.clock.pass_ms(250)
        return await get(*names)

    monkeypatch.setattr(users, "get", read)
    with structlog.testing.capture_logs() as lines:
        answer = await scene.corner.send("GET", "/v1/users/gina")
    assert answer.status == 404
    (line,) = [line for line in lines if line["event"] == "request_slow"]
    assert line["stages"] == {"admission": 0, "answer": 250, "bytes": 0}
    assert seen == [None]


async def test_clients_can_not_fill_the_log_with_slow_requests(scene: Scene) -> None:
    scene.observe(slow_ms=1)
    scene.engines.took_ms = 2
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            await scene.ask()
        scene.clock.pass_ms(1_000)
        await scene.ask()
    assert scene.meter.slow == 51
    assert len([line for line in lines if line["event"] == "request_slow"]) == MOST_LINES + 1


async def test_without_traces_and_slow_lines_a_request_carries_nothing(scene: Scene) -> None:
    seen = []

    async def looks(query: UserQuery) -> RecommendationResult:
        seen.append((current_trace(), query.traceparent))
        return RecommendationResult()

    scene.engines.answer = looks  # type: ignore[method-assign]
    await scene.ask(traceparent=SAMPLED)
    scene.observe(tracer=scene.tracer, share=0.0)
    await scene.ask()
    assert seen == [(None, ""), (None, "")]


@pytest.mark.parametrize("text", ["", "00", SAMPLED + "-x", SAMPLED.upper(), SAMPLED + "\n"])
def test_an_invalid_parent_is_none(text: str) -> None:
    assert parse_traceparent(text) == ""
    assert parse_traceparent(SAMPLED) == SAMPLED
