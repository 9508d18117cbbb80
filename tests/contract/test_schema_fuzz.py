"""Made-up calls against our own OpenAPI document: no 5xx, and every answer as the document says.

Set `KIOSK_FUZZ_EXAMPLES` for a longer run.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cluster.records.engine import Engine
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.fakes.request_handler import open_corner

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("KIOSK_FUZZ_EXAMPLES", "25"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class _Served(threading.Thread):
    """The application on memory stores behind a real HTTP server, on a thread with a loop of its own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.ready = threading.Event()
        self.key = ""
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        corner = await open_corner()
        self.key = corner.secret()
        await corner.stores.engines.put(Engine(app_id="shop", engine_id="default"))
        app = HotPathMiddleware(build_application(corner.handler, version="0"), lambda: corner.handler)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        self.ready.set()
        await self.server.serve(sockets=[self.socket])
        await corner.close()


@pytest.fixture(scope="module")
def served() -> Iterator[_Served]:
    """A running application."""
    thread = _Served()
    thread.start()
    assert thread.ready.wait(10)
    yield thread
    assert thread.server is not None
    thread.server.should_exit = True
    thread.join(10)
    thread.socket.close()


@pytest.fixture(scope="module")
def interface(served: _Served) -> Any:
    """The OpenAPI document of the running application."""
    port = served.socket.getsockname()[1]
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")


@pytest.mark.timeout(900)
def test_every_answer_is_as_documented(interface: Any, served: _Served) -> None:
    failures = []
    operations = [operation.ok() for operation in interface.get_all_operations()]
    for operation in operations:
        try:
            _fuzz(operation, served.key)
        except Exception as failure:  # noqa: BLE001 - every kind of finding is collected and told at the end
            failures.append(f"{operation.label}: {failure}")
    assert len(operations) >= 20
    assert not failures, "\n\n".join(failures)


def _fuzz(operation: Any, key: str) -> None:
    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def every_case(case: Any) -> None:
        case.call_and_validate(headers={"X-API-KEY": key}, checks=CHECKS)

    every_case()
