"""Unverified users in compacted interactions: an address counts for a few users, however many ids it sends."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

MOST_USERS = 20
"Number of unverified users counted for one address in 30 days, where they are counted."

_LAST_FIELD = r'"_origin":"(?P<origin>[0-9a-f]{16})"\}$'
"`cluster.records.validation.upload.ORIGIN`, which is always written last; the client's fields are before it."


def limit_users_per_address(table: Any) -> Any:
    """Return the table without the rows of unverified users beyond the first `MOST_USERS` of each address.

    Shapes:
        table: any columns with `reader` and `json` among them; returns the same columns
    Cost:
        one pass of a pattern over `json`; Python only for rows of unverified users
    """
    addresses = pc.struct_field(pc.extract_regex(table["json"], _LAST_FIELD), [0])
    strange = pc.indices_nonzero(pc.is_valid(addresses))
    if not len(strange):
        return table
    admitted: defaultdict[str, set[str]] = defaultdict(set)
    dropped = []
    user_keys = table["reader"].take(strange).to_pylist()
    origins = addresses.take(strange).to_pylist()
    for row, user_key, origin in zip(strange.to_pylist(), user_keys, origins, strict=True):
        admitted_users = admitted[origin]
        if user_key not in admitted_users and len(admitted_users) >= MOST_USERS:
            dropped.append(row)
        else:
            admitted_users.add(user_key)
    kept = pc.invert(pc.is_in(pa.array(range(len(table)), pa.int64()), pa.array(dropped, pa.int64())))
    return table.filter(kept)
