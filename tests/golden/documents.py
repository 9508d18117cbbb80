"""Documents that follow from the code: OpenAPI, metric names, the snapshot of one recipe."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tests
from actors.models.loading.snapshot import Snapshot
from cluster.artifacts.snapshots import SnapshotStore
from deployments.api.http.openapi import build_openapi
from tests.golden.answers import Recording
from tests.golden.installation import MARKET, Installation, World

_ROOT = Path(tests.__path__[0]).parent
_METRIC = re.compile(r"kiosk_[a-z_]+_[a-z]+")
_WORDING = {"description", "summary", "title", "example", "examples", "operationId"}


def record_documents(recording: Recording, process: Installation) -> None:
    """Record the OpenAPI document: each operation without names of schemas and wording, then all bytes."""
    document = json.loads(json.dumps(build_openapi(process.corner.handler.endpoints, "0.1.0")))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            bare = _bare(operation, document, 0)
            _add(recording, "openapi", f"{method} {path}", json.dumps(bare, sort_keys=True))
    _add(recording, "openapi wording", "whole document", json.dumps(document))


def _bare(value: Any, document: Any, depth: int) -> Any:
    """Put schemas where they are referred to, and leave out what is said in words."""
    if isinstance(value, list):
        return [_bare(item, document, depth) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = document
        for part in value["$ref"].split("/")[1:]:
            target = target[part]
        return "deep" if depth > 8 else _bare(target, document, depth + 1)
    return {
        name: (
            {key: _bare(part, document, depth) for key, part in item.items()}
            if name == "properties"
            else _bare(item, document, depth)
        )
        for name, item in value.items()
        if name not in _WORDING
    }


def record_metric_names(recording: Recording) -> None:
    """Record the names of all metrics in the product's code."""
    names = set()
    for path in _ROOT.rglob("*.py"):
        if "tests" not in path.relative_to(_ROOT).parts and not any(
            part.startswith(".") for part in path.parts
        ):
            names.update(_metrics(path.read_text("utf-8")))
    _add(recording, "metrics", "names", "\n".join(sorted(names)))


def _metrics(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _METRIC.fullmatch(node.value):
            yield node.value


def record_snapshot(recording: Recording, world: World, version: str) -> None:
    """Record facts and arrays of a snapshot: integers by digest, fractions by sums, and the digest of every file.

    The digests of files and the version hold for one kind of processor; sums are compared in six digits.
    """
    folder, manifest = SnapshotStore(world.artifacts).fetch(MARKET, "default", version)
    snapshot = Snapshot.open(folder, manifest)
    _add(recording, "snapshot files", "version", version)
    for entry in sorted(manifest.files, key=lambda entry: entry.name):
        _add(recording, "snapshot files", entry.name, entry.sha256)
        if entry.name.endswith(".npy"):
            array = np.load(folder / entry.name, mmap_mode="r")
            _add(recording, "snapshot arrays", entry.name, _describe(array))
    facts = {name: value for name, value in manifest.facts.items() if name != "version"}
    _add(recording, "snapshot arrays", "facts", json.dumps(facts, sort_keys=True, default=str))
    _add(recording, "snapshot arrays", "parts", " ".join(snapshot.parts))


def _describe(array: Any) -> str:
    shape = f"{array.dtype.str} {array.shape}"
    if array.dtype.kind not in "f":
        return f"{shape} {hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]}"
    numbers = np.asarray(array, np.float64).ravel()
    places = np.cos(np.arange(numbers.size))
    return (
        f"{shape} {np.abs(numbers).sum():.12e} {np.square(numbers).sum():.12e} {(numbers * places).sum():.6e}"
    )


def _add(recording: Recording, family: str, what: str, text: str) -> None:
    recording.add(family, recording.label(family, what), 0, {}, text)
