"""Traces, and the log of slow requests with the duration of each stage.

    admission   key, limits and body
    parse       JSON and schema
    prepare     from there to the engine: experiments and stored rules
    engine      the engine's answer; a dedicated engine includes the hop
    encode      from there to the bytes of the reply
    answer      replaces the three above if no engine answers, and `parse` too if the request has no body
    bytes       compression, and the reply handed to the server

A request without a body reaches no engine. Untraced, it has no `RequestTrace`: its line needs only times that the
request handler reads anyway.

Neither a line nor a span holds a query string, a header, an address or an id of a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

import structlog

from cluster.clock import Clock
from cluster.meter import Meter
from cluster.tracing import CURRENT, PROCESS, RequestTrace, Span, Tracer, is_sampled, parse_traceparent
from deployments.edge.http.request import ApiRequest

HEADER = b"traceparent"
MOST_LINES = 10
"Maximum lines of slow requests per second: clients determine how many requests are slow."
MOST_FOLLOWED = 10
"Maximum traced requests per second whose caller requests a trace: clients must not determine the cost."
LEAST_S = 0.001
"Shorter stages of a traced request get no span: three of them would cost more than a small request."
ENGINE = "engine"
HOP = "hop"

_log = structlog.get_logger()


class RequestObserver:
    """Measures requests of one API replica.

    `slow_ms` is the time from which a request gets a line; 0: none does.
    """

    def __init__(
        self,
        clock: Clock,
        meter: Meter,
        *,
        slow_ms: int = 0,
        tracer: Tracer | None = None,
        share: float = 0.0,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._meter = meter
        self.slow_ms = slow_ms or math.inf
        self._tracer = tracer
        self.is_tracing = tracer is not None
        self._share = share if tracer is not None else 0.0
        self._chance = chance or Random().random  # noqa: S311 - chooses a sample
        self.untraced = self._draw_untraced()
        "Requests until the next one of the sample; whoever serves requests counts down and begins a trace below 0."
        self._followed = _PerSecond(MOST_FOLLOWED)
        self._lines = _PerSecond(MOST_LINES)

    def begin(self, request: ApiRequest, endpoint: str, *, has_body: bool) -> RequestTrace | None:
        """Return the trace of a request.

        It is None if the request is not traced, and either slow requests are not logged or the request has no body.
        """
        span = self.start(request.method, endpoint, request.headers.get(HEADER))
        if span is not None:
            span.set(**{"kiosk.request_id": request.request_id})
        if span is None and (not has_body or self.slow_ms == math.inf):
            return None
        trace = RequestTrace(span)
        CURRENT.set(trace)
        return trace

    def end(self, request: ApiRequest, endpoint: str, status: int, app: str, took_ms: float) -> None:
        """End the span of a request; count and log the request if it was slow. At most `MOST_LINES` per second."""
        trace = request.trace
        if trace is not None:
            trace.is_open = False
        if took_ms >= self.slow_ms:
            self._meter.count("kiosk_slow_requests", endpoint=endpoint)
            if self._lines.take(self._clock.monotonic_s()):
                stages: dict[str, float] = {}
                listed = _plain_stages(request, took_ms) if trace is None else list_stages(trace)
                for name, began_s, ended_s in listed:
                    stages[name] = round(stages.get(name, 0.0) + (ended_s - began_s) * 1000, 2)
                _log.warning(
                    "request_slow",
                    request_id=request.request_id,
                    endpoint=endpoint,
                    status=status,
                    took_ms=round(took_ms, 2),
                    app=app,
                    stages=stages,
                )
        if trace is not None and trace.span is not None:
            _end_span(trace, trace.span, status, app)

    def start(self, method: str, endpoint: str, given: bytes | None) -> Span | None:
        """Start the span of a request if it is in the sample, or if its caller traces it by `given`."""
        if self._tracer is None:
            return None
        parent = parse_traceparent(given.decode("latin-1")) if given is not None else ""
        if self.untraced < 0:
            self.untraced = self._draw_untraced()
        elif not (parent and is_sampled(parent) and self._followed.take(self._clock.monotonic_s())):
            return None
        facts = {"http.request.method": method}
        return self._tracer.start(f"{method} {endpoint}", parent=parent, kind="server", attributes=facts)

    def _draw_untraced(self) -> float:
        """Draw how many requests pass until the next one of the sample: one number for many requests."""
        if self._share <= 0.0 or self._share >= 1.0:
            return math.inf if self._share <= 0.0 else 0
        # Gaps between independent draws have the geometric distribution: its inverse at a uniform number.
        return int(math.log(1.0 - self._chance()) / math.log(1.0 - self._share))


class _PerSecond:
    """A number of places per second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second = 0
        self._taken = 0

    def take(self, now_s: float) -> bool:
        second = int(now_s)
        if second != self._second:
            self._second = second
            self._taken = 0
        self._taken += 1
        return self._taken <= self._most


def open_observer(clock: Clock, meter: Meter, slow_ms: int, share: float) -> RequestObserver | None:
    """Return the observer of a replica; None if traces and slow lines are off, so that a request costs nothing more."""
    if PROCESS.tracer is None and not slow_ms:
        return None
    return RequestObserver(clock, meter, slow_ms=slow_ms, tracer=PROCESS.tracer, share=share)


def list_stages(trace: RequestTrace) -> Iterator[tuple[str, float, float]]:
    """Yield the stages of a request with begin and end, in seconds; the engine splits the stage around it."""
    engine = [(began_s, ended_s) for name, began_s, ended_s in trace.stages if name == ENGINE]
    for name, began_s, ended_s in trace.stages:
        if name == "answer" and engine:
            yield "prepare", began_s, engine[0][0]
            yield "encode", engine[-1][1], ended_s
        else:
            yield name, began_s, ended_s


def _plain_stages(request: ApiRequest, took_ms: float) -> Iterator[tuple[str, float, float]]:
    """Yield the stages of a request without a trace; one that admission refused has only that stage."""
    ended_s = request.started_s + took_ms / 1000
    yield "admission", request.started_s, request.admitted_s or ended_s
    if request.admitted_s:
        yield "answer", request.admitted_s, request.answered_s
        yield "bytes", request.answered_s, ended_s


def _end_span(trace: RequestTrace, span: Span, status: int, app: str) -> None:
    for name, began_s, ended_s in list_stages(trace):
        if name not in (ENGINE, HOP) and ended_s - began_s >= LEAST_S:
            span.child(name, began_s=began_s).end(ended_s=ended_s)
    span.set(**{"http.response.status_code": status, **({"kiosk.app": app} if app else {})})
    span.end(f"status {status}" if status >= 500 else "")
