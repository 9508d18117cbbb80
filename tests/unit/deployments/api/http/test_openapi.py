from __future__ import annotations

import asyncio
import errno
import importlib
import inspect
import json
import pkgutil
import re
import threading
from typing import Any

import pytest
from pydantic import BaseModel

from deployments.api import wire
from deployments.api.http import application
from deployments.api.http.docs import render_docs
from deployments.api.http.openapi import build_openapi
from tests.fakes.asgi import call
from tests.fakes.request_handler import Corner


@pytest.fixture
async def document(corner: Corner) -> dict[str, Any]:
    return build_openapi(corner.handler.endpoints, "1.2.3")


async def test_every_endpoint_is_described_with_keys_body_and_replies(
    corner: Corner, document: dict[str, Any]
) -> None:
    for endpoint in corner.handler.endpoints:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["security"]
        assert {"200", "401", "403", "429", "500", "503"} <= set(operation["responses"])
        assert ("requestBody" in operation) == (endpoint.rules.body != "ignored")
        assert ("409" in operation["responses"]) == endpoint.rules.writes
        for reply in operation["responses"].values():
            assert reply["description"]
            assert reply["content"]["application/json"]["schema"]
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names)) == len(corner.handler.endpoints)


async def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            references.extend([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)
    assert references
    assert {reference.removeprefix("#/components/schemas/") for reference in references} <= set(schemas)
    json.dumps(document)


async def test_422_has_the_shape_of_its_family(document: dict[str, Any]) -> None:
    def shape(path: str, method: str) -> str:
        reply = document["paths"][path][method]["responses"]["422"]
        name: str = reply["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return name

    assert shape("/v1/users", "post") == "RefusedUpload"
    assert shape("/v1/interactions", "post") == "RefusedUpload"
    assert shape("/v1/users/_delete", "post") == "Detail"
    assert shape("/v1/recommendation/user_to_products", "post") == "Detail"
    assert shape("/v1/products/{product_id}", "get") == "Detail"


async def test_optional_parameters_may_be_null_and_required_ones_not(document: dict[str, Any]) -> None:
    body = document["components"]["schemas"]["UserToAttributes"]
    assert {"type": "null"} in body["properties"]["rows"]["anyOf"]
    assert body["properties"]["field"]["type"] == "string"
    assert body["required"] == ["field"]
    assert body["additionalProperties"] is False


async def test_the_page_stands_alone_and_names_every_path(document: dict[str, Any]) -> None:
    html = render_docs(document).decode()
    for path in document["paths"]:
        assert path in html
    assert "http://" not in html
    assert "https://" not in html
    assert html.count("<script") == 1
    assert html.count("<details") == html.count("</details>")


def test_the_page_is_light_and_has_a_command_to_paste_for_every_operation(document: dict[str, Any]) -> None:
    html = render_docs(document).decode()
    assert len(html) < 250_000
    for path in document["paths"].values():
        for operation in path.values():
            section = html.partition(f'<details id="{operation["operationId"]}">')[2].partition("<details")[0]
            assert "curl -s" in section, operation["operationId"]
            assert "$KEY" in section
            assert f'href="docs/try#{operation["operationId"]}"' in section
    places = set(re.findall(r' id="([^"]+)"', html))
    # the script of the page writes further links
    assert set(re.findall(r'href="#([^"$]+)"', html)) <= places
    assert len(re.findall(r' id="', html)) == len(places)


async def test_the_page_is_built_once_and_not_on_the_event_loop(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def build(document: dict[str, Any], *, administration: bool = False) -> bytes:
        threads.append(threading.get_ident())
        return render_docs(document)

    monkeypatch.setattr(application, "render_docs", build)
    app = application.build_application(corner.handler, version="0")
    answers = await asyncio.gather(*[call(app, "GET", "/docs") for _ in range(3)])
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_the_page_is_built_again_after_a_passing_failure(
    corner: Corner, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(errno.EMFILE, "too many open files")]

    def build(document: dict[str, Any], *, administration: bool = False) -> bytes:
        if failures:
            raise failures.pop()
        return render_docs(document)

    monkeypatch.setattr(application, "render_docs", build)
    app = application.build_application(corner.handler, version="0")
    with pytest.raises(OSError, match="open files"):
        await call(app, "GET", "/docs")
    assert (await call(app, "GET", "/docs")).status == 200


def test_explanations_are_documented_as_an_addition_of_ours(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("UserToProducts", "UserToCategories", "UserToHistory", "ProductToProducts"):
        field = schemas[name]["properties"]["explain"]
        assert "addition of this service" in field["description"]
        assert "explain" not in schemas[name].get("required", ())
    assert "_explain" in schemas["Recommended"]["properties"]
    assert "missing" in schemas["Explanation"]["properties"]


def test_no_two_models_of_the_wire_share_a_name() -> None:
    modules: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(wire.__path__, wire.__name__ + "."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, BaseModel) and kind.__module__.startswith(wire.__name__):
                modules.setdefault(name, set()).add(kind.__module__)
    assert {name: sorted(homes) for name, homes in modules.items() if len(homes) > 1} == {}
