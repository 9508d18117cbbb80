"""Traces over OpenTelemetry: the tracer of a process, which sends spans to a collector (OTLP over HTTP).

    request -> span -> queue of 2,048 spans -> a thread -> collector

A collector that is slow or away costs spans, never requests: a full queue drops them. The packages of OpenTelemetry are
imported only when traces are on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog

from cluster.build_info import installed_version
from cluster.errors import InvalidSetting
from cluster.tracing import PROCESS, Span, SpanKind

PATH = "/v1/traces"
EVERY_MS = 2_000
"How long a finished span waits for others, so that they leave in one request."
TIMEOUT_S = 5
MISSING = (
    "KIOSK_TRACE_URL is set, but the packages that send traces are not installed; install them with "
    "`pip install 'kiosk[tracing]'`, or unset KIOSK_TRACE_URL"
)


class OtelTracer:
    """A `Tracer` over a tracer provider of OpenTelemetry."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace import SpanKind as Kind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("kiosk", installed_version())
        self._extract = TraceContextTextMapPropagator().extract
        self._kinds = {"server": Kind.SERVER, "client": Kind.CLIENT, "internal": Kind.INTERNAL}

    def start(
        self,
        name: str,
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        from opentelemetry.context import Context

        # An empty context: spans of other libraries in this process are no parents of Kiosk's spans.
        context = self._extract({"traceparent": parent}, context=Context()) if parent else Context()
        return self._start(name, context, kind, attributes, began_s)

    def close(self) -> None:
        self._provider.shutdown()

    def _start(
        self,
        name: str,
        context: Any,
        kind: SpanKind,
        attributes: Mapping[str, Any] | None,
        began_s: float | None,
    ) -> OtelSpan:
        span = self._tracer.start_span(
            name,
            context=context,
            kind=self._kinds[kind],
            attributes=dict(attributes or {}),
            start_time=None if began_s is None else _wall_ns(began_s),
        )
        return OtelSpan(span, self._start)


class OtelSpan:
    """A `Span` over a span of OpenTelemetry."""

    __slots__ = ("_span", "_start")

    def __init__(self, span: Any, start: Any) -> None:
        self._span = span
        self._start = start

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def child(
        self,
        name: str,
        *,
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        child: Span = self._start(name, set_span_in_context(self._span, Context()), kind, attributes, began_s)
        return child

    def set(self, **attributes: Any) -> None:
        self._span.set_attributes(attributes)

    def end(self, error: str = "", *, ended_s: float | None = None) -> None:
        if error:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(None if ended_s is None else _wall_ns(ended_s))


def _wall_ns(perf_s: float) -> int:
    """Convert a value of `time.perf_counter` to nanoseconds since 1970."""
    return time.time_ns() - int((time.perf_counter() - perf_s) * 1e9)


def check_tracing(url: str) -> None:
    """Check that traces can be sent if they are on.

    Errors:
        InvalidSetting: the packages are not installed
    """
    if url:
        _find_exporter()


def open_tracing(url: str, process: str) -> OtelTracer | None:
    """Give this process a tracer if traces are on; return it.

    Without the packages, the process logs an error and serves without traces; `kiosk up` refuses to start.
    """
    if not url:
        return None
    try:
        exporter = _find_exporter()(endpoint=traces_endpoint(url), timeout=TIMEOUT_S)
    except InvalidSetting as error:
        structlog.get_logger().error("traces_off", reason=error.message)
        return None
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    tracer = OtelTracer(build_provider(BatchSpanProcessor(exporter, schedule_delay_millis=EVERY_MS), process))
    PROCESS.tracer = tracer
    return tracer


def build_provider(processor: Any, process: str) -> Any:
    """Return a provider of spans that all are recorded: who starts a span has chosen the request already."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    facts = {"service.name": f"kiosk-{process}", "service.version": installed_version()}
    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource.create(facts), shutdown_on_exit=True)
    provider.add_span_processor(processor)
    return provider


def traces_endpoint(url: str) -> str:
    """Return the address that takes spans; a collector's address without a path has the usual one."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + PATH


def _find_exporter() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise InvalidSetting(MISSING) from None
    return OTLPSpanExporter
