"""Turn a batch of accepted records into rows to write: pure functions; the same input gives the same rows.

The payload is parsed once. Users need only their id; products also their type and a vector. A record that makes a
step fail is rejected with its reason; the others continue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from actors.language.hashing_embedder import Embedder, embedding_text
from actors.retrieval.html_text import text_from_html
from cluster.errors import Fault
from cluster.records.intake import Noun
from cluster.store.data.intake import RecordPut

# Characters of a page that are parsed, and those kept: the beginning says what it is about.
_HTML_READ = 50_000
_HTML_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """The rows of one batch."""

    records: tuple[RecordPut, ...]
    change_payload: bytes
    "JSON array of the same records in the same order."
    vectors: bytes
    """Shapes: float16 [n, d] little endian, one row a record; empty for users."""
    embedder: str
    failed: tuple[str, ...]
    "One message per rejected record, in the grammar of uploads."
    set_aside: tuple[bytes, ...] = ()
    "The rejected records, in the same order."


def prepare_batch(noun: Noun, payload: bytes, embedder: Embedder) -> PreparedBatch:
    """Convert the JSON array of a `put` to records, change-log entry and vectors.

    Errors:
        Fault: the payload is no JSON array
    """
    parsed = _parse(payload)
    failed: dict[int, str] = {}
    rows: list[tuple[int, Any, RecordPut]] = []
    for at, record in enumerate(parsed):
        try:
            rows.append((at, record, _build_record(noun, record)))
        except (KeyError, TypeError, ValueError) as error:
            failed[at] = _reason(error)
    vectors = b""
    if noun == "product" and rows:
        made = _embed(rows, embedder, failed)
        # Vectors belong to records by position: one without a vector would shift all behind it.
        rows = [row for row in rows if row[0] not in failed]
        # Little-endian whatever machine reads it; float16 halves what Redis has to keep.
        vectors = np.concatenate(made).astype("<f2").tobytes() if made else b""
    return PreparedBatch(
        records=tuple(put for _, _, put in rows),
        change_payload=b"[" + b",".join(put.json for _, _, put in rows) + b"]",
        vectors=vectors,
        embedder=embedder.version if noun == "product" else "",
        failed=tuple(_error_message(at, reason) for at, reason in sorted(failed.items())),
        set_aside=tuple(orjson.dumps(parsed[at]) for at in sorted(failed)),
    )


def parse_removed_ids(payload: bytes) -> list[str]:
    """Return the ids of a `remove`.

    Errors:
        Fault: the payload is no JSON array of strings
    """
    record_ids = _parse(payload)
    if not all(isinstance(record_id, str) for record_id in record_ids):
        raise Fault("removal is not a JSON array of ids")
    return record_ids


def build_product_text(product: dict[str, Any]) -> str:
    """Return the text that describes a product; for one that has only `html`, its plain text."""
    html = product.get("html")
    if html and not product.get("description") and not product.get("short_description"):
        return embedding_text({**product, "description": text_from_html(html[:_HTML_READ], _HTML_KEPT)})
    return embedding_text(product)


def _parse(payload: bytes) -> list[Any]:
    try:
        parsed = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise Fault("batch is not JSON") from error
    if not isinstance(parsed, list):
        raise Fault("batch is not a JSON array")
    return parsed


def _build_record(noun: Noun, record: Any) -> RecordPut:
    record_id = record[noun + "_id"]
    kind = (record.get("type") or None) if noun == "product" else None
    if not isinstance(record_id, str) or not isinstance(kind, (str, type(None))):
        raise TypeError("id or type is no string")
    return RecordPut(record_id, orjson.dumps(record), kind)


def _embed(
    rows: Sequence[tuple[int, Any, RecordPut]], embedder: Embedder, failed: dict[int, str]
) -> list[Any]:
    """Embed all texts at once; after a failure one by one, so that only failing ones are rejected."""
    try:
        return [_vectors(embedder, [build_product_text(record) for _, record, _ in rows])]
    except Exception:  # noqa: BLE001  whatever a record does to the embedder, its neighbours go on
        made: list[Any] = []
    for at, record, _ in rows:
        try:
            made.append(_vectors(embedder, [build_product_text(record)]))
        except Exception as error:  # noqa: BLE001
            failed[at] = _reason(error)
    return made


def _vectors(embedder: Embedder, texts: Sequence[str]) -> Any:
    vectors = embedder.embed(texts)
    # A NaN would get into the index, and into every score that is compared with it.
    if vectors.shape != (len(texts), embedder.dimensions) or not np.isfinite(vectors).all():
        raise ValueError("embedding has the wrong shape or is not finite")
    return vectors


def _reason(error: Exception) -> str:
    return type(error).__name__


def _error_message(at: int, reason: str) -> str:
    """Return a message in the grammar that clients parse; it does not repeat the record's content."""
    return f"data.{at} is invalid. The record can not be processed ({reason})."
