"""The OpenAPI document is complete: every operation and field is described, and every example was really answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from deployments.api.http.openapi import build_openapi
from deployments.api.reference.openapi_texts import read_examples, read_texts
from tests.contract.example_player import ExamplePlayer
from tests.fakes.request_handler import Corner, open_corner


@pytest.fixture
async def corner() -> Corner:
    return await open_corner()


@pytest.fixture
async def document(corner: Corner) -> dict[str, Any]:
    return build_openapi(corner.handler.endpoints, "1.2.3")


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def undescribed(schema: Any, path: str) -> Iterator[str]:
    """List the fields of a schema that have no description."""
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            if not field.get("description"):
                yield f"{path}.{name}"
            yield from undescribed(field, f"{path}.{name}")
        for name, part in schema.items():
            if name not in ("properties", "example", "examples", "default", "enum"):
                yield from undescribed(part, path)
    elif isinstance(schema, list):
        for part in schema:
            yield from undescribed(part, path)


def test_every_field_operation_tag_and_parameter_is_described(document: dict[str, Any]) -> None:
    silent = list(undescribed(document["components"]["schemas"], "schemas"))
    for operation in operations(document):
        name = operation["operationId"]
        silent += undescribed(operation, name)
        silent += [] if len(operation["description"].partition("**Keys:**")[0]) > 20 else [name]
        silent += [
            f"{name}.{parameter['name']}"
            for parameter in operation["parameters"]
            if not parameter["description"]
        ]
    silent += [tag["name"] for tag in document["tags"] if not tag["description"]]
    assert silent == []
    assert {tag["name"] for tag in document["tags"]} == {
        operation["tags"][0] for operation in operations(document)
    }
    assert document["servers"]
    schemes = document["components"]["securitySchemes"]
    assert set(schemes) == {"SecretKey", "PublishableKey", "ReaderToken"}
    assert all(len(scheme["description"]) > 40 for scheme in schemes.values())


def test_no_text_describes_what_is_not_there(corner: Corner, document: dict[str, Any]) -> None:
    texts, schemas = read_texts(), document["components"]["schemas"]
    names = {endpoint.name for endpoint in corner.handler.endpoints}
    assert set(texts.operations) == names
    assert set(texts.tags) == {tag["name"] for tag in document["tags"]}
    parts = {"like", "any", "path", "query", "header"}
    assert set(texts.fields["like"]) | set(texts.fields["like"].values()) <= set(schemas)
    assert set(texts.fields) - parts - set(schemas) - names == set()
    everywhere = {name for schema in schemas.values() for name in schema.get("properties", {})}
    assert set(texts.fields["any"]) - everywhere - {"user_ids"} == set()
    for model, fields in texts.fields.items():
        if model in schemas:
            assert set(fields) <= set(schemas[model].get("properties", {})), model


def test_every_status_has_a_description_of_its_operation(document: dict[str, Any]) -> None:
    for operation in operations(document):
        descriptions = {status: reply["description"] for status, reply in operation["responses"].items()}
        assert all(descriptions.values()), operation["operationId"]
        assert len(set(descriptions.values())) == len(descriptions), descriptions
        assert "Refused." not in descriptions.values()
        assert "Retry-After" in operation["responses"]["429"]["headers"]


def test_keys_are_described_and_secret_operations_offer_no_publishable_key(
    corner: Corner, document: dict[str, Any]
) -> None:
    for endpoint in corner.handler.endpoints:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        schemes = {name for way in operation["security"] for name in way}
        is_open = endpoint.rules.publishable or bool(endpoint.rules.publishable_by)
        assert ("PublishableKey" in schemes) == is_open, endpoint.name
        assert ("secret key only" in operation["description"]) != is_open, endpoint.name
    history = document["paths"]["/v1/ask/user_history/list"]["post"]
    assert {"PublishableKey": []} not in history["security"]
    assert {"PublishableKey": [], "ReaderToken": []} in history["security"]


def test_limits_of_callers_are_described(document: dict[str, Any]) -> None:
    def text(model: str, field: str) -> str:
        description: str = document["components"]["schemas"][model]["properties"][field]["description"]
        return description

    assert "1,000" in text("ManyProducts", "product_ids")
    assert "10,000" in text("SearchBody", "exclude")
    assert "32 KiB" in text("UserToProducts", "fq")
    writing = document["paths"]["/v1/products"]["post"]
    assert any(
        "255" in parameter["description"]
        for parameter in writing["parameters"]
        if parameter["in"] == "header"
    )


async def test_every_example_is_answered_as_documented(corner: Corner, document: dict[str, Any]) -> None:
    """Play them in their order on an empty app; answers are valid, and look like the documented ones."""
    examples = read_examples()
    assert {example.operation for example in examples} == {
        endpoint.name for endpoint in corner.handler.endpoints
    }
    by_name = {operation["operationId"]: operation for operation in operations(document)}
    player, played = await ExamplePlayer.open(), set[str]()
    try:
        for example in examples:
            operation = by_name[example.operation]
            if example.body is not None:
                content = operation["requestBody"]["content"]["application/json"]
                assert content["example"] == example.body or example.operation in played
                _validate(example.body, content["schema"], document)
            content = operation["responses"][str(example.status)]["content"]["application/json"]
            assert content["example"] == example.reply or example.operation in played
            played.add(example.operation)
            answer = await player.send(example)
            assert answer.status == example.status, (example.operation, answer.body)
            player.learn(example, answer.json())
            for reply in (example.reply, answer.json()):
                _validate(reply, content["schema"], document)
            assert _shape(answer.json()) == _shape(example.reply), example.operation
    finally:
        await player.close()


async def test_every_shape_of_a_refusal_has_an_example_that_was_answered(document: dict[str, Any]) -> None:
    refusals, shown = read_texts().refusals, document["components"]["schemas"]
    shapes = {
        reply["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for operation in operations(document)
        for status, reply in operation["responses"].items()
        if status in ("401", "422")
    }
    assert set(refusals) == shapes
    player = await ExamplePlayer.open()
    try:
        for name, example in refusals.items():
            answer = await player.send(example)
            assert (answer.status, answer.json()) == (example.status, example.reply)
            assert shown[name]["examples"] == [example.reply]
            _validate(example.reply, shown[name], document)
    finally:
        await player.close()


def _validate(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


def _shape(value: Any) -> Any:
    """Replace every value by its type; ids that a caller chose stay."""
    if isinstance(value, dict):
        return {name: item if name == "product_id" else _shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return float if type(value) is int else type(value)
