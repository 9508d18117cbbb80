"""Traces over OpenTelemetry: the tracer of a process, which sends spans to a collector (OTLP over HTTP).

    request -> span -> queue of 2,048 spans -> a thread -> collector

A collector that is slow or away costs spans, never requests: a full queue drops them. The packages of OpenTelemetry are
imported only when traces are on.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog

from cluster.build_info import installed_version
from cluster.errors import InvalidSetting
from cluster.tracing import PROCESS, Span, SpanKind

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import SpanContext

PATH = "/v1/traces"
EVERY_MS = 2_000
"How long a finished span waits for others, so that they leave in one request."
TIMEOUT_S = 5
MISSING = (
    "KIOSK_TRACE_URL is set, but the packages that send traces are not installed; install them with "
    "`pip install 'kiosk[tracing]'`, or unset KIOSK_TRACE_URL"
)


class OtelTracer:
    """A `Tracer` whose ended spans go to a span processor of OpenTelemetry.

    The spans themselves are not those of the SDK: to start and end one of these costs a third of that. Each is
    recorded, because whoever starts one has chosen the request already.
    """

    def __init__(self, processor: SpanProcessor, process: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags
        from opentelemetry.trace import SpanKind as Kind

        facts = {"service.name": f"kiosk-{process}", "service.version": installed_version()}
        self._build = partial(
            ReadableSpan,
            resource=Resource.create(facts),
            instrumentation_scope=InstrumentationScope("kiosk", installed_version()),
        )
        self._context = SpanContext
        self._sampled = TraceFlags(TraceFlags.SAMPLED)
        self._failed = partial(Status, StatusCode.ERROR)
        self._unset = Status(StatusCode.UNSET)
        self._kinds = {"server": Kind.SERVER, "client": Kind.CLIENT, "internal": Kind.INTERNAL}
        self._ids = RandomIdGenerator()
        self._processor = processor

    def start(
        self,
        name: str,
        *,
        parent: str = "",
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        if parent:
            # `traceparent` of W3C: version, trace id, id of the calling span, flags.
            _, trace_id, span_id, _ = parent.split("-")
            outer = self._context(
                int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=self._sampled
            )
            return self.start_in(outer.trace_id, outer, name, kind, attributes, began_s)
        return self.start_in(self._ids.generate_trace_id(), None, name, kind, attributes, began_s)

    def start_in(
        self,
        trace_id: int,
        parent: SpanContext | None,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Any] | None,
        began_s: float | None,
    ) -> OtelSpan:
        """Start a span of a trace."""
        context = self._context(
            trace_id, self._ids.generate_span_id(), is_remote=False, trace_flags=self._sampled
        )
        began_ns = time.time_ns() if began_s is None else _wall_ns(began_s)
        return OtelSpan(self, context, parent, name, kind, dict(attributes or {}), began_ns)

    def end(self, span: OtelSpan, error: str, ended_ns: int) -> None:
        """Send a span; never blocks."""
        self._processor.on_end(
            self._build(
                span.name,
                context=span.context,
                parent=span.parent,
                kind=self._kinds[span.kind],
                attributes=span.attributes,
                status=self._failed(error) if error else self._unset,
                start_time=span.began_ns,
                end_time=ended_ns,
            )
        )

    def close(self) -> None:
        self._processor.shutdown()


class OtelSpan:
    """A `Span` that becomes one of OpenTelemetry when it ends."""

    __slots__ = ("_tracer", "attributes", "began_ns", "context", "kind", "name", "parent")

    def __init__(
        self,
        tracer: OtelTracer,
        context: SpanContext,
        parent: SpanContext | None,
        name: str,
        kind: SpanKind,
        attributes: dict[str, Any],
        began_ns: int,
    ) -> None:
        self._tracer = tracer
        self.context = context
        self.parent = parent
        self.name = name
        self.kind = kind
        self.attributes = attributes
        self.began_ns = began_ns

    @property
    def traceparent(self) -> str:
        return f"00-{self.context.trace_id:032x}-{self.context.span_id:016x}-01"

    def child(
        self,
        name: str,
        *,
        kind: SpanKind = "internal",
        attributes: Mapping[str, Any] | None = None,
        began_s: float | None = None,
    ) -> Span:
        return self._tracer.start_in(self.context.trace_id, self.context, name, kind, attributes, began_s)

    def set(self, **attributes: Any) -> None:
        self.attributes.update(attributes)

    def end(self, error: str = "", *, ended_s: float | None = None) -> None:
        self._tracer.end(self, error, time.time_ns() if ended_s is None else _wall_ns(ended_s))


def _wall_ns(perf_s: float) -> int:
    """Convert a value of `time.perf_counter` to nanoseconds since 1970."""
    # The age is measured on the monotonic clock, and only the result is moved to the wall clock.
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

    tracer = OtelTracer(BatchSpanProcessor(exporter, schedule_delay_millis=EVERY_MS), process)
    PROCESS.tracer = tracer
    # Spans still wait in the queue when the process ends.
    atexit.register(PROCESS.close)
    return tracer


def traces_endpoint(url: str) -> str:
    """Return the address that takes spans; a collector's address without a path has the usual one."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + PATH


def _find_exporter() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise InvalidSetting(MISSING) from None
    return OTLPSpanExporter
