"""Traces that leave the process: to a collector over HTTP, through Redis, and out of a training."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cluster.errors import InvalidSetting
from cluster.process.tracing import OtelTracer, check_tracing, open_tracing, traces_endpoint
from cluster.store.connect import open_stores
from cluster.tracing import PROCESS, current_traceparent
from tests.suites.redis_process import RedisProcess

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Collector:
    """A receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.received: list[ExportTraceServiceRequest] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.paths.append(self.path)
                collector.received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(autouse=True)
def no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "tracer", None)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    PROCESS.tracer = OtelTracer(SimpleSpanProcessor(exporter), "test")
    return exporter


def test_spans_reach_a_collector(collector: Collector) -> None:
    tracer = open_tracing(collector.url, "api")
    assert tracer is not None
    tracer.start("GET user", parent=CALLER, kind="server").end()
    tracer.close()
    assert collector.paths == ["/v1/traces"]
    (resource,) = collector.received[0].resource_spans
    assert {"service.name": "kiosk-api"}.items() <= {
        attribute.key: attribute.value.string_value for attribute in resource.resource.attributes
    }.items()
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex()) == ("GET user", "4bf92f3577b34da6a3ce929d0e0e4736")
    assert span.parent_span_id.hex() == "00f067aa0ba902b7"


def test_without_a_collector_nothing_is_opened_and_a_given_path_stays() -> None:
    assert open_tracing("", "api") is None
    assert PROCESS.tracer is None
    check_tracing("")
    assert traces_endpoint("http://collector:4318/") == "http://collector:4318/v1/traces"
    assert traces_endpoint("https://vendor/otlp/v1/traces") == "https://vendor/otlp/v1/traces"


def test_absent_packages_stop_a_start_and_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(InvalidSetting, match=r"kiosk\[tracing\]"):
        check_tracing("http://collector:4318")
    assert open_tracing("http://collector:4318", "api") is None, "a replica serves without traces"


@pytest.mark.redis
async def test_a_command_of_a_traced_request_is_a_span_without_its_keys(
    exporter: InMemorySpanExporter,
) -> None:
    server = RedisProcess()
    try:
        async with open_stores(server.start().url) as stores:
            await stores.engines.get("shop-CANARY", "default")
            assert exporter.get_finished_spans() == (), "nobody traces this one"
            with PROCESS.trace("request", CALLER):
                await stores.engines.get("shop-CANARY", "default")
            spans = exporter.get_finished_spans()
            await stores.engines.get("shop-CANARY", "default")
            assert len(exporter.get_finished_spans()) == len(spans)
    finally:
        server.stop()
    commands = [span for span in spans if span.name.startswith("redis ")]
    assert commands
    (request,) = [span for span in spans if span.name == "request"]
    assert {span.parent.span_id for span in commands if span.parent} == {request.context.span_id}
    assert "CANARY" not in "".join(span.to_json() for span in spans)


def test_only_a_sampled_parent_is_followed(exporter: InMemorySpanExporter) -> None:
    for parent in ("", CALLER[:-1] + "0", "nonsense"):
        with PROCESS.trace("engine.answer", parent):
            assert current_traceparent() == ""
    assert exporter.get_finished_spans() == ()

    def breaks() -> None:
        with PROCESS.trace("engine.answer", CALLER):
            assert current_traceparent().startswith(CALLER[:36])
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        breaks()
    assert exporter.get_finished_spans()[0].status.description == "ValueError"


def test_a_process_takes_its_parent_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", CALLER)
    assert current_traceparent() == CALLER
    monkeypatch.setenv("TRACEPARENT", "nonsense")
    assert current_traceparent() == ""
