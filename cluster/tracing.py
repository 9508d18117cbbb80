"""Where the time of a request or a training goes: stages for the log of slow requests, spans for traces.

    RequestTrace    one request; holds its stages, and a span if the request is traced
    current_trace   the trace of the running task; None where nobody measures
    Tracer          makes spans; `cluster.process.tracing` opens it

Spans follow W3C Trace Context: a `traceparent` comes with a request and goes to dedicated engines and trainings.
Without a tracer and without a log of slow requests, a request costs one look at an attribute.

Source: W3C Trace Context, level 1
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Literal, Protocol

SpanKind = Literal["server", "client", "internal"]
VARIABLE = "TRACEPARENT"
"Environment variable with the parent of everything that a process does."

# W3C Trace Context: version ff is invalid, and so are ids of zeros only.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class Span(Protocol):
    """One timed step of a trace."""

    @property
    def traceparent(self) -> str:
        """Return the value that makes a step of another process a child of this one."""
        ...

    def child(
        self,
        name: str,
        *,
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        """Start a step within this one; `began_s` is a value of `time.perf_counter`."""
        ...

    def set(self, **attributes: Any) -> None:
        """Add attributes."""
        ...

    def end(self, error: str = "", *, ended_s: float | None = None) -> None:
        """End the step; `error` names what failed."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def start(
        self,
        name: str,
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        """Start the first step of this process; `parent` is a valid `traceparent` or empty."""
        ...

    def close(self) -> None:
        """Send what is left, and stop."""
        ...


class RequestTrace:
    """The stages of one request, and its span.

    `stages` holds (name, begin, end) in seconds of `time.perf_counter`, in the order of their ends. A closed trace
    takes no more: tasks that outlive their request keep its context.
    """

    __slots__ = ("began_s", "is_open", "span", "stages")

    def __init__(
        self, span: Span | None = None, stages: list[tuple[str, float, float]] | None = None
    ) -> None:
        self.span = span
        self.stages = [] if stages is None else stages
        self.is_open = True
        self.began_s = time.perf_counter()

    def mark(self, name: str) -> None:
        """End a stage that began where the stage before it ended, or with the request."""
        now_s = time.perf_counter()
        self.stages.append((name, self.began_s, now_s))
        self.began_s = now_s

    def stage(
        self, name: str, kind: SpanKind = "internal", attributes: Mapping[str, Any] | None = None
    ) -> Stage:
        """Return a context manager that measures one stage and makes it the parent of steps inside it."""
        return Stage(self, name, kind, attributes)


class Stage:
    """One stage while it runs; `span` is None unless the request is traced."""

    __slots__ = ("_attributes", "_began_s", "_inner", "_kind", "_name", "_token", "_trace", "span")

    def __init__(
        self, trace: RequestTrace, name: str, kind: SpanKind, attributes: Mapping[str, Any] | None
    ) -> None:
        self._trace = trace
        self._name = name
        self._kind = kind
        self._attributes = attributes
        self._token: Token[RequestTrace | None] | None = None
        self._inner: RequestTrace | None = None
        self.span: Span | None = None

    def __enter__(self) -> Stage:
        outer = self._trace.span
        if outer is not None:
            self.span = outer.child(self._name, kind=self._kind, attributes=self._attributes)
            # Both write to one list, so the log of slow requests has the inner stages too.
            self._inner = RequestTrace(self.span, self._trace.stages)
            self._token = CURRENT.set(self._inner)
        self._began_s = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._trace.stages.append((self._name, self._began_s, time.perf_counter()))
        if self.span is not None:
            self.span.end("" if kind is None else kind.__name__)
        if self._token is not None and self._inner is not None:
            self._inner.is_open = False
            CURRENT.reset(self._token)


CURRENT: ContextVar[RequestTrace | None] = ContextVar("kiosk_trace", default=None)


def current_trace() -> RequestTrace | None:
    """Return the open trace of the running task. Cost: 0.1 microseconds."""
    trace = CURRENT.get()
    return trace if trace is not None and trace.is_open else None


def current_span() -> Span | None:
    """Return the span of the running task; None unless it is traced."""
    trace = CURRENT.get()
    return trace.span if trace is not None and trace.is_open else None


class ProcessTracer:
    """The tracer of this process; a process without one makes no spans."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None

    def close(self) -> None:
        """Send what is left; blocks up to a few seconds."""
        if self.tracer is not None:
            self.tracer.close()
            self.tracer = None

    def begin(
        self, name: str, *, kind: SpanKind = "internal", attributes: Mapping[str, Any] | None = None
    ) -> Span | None:
        """Start a step of the running task, which the caller ends; None without a tracer.

        Outside of a trace it is the first step of one: for calls that are few and long.
        """
        if self.tracer is None:
            return None
        outer = current_span()
        if outer is not None:
            return outer.child(name, kind=kind, attributes=attributes)
        return self.tracer.start(name, parent=current_traceparent(), kind=kind, attributes=attributes)

    @contextmanager
    def trace(
        self,
        name: str,
        parent: str,
        *,
        kind: SpanKind = "internal",
        always: bool = False,
        attributes: Mapping[str, Any] | None = None,
    ) -> Iterator[RequestTrace]:
        """Trace what runs inside as a child of `parent`.

        Without a tracer nothing is recorded; without a sampled parent only if `always` is set.
        """
        parent = parse_traceparent(parent)
        if self.tracer is None or not (always or (parent and is_sampled(parent))):
            yield RequestTrace()
            return
        trace = RequestTrace(self.tracer.start(name, parent=parent, kind=kind, attributes=attributes))
        token = CURRENT.set(trace)
        error = ""
        try:
            yield trace
        except BaseException as caught:
            # A cancelled request ends its span too.
            error = type(caught).__name__
            raise
        finally:
            trace.is_open = False
            CURRENT.reset(token)
            assert trace.span is not None
            trace.span.end(error)


PROCESS = ProcessTracer()


def parse_traceparent(text: str) -> str:
    """Return a `traceparent` if it is valid, else an empty text."""
    return text if _TRACEPARENT.fullmatch(text) else ""


def is_sampled(traceparent: str) -> bool:
    """Return whether the caller records its side of a valid `traceparent`."""
    return bool(int(traceparent[-2:], 16) & 1)


def current_traceparent() -> str:
    """Return the `traceparent` of the running task, or of this process; empty if nobody traces."""
    span = current_span()
    if span is not None:
        return span.traceparent
    return parse_traceparent(os.environ.get(VARIABLE, ""))
