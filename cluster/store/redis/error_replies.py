"""What an error reply of Redis means to us.

    LOADING, MASTERDOWN, READONLY, BUSY, CLUSTERDOWN ...   away for a moment       -> Unavailable
    OOM, MISCONF, NOREPLICAS                               refuses writes          -> Unavailable, reads go on
    NOSCRIPT                                               forgot a script         -> Forgotten, sent again in full
    NOGROUP                                                lost a consumer group   -> NoGroup, made again
    NOAUTH, WRONGPASS, NOPERM                              our password is wrong   -> Unavailable
    anything else                                          a mistake of ours       -> Fault

Inside a script the code stands behind the text of Redis 6.2 (`ERR Error running script ... -OOM command`) or in
front of it (Redis 7), so both places are looked at.
"""

from __future__ import annotations

import re

import hiredis

from cluster.errors import Fault, HouseError, Unavailable

_INNER = re.compile(r"^ERR Error running script .*?: -?([A-Z]{2,}) ")

_AWAY = frozenset({"LOADING", "MASTERDOWN", "READONLY", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE"})
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
    """The stream or its consumer group is not there."""

    code = "no_group"


def error_code(reply: hiredis.ReplyError) -> str:
    """Name the error Redis means, also when a script wrapped it."""
    text = str(reply)
    inner = _INNER.match(text)
    return inner.group(1) if inner else text.partition(" ")[0]


def is_server_alive(reply: hiredis.ReplyError) -> bool:
    """Does this error come from a server that otherwise works?"""
    return error_code(reply) not in _AWAY


def error_from_reply(reply: hiredis.ReplyError) -> HouseError:
    """Turn an error reply into the error our callers know."""
    code = error_code(reply)
    if code in _AWAY:
        return Unavailable(f"the store is not ready ({code.lower()})", retry_after_s=1)
    if code in _REFUSES_WRITES:
        return Unavailable(_REFUSES_WRITES[code], retry_after_s=5)
    if code in _REFUSES_US:
        return Unavailable("the store refuses our password or rights", retry_after_s=5)
    if code == "NOSCRIPT":
        return ScriptMissing("script not loaded")
    if code == "NOGROUP":
        return NoGroup("no such consumer group")
    return Fault("the store refused a command", reason=str(reply)[:200])
