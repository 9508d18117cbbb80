"""Determine the slot of a command's keys in a Redis Cluster, and whether the command writes.

key of a command      its second word; the third of MEMORY, XGROUP and XINFO, which have subcommands; for EVAL,
                      EVALSHA, XREAD and XREADGROUP the word at which their form puts the first key
SCAN                  goes through all masters, one after the other; its cursor says at which it is
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from cluster.store.client.multiplexer import Argument, encode

SLOTS: int = REDIS_CLUSTER_HASH_SLOTS

_WRITING = (
    "DEL HDEL HINCRBY HSET HSETNX INCR PEXPIRE PEXPIREAT RPUSH SADD SET SREM XACK XADD XDEL XGROUP XSETID XTRIM "
    "ZADD ZINCRBY ZREM ZREMRANGEBYSCORE"
)
WRITES = frozenset(_WRITING.split())
"Commands of stores that write; scripts declare it themselves."
_WITHOUT_KEY = "BGREWRITEAOF CLUSTER CONFIG DBSIZE ECHO FLUSHALL INFO PING ROLE SCAN SCRIPT WAIT"
_KEYLESS = frozenset(_WITHOUT_KEY.split())
_WITH_SUBCOMMAND = ("MEMORY", "XGROUP", "XINFO")


def slot_of_key(key: Argument) -> int:
    """Return the slot of a key."""
    return key_slot(key if isinstance(key, bytes) else encode(str(key)))


def slot_of(command: Sequence[Argument]) -> int | None:
    """Return the slot of a command's first key; None when it has no key. The server refuses keys of two slots."""
    key = _key_of(command)
    return None if key is None else slot_of_key(key)


def group_by_slot(names: Sequence[str]) -> list[list[str]]:
    """Return keys in groups that one command may name together."""
    groups: dict[int, list[str]] = {}
    for name in names:
        groups.setdefault(slot_of_key(name), []).append(name)
    return list(groups.values())


def split_cursor(cursor: Argument) -> tuple[int, str]:
    """Split a cursor of SCAN into the number of a master and its own cursor."""
    text = cursor.decode() if isinstance(cursor, bytes) else str(cursor)
    # From the right and with an empty node: the first cursor is a plain 0.
    node, _, master_cursor = text.rpartition("-")
    return int(node or 0), master_cursor


def join_cursor(node: int, master_cursor: bytes, masters: int) -> bytes:
    """Return the cursor after one page: the master's own, the next master's, or `0` behind the last."""
    if master_cursor != b"0":
        return b"%d-%b" % (node, master_cursor)
    return b"%d-0" % (node + 1) if node + 1 < masters else b"0"


def _key_of(command: Sequence[Argument]) -> Argument | None:
    name = command[0]
    if name in ("EVALSHA", "EVAL"):
        # EVAL script numkeys key ...
        return command[3] if command[2] else None
    if name in _KEYLESS or len(command) < 2:
        return None
    if name in ("XREAD", "XREADGROUP"):
        return command[command.index("STREAMS") + 1]
    return command[2 if name in _WITH_SUBCOMMAND else 1]
