"""The description of the administration: complete, and valid beside that of the API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deployments.admin.openapi import describe_administration
from deployments.api.http.docs import render_docs
from deployments.api.http.openapi import extend_openapi
from deployments.edge.http.path_table import PathTable
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.examples import example_arguments, example_result
from deployments.operations.framework.operation_executor import parse_arguments
from tests.performed_examples import perform_examples

MESSAGE = re.compile(r"^[A-Z].*\.$", re.DOTALL)
_DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0", "info": {"title": "Kiosk", "version": "1", "description": "x"}, "tags": [], "paths": {},
    "components": {
        "schemas": {
            "MessageReply": {"type": "object", "description": "A message.", "properties": {}},
            "Detail": {"type": "object", "description": "Faults.", "properties": {}},
        },
        "securitySchemes": {},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return extend_openapi(_DOCUMENT, describe_administration(OPERATIONS.values()))


def described(document: dict[str, Any], name: str) -> dict[str, Any]:
    operation = OPERATIONS[name]
    operation_entry: dict[str, Any] = document["paths"][f"/v1/admin{operation.path}"][
        operation.method.lower()
    ]
    return operation_entry


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_an_operation_is_described_whole(document: dict[str, Any], name: str) -> None:
    operation = OPERATIONS[name]
    about = described(document, name)
    assert MESSAGE.match(about["summary"])
    assert about["description"]
    assert about["security"] == [{"AdminToken": []}]
    assert about["tags"][0] in {tag["name"] for tag in document["tags"]}
    for parameter in about["parameters"]:
        assert MESSAGE.match(parameter["description"]), parameter
        assert "example" in parameter or not parameter["required"], parameter
    assert {"200", "401", "403", "404", "422", "429", "500", "503"} <= set(about["responses"])
    parse_arguments(operation, example_arguments(operation))
    body = about.get("requestBody")
    if operation.stream_field:
        assert list(body["content"]) == ["application/octet-stream"]
    elif body is not None:
        schema = document["components"]["schemas"][
            body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        ]
        validator = jsonschema.Draft202012Validator(
            {**schema, "components": document["components"]}
        )  # references are resolved in the same document
        validator.validate(body["content"]["application/json"]["example"])
    json.dumps(about)


def test_examples_of_results_are_there(document: dict[str, Any]) -> None:
    without = [
        name
        for name, operation in OPERATIONS.items()
        if example_result(operation) is None and operation.media_type == "application/json"
    ]
    assert without == [], "give the operation an example of its result"


async def test_examples_are_what_operations_return(tmp_path: Path) -> None:
    performed = await perform_examples(tmp_path)
    for name, result in performed.items():
        assert example_result(OPERATIONS[name]) == result, "run `python -m tests.performed_examples`"


def test_references_lead_somewhere_and_names_are_unique(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in document["components"]["schemas"], name
    names = [entry["operationId"] for path in document["paths"].values() for entry in path.values()]
    assert len(names) == len(set(names)) == len(OPERATIONS)


def test_the_page_for_people_shows_it_too(document: dict[str, Any]) -> None:
    page = render_docs(document, administration=True).decode()
    for name in OPERATIONS:
        assert f'id="{name}"' in page
    assert "Authorization: Bearer $TOKEN" in page
    assert "--data-binary @FILE" in page
    assert "@FILE --data-binary" not in page, "curl would send the file twice"


def test_every_path_of_the_table_has_its_operation() -> None:
    paths = PathTable(OPERATIONS.values(), slashes=False)
    for operation in OPERATIONS.values():
        sent = re.sub(r"\{\w+\}", "a%2Fb", operation.path)
        match = paths.find(sent.encode())
        assert match is not None, operation.path
        assert match.endpoint(operation.method) is operation
        assert set(match.ids.values()) <= {"a/b"}
        assert tuple(match.ids) == tuple(operation.path_fields)
