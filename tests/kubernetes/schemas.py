"""Strict schemas of the objects that the chart makes: Kubernetes, KubeRay, Prometheus Operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

FOLDER = Path(__file__).resolve().parent / "schemas"
RELEASES = (("kubernetes-1.30", "kuberay-1.6"), ("kubernetes-1.37", "kuberay-1.7"))
PROMETHEUS = "prometheus-operator-0.80"


@cache
def validators(kubernetes: str, kuberay: str) -> dict[str, Draft202012Validator]:
    """Return a validator for each kind."""
    schema_validators = {}
    definitions = _load(kubernetes)
    for name in (kubernetes, kuberay, PROMETHEUS):
        bundle = _load(name)
        registry = Registry().with_resources([
            ("kubernetes", Resource(contents=definitions, specification=DRAFT202012)),
        ])  # fmt: skip
        for kind, definition in bundle["kinds"].items():
            schema = {"$ref": f"#/definitions/{definition}", "definitions": bundle["definitions"]}
            schema_validators[kind] = Draft202012Validator(schema, registry=registry)
    return schema_validators


def faults(part: dict[str, Any], kubernetes: str, kuberay: str) -> Iterator[str]:
    """Yield what is wrong with an object, with the place of each fault."""
    validator = validators(kubernetes, kuberay).get(part["kind"])
    if validator is None:
        yield f"{part['kind']}: no schema"
        return
    for error in validator.iter_errors(part):
        yield f"{part['kind']} {error.json_path}: {error.message[:200]}"


def _load(name: str) -> dict[str, Any]:
    bundle: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return bundle
