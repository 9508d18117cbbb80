"""Traces, and the log of slow requests with the duration of each stage.

    admission   key, limits and body
    parse       JSON and schema
    prepare     from there to the engine: experiments and stored rules
    engine      the engine's answer; a dedicated engine includes the hop
    encode      from there to the bytes of the reply
    answer      replaces the three above if no engine answers
    bytes       compression, and the reply handed to the server

Neither a line nor a span holds a query string, a header, an address or an id of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import structlog

from cluster.clock import Clock
from cluster.tracing import CURRENT, PROCESS, RequestTrace, Span, Tracer, is_sampled, parse_traceparent
from deployments.edge.request import ApiRequest

HEADER = b"traceparent"
MOST_FOLLOWED = 10
"Maximum traced requests per second whose caller requests a trace: clients must not determine the cost."
ENGINE, HOP = "engine", "hop"

_log = structlog.get_logger()


class RequestObserver:
    """Measures requests of one API replica.

    `slow_ms` is the time from which a request gets a line; 0: none does.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        slow_ms: int = 0,
        tracer: Tracer | None = None,
        share: float = 0.0,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._slow_ms = slow_ms
        self._tracer = tracer
        self._share = share
        self._chance = chance or Random().random  # noqa: S311 - chooses a sample
        self._second = 0
        self._followed = 0

    def begin(self, request: ApiRequest, endpoint: str) -> RequestTrace | None:
        """Return the trace of a request; None if the request is not traced and slow requests are not logged."""
        span = self._start(request, endpoint) if self._tracer is not None else None
        if span is None and not self._slow_ms:
            return None
        trace = RequestTrace(span)
        CURRENT.set(trace)
        return trace

    def end(self, request: ApiRequest, trace: RequestTrace, endpoint: str, status: int, app: str) -> None:
        """Log the request if it was slow, and end its span."""
        trace.is_open = False
        took_ms = (self._clock.monotonic_s() - request.started_s) * 1000
        if self._slow_ms and took_ms >= self._slow_ms:
            stages: dict[str, float] = {}
            for name, began_s, ended_s in list_stages(trace):
                stages[name] = round(stages.get(name, 0.0) + (ended_s - began_s) * 1000, 2)
            _log.warning(
                "request_slow", request_id=request.request_id, endpoint=endpoint, status=status,
                took_ms=round(took_ms, 2), app=app, stages=stages,
            )  # fmt: skip
        if trace.span is not None:
            _end_span(trace, trace.span, status, app)

    def _start(self, request: ApiRequest, endpoint: str) -> Span | None:
        """Start the span of a request if it is in the sample, or if its caller traces it."""
        assert self._tracer is not None
        given = request.headers.get(HEADER)
        parent = parse_traceparent(given.decode("latin-1")) if given is not None else ""
        followed = bool(parent) and is_sampled(parent) and self._may_follow()
        if not followed and self._chance() >= self._share:
            return None
        facts = {"http.request.method": request.method, "kiosk.request_id": request.request_id}
        return self._tracer.start(
            f"{request.method} {endpoint}", parent=parent, kind="server", attributes=facts
        )

    def _may_follow(self) -> bool:
        second = int(self._clock.monotonic_s())
        if second != self._second:
            self._second, self._followed = second, 0
        self._followed += 1
        return self._followed <= MOST_FOLLOWED


def open_observer(clock: Clock, slow_ms: int, share: float) -> RequestObserver | None:
    """Return the observer of a replica; None if traces and slow lines are off, so that a request costs nothing more."""
    if PROCESS.tracer is None and not slow_ms:
        return None
    return RequestObserver(clock, slow_ms=slow_ms, tracer=PROCESS.tracer, share=share)


def list_stages(trace: RequestTrace) -> Iterator[tuple[str, float, float]]:
    """Yield the stages of a request with begin and end, in seconds; the engine splits the stage around it."""
    engine = [(began_s, ended_s) for name, began_s, ended_s in trace.stages if name == ENGINE]
    for name, began_s, ended_s in trace.stages:
        if name == "answer" and engine:
            yield "prepare", began_s, engine[0][0]
            yield "encode", engine[-1][1], ended_s
        else:
            yield name, began_s, ended_s


def _end_span(trace: RequestTrace, span: Span, status: int, app: str) -> None:
    for name, began_s, ended_s in list_stages(trace):
        if name not in (ENGINE, HOP):
            span.child(name, began_s=began_s).end(ended_s=ended_s)
    span.set(**{"http.response.status_code": status, **({"kiosk.app": app} if app else {})})
    span.end(f"status {status}" if status >= 500 else "")
