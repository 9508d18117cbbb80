"""The meaning of the error replies of Redis.

    LOADING, MASTERDOWN, READONLY, BUSY, CLUSTERDOWN ...   temporarily unavailable -> Unavailable
    READONLY, MASTERDOWN, LOADING                          another server may serve -> also drops the connection
    MOVED, ASK, TRYAGAIN                                   a slot moves or moved   -> the cluster client goes there
    OOM, MISCONF, NOREPLICAS                               refuses writes          -> Unavailable, reads go on
    NOSCRIPT                                               lost a script           -> ScriptMissing, sent again in full
    NOGROUP                                                lost a consumer group   -> NoGroup, created again
    NOAUTH, WRONGPASS, NOPERM                              wrong password          -> Unavailable
    anything else                                          a bug in the caller     -> Fault with the words of Redis

Inside a script, the code comes after the text in Redis 6.2 (`ERR Error running script ... -OOM command`) and
before it in Redis 7, so both places are checked.
"""

from __future__ import annotations

import re

from cluster.errors import Fault, KioskError, Unavailable
from cluster.log import redact

REFUSED = "the store refused a command"
_ARGUMENTS = re.compile(r",? with args beginning with")
_INNER = re.compile(r"^ERR Error running script .*?: -?([A-Z]{2,}) ")

_AWAY = frozenset({"LOADING", "MASTERDOWN", "READONLY", "BUSY", "CLUSTERDOWN", "UNKILLABLE"})
_WRONG_SERVER = frozenset({"READONLY", "MASTERDOWN", "LOADING"})
"Replies of a server that is no master, or not yet: the master may be elsewhere."
_REFUSES_WRITES = {
    "OOM": "the store is out of memory and refuses writes",
    "MISCONF": "the store can't save to its disk and refuses writes",
    "NOREPLICAS": "the store has too few replicas and refuses writes",
}
_REFUSES_US = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})


class ScriptMissing(Fault):
    """The server does not know the script (it restarted)."""

    code = "script_forgotten"


class NoGroup(Fault):
    """The stream or its consumer group is missing."""

    code = "no_group"


class SlotMoved(Unavailable):
    """Another master of the cluster has the slot. Facts: `slot`, `host`, `port`, and `asking` while it moves."""

    code = "slot_moved"


class SlotMigrating(Unavailable):
    """Some keys of the command are still with the former master of their slot, others with the next."""

    code = "slot_moves"


def error_code(reply: Exception) -> str:
    """Return the error code, also when a script wrapped it."""
    text = str(reply)
    inner = _INNER.match(text)
    return inner.group(1) if inner else text.partition(" ")[0]


def is_server_alive(reply: Exception) -> bool:
    """Return whether this error comes from an otherwise working server."""
    return error_code(reply) not in _AWAY


def is_wrong_server(reply: Exception) -> bool:
    """Return whether the connection should be given up, because the master may be another server."""
    return error_code(reply) in _WRONG_SERVER


def error_from_reply(reply: Exception) -> KioskError:
    """Convert an error reply to the project's error class."""
    code = error_code(reply)
    if code in _AWAY:
        return Unavailable(f"the store is not ready ({code.lower()})", retry_after_s=1)
    if code in ("MOVED", "ASK"):
        return _moved(str(reply), asking=code == "ASK")
    if code == "TRYAGAIN":
        return SlotMigrating("the keys are being moved to another server of the store", retry_after_s=1)
    if code in _REFUSES_WRITES:
        return Unavailable(_REFUSES_WRITES[code], retry_after_s=5)
    if code in _REFUSES_US:
        return _with_words(Unavailable, "the store refuses our password or rights", reply, retry_after_s=5)
    if code == "NOSCRIPT":
        return ScriptMissing("script not loaded")
    if code == "NOGROUP":
        return NoGroup("no such consumer group")
    return _with_words(Fault, REFUSED, reply)


def words_of(reply: Exception) -> str:
    """Return the words of an error reply for people: one line of at most 200 characters.

    Redis repeats arguments of an unknown command, which may be a record or a key: they are left out.
    """
    text = _ARGUMENTS.split(str(reply), maxsplit=1)[0]
    return "".join(char if char.isprintable() else " " for char in redact(text))[:200].strip()


def _with_words(kind: type[KioskError], message: str, reply: Exception, **facts: int) -> KioskError:
    words = words_of(reply)
    return kind(f"{message}: {words}" if words else message, reason=words, **facts)


def _moved(text: str, *, asking: bool) -> KioskError:
    # `MOVED 3999 127.0.0.1:6381`; padded, so that a shorter reply is refused below and not here.
    _, slot, place = [*text.split(" "), "", ""][:3]
    # From the right, since an IPv6 address has colons itself.
    host, _, port = place.rpartition(":")
    if not (slot.isdigit() and port.isdigit()):
        return _with_words(Fault, REFUSED, ValueError(text))
    return SlotMoved(
        "the keys are on another server of the store; is it a cluster? then its URL is redis+cluster://",
        retry_after_s=1,
        slot=int(slot),
        host=host.strip("[]"),
        port=int(port),
        asking=asking,
    )
