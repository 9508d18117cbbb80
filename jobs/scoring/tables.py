"""Tables of batch scoring: lists of users to score, and their recommendations, long or nested.

.parquet  .csv  .jsonl    columns or fields of these names; others are ignored
.txt                      one user id per line
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.errors import Invalid

CHUNK: Final = 200
"Number of users in a chunk, which is repeated as a whole if its worker is lost."
_COLUMNS: Final = ("user_id", "anonymous_id")
_LONGEST: Final = {"user_id": 512, "anonymous_id": 1024}


@dataclass(frozen=True, slots=True)
class UserKey:
    """The recipient: a user, an anonymous user, or a user with recent actions under an anonymous id."""

    user_id: str = ""
    anonymous_id: str = ""


def read_users(users: str | Path | pl.DataFrame | Sequence[str]) -> Iterator[list[UserKey]]:
    """Yield a list of users (a file, a frame, or user ids) in chunks, in its order.

    Errors:
        Invalid: the file or the columns do not exist, or a row has no id
    """
    rows = _read_rows(users)
    at = 0
    while chunk := list(islice(rows, CHUNK)):
        yield [_key_from_row(row, at + place) for place, row in enumerate(chunk, 1)]
        at += len(chunk)


def count_users(users: str | Path | pl.DataFrame | Sequence[str]) -> int:
    """Return the number of users if it is cheap to count, else 0."""
    if isinstance(users, str | Path):
        path = Path(users)
        if path.suffix.lower() != ".parquet" or not path.is_file():
            return 0
        # Parquet notes the number of its rows; in the other formats it takes a whole read.
        with _name_file_in_errors(path), pq.ParquetFile(path) as file:
            return int(file.metadata.num_rows)
    return len(users)


def _read_rows(users: str | Path | pl.DataFrame | Sequence[str]) -> Iterator[Mapping[str, Any]]:
    if isinstance(users, pl.DataFrame):
        _check_columns(users.columns, "the frame")
        return users.select([name for name in _COLUMNS if name in users.columns]).iter_rows(named=True)
    if not isinstance(users, str | Path):
        return iter([{"user_id": user_id} for user_id in users])
    path = Path(users)
    if not path.is_file():
        raise Invalid(f"there is no file {path}")
    read_formats = {
        ".parquet": _read_parquet,
        ".csv": _read_csv,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
        ".txt": _read_lines,
    }
    read_format = read_formats.get(path.suffix.lower())
    if read_format is None:
        raise Invalid(f"{path.name} does not say its format; end it with {', '.join(read_formats)}")
    return read_format(path)


def _read_parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    with _name_file_in_errors(path), pq.ParquetFile(path) as file:
        _check_columns(file.schema_arrow.names, path.name)
        names = [name for name in _COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(CHUNK * 10, columns=names):
            yield from batch.to_pylist()


def _read_csv(path: Path) -> Iterator[Mapping[str, Any]]:
    with _name_file_in_errors(path), path.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.DictReader(stream)
        _check_columns(rows.fieldnames or (), path.name)
        yield from rows


def _read_jsonl(path: Path) -> Iterator[Mapping[str, Any]]:
    with _name_file_in_errors(path), path.open("rb") as stream:
        for line in stream:
            if line.strip():
                row = orjson.loads(line)
                yield row if isinstance(row, dict) else {}


def _read_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with _name_file_in_errors(path), path.open(encoding="utf-8-sig") as stream:
        for line in stream:
            if line.strip():
                yield {"user_id": line.rstrip("\r\n")}


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        raise Invalid(f"{path.name} can't be read: {error}") from error


def _check_columns(names: Iterable[str], where: str) -> None:
    given = list(names)
    if not set(_COLUMNS) & set(given):
        raise Invalid(
            f"{where} has no column user_id or anonymous_id; there are: {', '.join(given) or 'none'}"
        )


def _key_from_row(row: Mapping[str, Any], at: int) -> UserKey:
    ids = []
    for name in _COLUMNS:
        value = row.get(name)
        if value is None or value == "":
            ids.append("")
        # A number is a text in CSV and an integer in Parquet; a bool is an int in Python, but no id.
        elif isinstance(value, str | int) and not isinstance(value, bool):
            ids.append(str(value))
        else:
            raise Invalid(f"row {at}: {name} is {value!r}; ids are texts")
        if len(ids[-1]) > _LONGEST[name]:
            raise Invalid(f"row {at}: {name} is longer than {_LONGEST[name]} characters")
    if not any(ids):
        raise Invalid(f"row {at} names neither a user_id nor an anonymous_id")
    return UserKey(*ids)


LONG: Final = pa.schema(
    [
        ("user_id", pa.string()),
        ("anonymous_id", pa.string()),
        ("rank", pa.int32()),
        ("product_id", pa.string()),
        ("score", pa.float64()),
        ("served_by", pa.string()),
    ]
)
"`rank` begins at 1; `score` is `_personalization_score`; `served_by` names the fallback level."

NESTED: Final = pa.schema(
    [
        ("user_id", pa.string()),
        ("anonymous_id", pa.string()),
        ("served_by", pa.string()),
        ("products", pa.list_(pa.struct([("product_id", pa.string()), ("score", pa.float64())]))),
    ]
)


@dataclass(frozen=True, slots=True)
class UserList:
    """The recommendations of one user, best first."""

    user: UserKey
    served_by: str
    product_ids: tuple[str, ...]
    scores: tuple[float, ...]


def table_from_lists(lists: Sequence[UserList], *, nested: bool) -> Any:
    """Return the recommendations of users as a table."""
    rows: list[dict[str, Any]]
    if nested:
        rows = [
            {
                **_user_ids(user_list.user),
                "served_by": user_list.served_by,
                "products": [
                    {"product_id": product_id, "score": score}
                    for product_id, score in zip(user_list.product_ids, user_list.scores, strict=True)
                ],
            }
            for user_list in lists
        ]
        return pa.Table.from_pylist(rows, schema=NESTED)
    rows = [
        {
            **_user_ids(user_list.user),
            "rank": rank,
            "product_id": product_id,
            "score": score,
            "served_by": user_list.served_by,
        }
        for user_list in lists
        for rank, (product_id, score) in enumerate(
            zip(user_list.product_ids, user_list.scores, strict=True), 1
        )
    ]
    return pa.Table.from_pylist(rows, schema=LONG)


def _user_ids(user: UserKey) -> dict[str, str | None]:
    return {"user_id": user.user_id or None, "anonymous_id": user.anonymous_id or None}
