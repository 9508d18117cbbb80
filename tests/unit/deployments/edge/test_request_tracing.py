"""Spans of MCP and OAuth, through the archive's own routes."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.applications import Starlette

from cluster.meter import SilentMeter
from cluster.process.tracing import OtelTracer
from cluster.tracing import CURRENT
from deployments.archive.services import build_archive_routes
from deployments.edge.observation.request_observer import RequestObserver
from tests.fakes.archive import ArchiveCorner, open_archive_corner

CALLER = "4bf92f3577b34da6a3ce929d0e0e4736"
SAMPLED = f"00-{CALLER}-00f067aa0ba902b7-01"


class Traced:
    """An archive whose routes are traced, and the spans that it made."""

    def __init__(self, corner: ArchiveCorner, share: float) -> None:
        self.corner = corner
        self.exporter = InMemorySpanExporter()
        tracer = OtelTracer(SimpleSpanProcessor(self.exporter), "api")
        observer = RequestObserver(corner.clock, SilentMeter(), tracer=tracer, share=share)
        corner.app = Starlette(routes=build_archive_routes(corner.services, observer))

    @property
    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())


async def test_a_call_of_a_tool_has_a_span_with_its_name() -> None:
    traced = Traced(await open_archive_corner(), share=1.0)
    assert await traced.corner.ask("Which CANARY river rules passed?")
    await traced.corner.rpc("tools/call", {"name": "CANARY", "arguments": {}})
    await traced.corner.rpc("CANARY")
    *first, (_, root) = [(span.parent is not None, span) for span in traced.spans]
    assert [span.attributes["mcp.call"] for below, span in first if below][:1] == ["tools/call ask_archive"]
    assert (root.name, root.kind.name) == ("POST /mcp", "SERVER")
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["kiosk.request_id"]
    calls = [span.attributes["mcp.call"] for span in traced.spans if span.name == "method"]
    assert calls == ["tools/call ask_archive", "unknown", "unknown"]
    assert "CANARY" not in "".join(span.to_json() for span in traced.spans)
    assert CURRENT.get() is None


async def test_the_sign_in_is_traced_without_its_query() -> None:
    traced = Traced(await open_archive_corner(), share=0.0)
    corner = traced.corner
    await corner.post(b"grant_type=CANARY", target="/oauth/token?x=CANARY", token="")
    assert traced.spans == []
    answer = await corner.post(
        b"grant_type=CANARY", target="/oauth/token?x=CANARY", token="", headers={"traceparent": SAMPLED}
    )
    (span,) = traced.spans
    assert span.name == "POST /oauth/token"
    assert f"{span.context.trace_id:032x}" == CALLER
    assert span.attributes["http.response.status_code"] == answer.status
    assert "CANARY" not in span.to_json()


async def test_a_fault_is_an_error_of_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(await open_archive_corner(), share=1.0)

    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(traced.corner.services.endpoint, "_reply", broken)
    with pytest.raises(ZeroDivisionError):
        await traced.corner.rpc("ping")
    (root,) = traced.spans
    assert (root.status.status_code.name, root.status.description) == ("ERROR", "ZeroDivisionError")


async def test_routes_without_a_tracer_are_not_wrapped() -> None:
    corner = await open_archive_corner()
    observer = RequestObserver(corner.clock, SilentMeter(), slow_ms=1000)
    routes: list[Any] = build_archive_routes(corner.services, observer)
    assert {type(route.app).__name__ for route in routes if hasattr(route, "app")} & {"TracedApp"} == set()
