"""Define the minimal rights that an ACL user of Redis needs for Kiosk.

Scripts call commands as the user who runs them, so their commands are named too.
"""

from __future__ import annotations

KEYS = ("kiosk:*", "{*}:*")
"Patterns of all keys; every key of an app begins with `{app}:`."

_RECORDS = "get mget set del exists pexpire expire pttl ttl incr incrby scan type pexpireat"
_HASHES = "hget hset hsetnx hdel hmget hgetall hexists hlen hkeys hscan hincrby"
_LISTS = "lpush rpush lrange ltrim llen"
_SETS = "sadd srem scard smembers sismember smismember sscan"
_SORTED_SETS = (
    "zadd zrem zcard zscore zincrby zrange zrangebyscore zrangebylex zrevrange zremrangebyscore zscan "
    "zrandmember"
)
_STREAMS = (
    "xadd xdel xtrim xlen xrange xrevrange xread xreadgroup xgroup xack xautoclaim xpending xinfo xsetid"
)
_SCRIPTS = "eval evalsha"
_SERVER = "ping select info bgrewriteaof memory|usage config|get"
_TOPOLOGY = "role wait cluster|slots command asking"

COMMANDS: dict[str, tuple[str, ...]] = {
    "strings and keys": tuple(_RECORDS.split()),
    "hashes": tuple(_HASHES.split()),
    "lists": tuple(_LISTS.split()),
    "sets": tuple(_SETS.split()),
    "sorted sets": tuple(_SORTED_SETS.split()),
    "streams": tuple(_STREAMS.split()),
    "scripts": tuple(_SCRIPTS.split()),
    "the server": tuple(_SERVER.split()),
    "Sentinel, Cluster, WAIT": tuple(_TOPOLOGY.split()),
}
"Commands by purpose. `config|get` serves `kiosk doctor` only."


def acl_rules() -> list[str]:
    """Return the words behind `ACL SETUSER <name> on ><password>`."""
    allowed = [f"+{command}" for group in COMMANDS.values() for command in group]
    return [*(f"~{pattern}" for pattern in KEYS), "resetchannels", "-@all", *allowed]
