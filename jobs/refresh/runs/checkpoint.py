"""Results of a run's stages in the artifact store, from which the next attempt continues.

    runs/<app>/<run>/data.arrow       the training data, as arrays (Arrow IPC)
    runs/<app>/<run>/<name>.json      the plan, the report
    runs/<app>/<run>/<name>.npz       the state of a long training, after an epoch

Each file begins with its SHA-256, or with its MAC in an artifact store with a signer. A damaged, foreign or missing
file reads as None, and the worker repeats the stage. No file is pickled.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import structlog

from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.vocabulary import Vocabulary
from cluster.artifacts.app_storage import RUNS
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import NotFound
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.runs.training_source import TrainingSource

FOLDER = RUNS
_COLUMNS = ("reader", "item", "at_s", "weight", "basket", "kind")
_DIGEST = 64
_FACTS = "facts of the state"


class CheckpointStore:
    """The checkpoints of one run in the artifact store."""

    def __init__(self, artifacts: ArtifactStore, app_id: str, run_id: str, folder: str = FOLDER) -> None:
        self._artifacts = artifacts
        self._folder = f"{folder}/{app_id}/{run_id}"

    def put(self, name: str, value: dict[str, Any]) -> None:
        """Write a small result; the order of its fields is kept, because components are summed in this order."""
        self._write(f"{name}.json", json.dumps(value).encode())

    def get(self, name: str) -> dict[str, Any] | None:
        """Return a small result, None without a valid file."""
        body = self._read(f"{name}.json")
        facts: dict[str, Any] | None = None if body is None else json.loads(body)
        return facts

    def put_state(self, name: str, state: ModelState) -> None:
        """Write the arrays and facts of a training under way, in place of an earlier state."""
        body = io.BytesIO()
        facts = np.frombuffer(json.dumps(state.facts).encode(), np.uint8)
        # Facts as bytes beside the arrays: one file is there whole or not at all.
        np.savez(body, allow_pickle=False, **{_FACTS: facts}, **state.arrays)
        self._write(f"{name}.npz", body.getvalue())

    def get_state(self, name: str) -> ModelState | None:
        """Return the state of a training under way, None without a valid file."""
        body = self._read(f"{name}.npz")
        if body is None:
            return None
        with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
            facts = json.loads(arrays[_FACTS].tobytes())
            return ModelState({key: arrays[key] for key in arrays.files if key != _FACTS}, facts)

    def put_source(self, source: TrainingSource) -> TrainingSource:
        """Write the data, so that all attempts train on the same; return it as later attempts read it."""
        body = bytes_from_source(source)
        self._write("data.arrow", body)
        # The first attempt too trains on what it stored: vectors are rounded to float16 there.
        return source_from_bytes(body)

    def source(self) -> TrainingSource | None:
        """Return the data, None without a valid file."""
        body = self._read("data.arrow")
        try:
            return None if body is None else source_from_bytes(body)
        except (LookupError, TypeError, ValueError, pa.ArrowException) as error:
            # a file in the format of another release counts as missing
            structlog.get_logger().warning("checkpoint_passed_over", folder=self._folder, reason=repr(error))
            return None

    def delete_source(self) -> bool:
        """Delete only the data; return False if there was none."""
        return self._artifacts.remove(f"{self._folder}/data.arrow")

    def clear(self) -> int:
        """Delete all files; return their number."""
        return sum(self._artifacts.remove(entry.path) for entry in self._artifacts.entries(self._folder))

    def _write(self, name: str, body: bytes) -> None:
        path = f"{self._folder}/{name}"
        # With a signer the digest covers the path: a checkpoint of another run under this name is refused.
        self._artifacts.write(path, self._artifacts.digest(path, body) + body)

    def _read(self, name: str) -> bytes | None:
        path = f"{self._folder}/{name}"
        try:
            data = self._artifacts.read(path)
        except NotFound:
            return None
        body = data[_DIGEST:]
        return body if self._artifacts.is_digest(path, body, data[:_DIGEST]) else None


class StoredProgress:
    """Progress of the trainings of one run, with their states in its checkpoints."""

    def __init__(self, checkpoints: CheckpointStore, show: Callable[[str], None]) -> None:
        self._checkpoints = checkpoints
        self._show = show

    def show(self, text: str) -> None:
        self._show(text)

    def load(self, name: str) -> ModelState | None:
        return self._checkpoints.get_state(name)

    def store(self, name: str, state: ModelState) -> None:
        self._checkpoints.put_state(name, state)


def bytes_from_source(source: TrainingSource) -> bytes:
    """Return a source as one Arrow stream: interactions, ids, content, and the fields of the autocomplete index."""
    data = source.data
    facts = {
        "kinds": list(data.kinds),
        "clock": data.clock,
        "dropped": data.dropped,
        "offsets": dict(source.offsets),
        "embedder": source.embedder,
        "products": source.products,
        "damaged": list(source.damaged),
        "texts": bool(source.texts),
        "erasures": source.erasures,
    }
    rows = pa.table({name: getattr(data, name) for name in _COLUMNS})
    users: dict[str, Any] = {"name": data.readers.names}
    if data.profiles is not None:
        facts["profiles"] = [list(data.profiles.fields), [list(values) for values in data.profiles.values]]
        users |= {f"profile {at}": column for at, column in enumerate(data.profiles.codes.T)}
    tables = [rows, pa.table(users), pa.table({"name": data.items.names})]
    if data.content is not None:
        content = data.content.toarray() if sp.issparse(data.content) else data.content
        # float16, as in the segments: half the bytes
        flat = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(2 * content.shape[1]),
            len(content),
            [None, pa.py_buffer(content.astype("<f2").tobytes())],
        )
        tables.append(pa.table({"vector": flat}))
    if source.texts:
        tables.append(pa.table({"text": pa.array(source.texts, pa.large_binary())}))
    sink = pa.BufferOutputStream()
    # Each part has its length in front, as Arrow streams do not say where they end.
    sink.write(len(head := json.dumps(facts, sort_keys=True).encode()).to_bytes(8, "little") + head)
    for table in tables:
        part = pa.BufferOutputStream()
        with pa.ipc.new_stream(part, table.schema) as writer:
            writer.write_table(table)
        body = part.getvalue()
        sink.write(body.size.to_bytes(8, "little"))
        sink.write(body)
    return bytes(sink.getvalue())


def source_from_bytes(body: bytes) -> TrainingSource:
    """Return the source from the result of `bytes_from_source`; equal bytes give equal arrays."""
    parts: list[Any] = []
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 8], "little")
        # Slices share the bytes: a large source is not copied to be read.
        parts.append(pa.py_buffer(body).slice(at + 8, size))
        at += 8 + size
    facts = json.loads(parts[0].to_pybytes())
    rows, users, items, *rest = (pa.ipc.open_stream(part).read_all() for part in parts[1:])
    texts = tuple(rest.pop()["text"].to_pylist()) if facts.get("texts") else ()
    content = None
    if rest:
        column = rest[0]["vector"].combine_chunks()
        width = column.type.byte_width // 2
        halves = np.frombuffer(column.buffers()[1], "<f2", len(column) * width)
        # Rounded to half precision, the vectors no longer have the length 1.
        content = _normalize_rows(halves.reshape(len(column), width).astype(np.float32))
    data = Interactions(
        **{name: rows[name].to_numpy() for name in _COLUMNS},
        readers=Vocabulary(users["name"].combine_chunks()),
        items=Vocabulary(items["name"].combine_chunks()),
        kinds=tuple(facts["kinds"]),
        clock=facts["clock"],
        dropped=facts["dropped"],
        content=content,
        profiles=_read_profiles(facts, users),
    )
    return TrainingSource(
        data,
        facts["offsets"],
        facts["embedder"],
        facts["products"],
        tuple(facts["damaged"]),
        texts,
        erasures=facts.get("erasures", 0),
    )


def _read_profiles(facts: dict[str, Any], users: Any) -> Profiles | None:
    if "profiles" not in facts:
        return None
    fields, values = facts["profiles"]
    columns = [users[f"profile {at}"].to_numpy() for at in range(len(fields))]
    codes = np.array(columns, np.int32).T if columns else np.zeros((len(users), 0), np.int32)
    return Profiles(tuple(fields), tuple(map(tuple, values)), np.ascontiguousarray(codes))


def _normalize_rows(matrix: Any) -> Any:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
