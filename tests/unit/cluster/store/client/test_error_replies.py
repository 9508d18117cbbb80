"""What error replies mean."""

from __future__ import annotations

import hiredis
import pytest

from cluster.errors import Fault, KioskError, Unavailable
from cluster.store.client.error_replies import NoGroup, ScriptMissing, error_from_reply, is_server_alive

IN_SCRIPT = "ERR Error running script (call to f_0123): @user_script:7: @user_script: 7: "


@pytest.mark.parametrize(
    ("text", "kind", "alive"),
    [
        ("LOADING Redis is loading the dataset in memory", Unavailable, False),
        ("MASTERDOWN Link with MASTER is down", Unavailable, False),
        ("READONLY You can't write against a read only replica.", Unavailable, False),
        ("BUSY Redis is busy running a script.", Unavailable, False),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable, True),
        (IN_SCRIPT + "-OOM command not allowed when used memory > 'maxmemory'.", Unavailable, True),
        (IN_SCRIPT + "-MISCONF Redis is configured to save RDB snapshots", Unavailable, True),
        ("MISCONF Errors writing to the AOF file: No space left on device", Unavailable, True),
        ("NOAUTH Authentication required.", Unavailable, True),
        ("WRONGPASS invalid username-password pair", Unavailable, True),
        ("NOSCRIPT No matching script. Please use EVAL.", ScriptMissing, True),
        ("NOGROUP No such key '{a}:intake'", NoGroup, True),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Fault, True),
        ("ERR unknown command", Fault, True),
        (IN_SCRIPT + "Wrong number of args calling Redis command From Lua script", Fault, True),
        ("", Fault, True),
    ],
)
def test_an_error_reply_becomes_the_error_callers_know(
    text: str, kind: type[KioskError], alive: bool
) -> None:
    reply = hiredis.ReplyError(text)
    assert type(error_from_reply(reply)) is kind
    assert is_server_alive(reply) is alive


def test_a_full_disk_and_a_full_memory_say_so() -> None:
    full = error_from_reply(
        hiredis.ReplyError(IN_SCRIPT + "-MISCONF Errors writing to the AOF file: No space left")
    )
    assert "disk" in full.message
    assert full.facts["retry_after_s"] > 0
    assert "memory" in error_from_reply(hiredis.ReplyError("OOM command not allowed")).message


def test_a_fault_carries_the_words_of_redis_without_arguments_and_secrets() -> None:
    words = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
    fault = error_from_reply(hiredis.ReplyError(words))
    assert fault.message == f"the store refused a command: {words}"
    assert fault.facts["reason"] == words
    refused = error_from_reply(
        hiredis.ReplyError("NOPERM User kiosk has no permissions to run the 'xsetid' command")
    )
    assert "'xsetid'" in refused.message
    secret = "ksk_pro_0123456789abcdefghij"
    for text in (
        f"ERR unknown command 'HPTTL', with args beginning with: '{{shop}}:user:u1' '{secret}' 'mail@shop.example'",
        f"ERR unknown subcommand {secret}",
        "ERR password=hunter2 is wrong",
        "ERR one\r\ntwo\x1b[31m" + "x" * 500,
    ):
        message = error_from_reply(hiredis.ReplyError(text)).message
        assert not any(part in message for part in (secret, "mail@", "u1", "hunter2", "\x1b", "\n"))
        assert len(message) < 250
    assert error_from_reply(hiredis.ReplyError("")).message == "the store refused a command"
