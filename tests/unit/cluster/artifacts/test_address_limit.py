"""An address that invents ids counts for few people, in reports as anywhere else."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from cluster.artifacts.address_limit import MOST_USERS, limit_users_per_address


def _table(*rows: tuple[str, dict[str, object]], kind: pa.DataType) -> pa.Table:
    user_keys = pa.array([user_key for user_key, _ in rows], pa.string())
    jsons = pa.array([orjson.dumps(item) for _, item in rows], pa.binary()).cast(kind)
    return pa.table({"reader": user_keys, "at_ms": pa.array(range(len(rows)), pa.int64()), "json": jsons})


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_an_address_stands_for_few_readers(kind: pa.DataType) -> None:
    checkout = {"type": "checkout", "context": {"custom_context": {"_origin": "f" * 16}}}
    visitors = [(f"a:{n}", {**checkout, "_origin": "a" * 16}) for n in range(50)]
    again = [("a:3", {**checkout, "_origin": "a" * 16})]
    other = [(f"a:x{n}", {**checkout, "_origin": "b" * 16}) for n in range(5)]
    proven = [(f"u:{n}", checkout) for n in range(50)]
    kept = limit_users_per_address(_table(*visitors, *again, *other, *proven, kind=kind))[
        "reader"
    ].to_pylist()
    assert [user_key for user_key in kept if user_key.startswith("u:")] == [f"u:{n}" for n in range(50)]
    assert [user_key for user_key in kept if user_key.startswith("a:x")] == [f"a:x{n}" for n in range(5)]
    assert kept[: MOST_USERS + 1] == [*(f"a:{n}" for n in range(MOST_USERS)), "a:3"]
    assert len(kept) == MOST_USERS + 1 + 5 + 50


def test_a_table_without_strangers_is_the_same() -> None:
    table = _table(("u:1", {"type": "click"}), kind=pa.binary())
    assert limit_users_per_address(table) is table
    assert limit_users_per_address(table.slice(0, 0)).num_rows == 0
