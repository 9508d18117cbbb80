"""What a command touches: slots, writes, cursors of a walk; and the rights a user of Redis needs for all commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.store import keys
from cluster.store.client.acl import COMMANDS, acl_rules
from cluster.store.client.routing import (
    WRITES,
    group_by_slot,
    join_cursor,
    slot_of,
    slot_of_key,
    split_cursor,
)
from cluster.store.client.script import Script

STORES = Path(__file__).parents[5] / "cluster" / "store"
SCRIPTS = sorted(path.stem for path in (STORES / "scripts").glob("*.lua"))
READ_ONLY = {
    "last_offset", "read_access", "read_bank", "read_changes", "read_cut", "read_experiments",
    "read_revoked", "read_threads",
}  # fmt: skip


def test_the_slot_is_that_of_the_first_key() -> None:
    # The worked example of the Redis Cluster specification.
    assert slot_of(("GET", "123456789")) == 0x31C3
    shop = slot_of_key("shop")
    assert slot_of(("EVALSHA", "ff", 2, "{shop}:a", "{shop}:b", "x")) == shop
    assert slot_of(("XREAD", "COUNT", 1, "BLOCK", 5, "STREAMS", "{shop}:change:user", "0")) == shop
    for command in (("MEMORY", "USAGE"), ("XINFO", "STREAM"), ("XGROUP", "CREATE")):
        assert slot_of((*command, "{shop}:change:user", "workers", "$")) == shop
    assert slot_of(("EVAL", "return 1", 0)) is None
    assert slot_of(("INFO", "memory")) is None
    assert slot_of(("GET", "{shop}:user:\ud800")) == shop


def test_keys_are_grouped_by_slot() -> None:
    names = [keys.intake(app) for app in ("shop", "news", "blog")]
    assert group_by_slot([*names, keys.task("shop", "t1")]) == [
        [names[0], keys.task("shop", "t1")],
        [names[1]],
        [names[2]],
    ]


def test_a_walk_visits_every_master_once() -> None:
    assert split_cursor("0") == (0, "0")
    assert split_cursor(join_cursor(0, b"17", 3)) == (0, "17")
    assert split_cursor(join_cursor(0, b"0", 3)) == (1, "0")
    assert join_cursor(2, b"0", 3) == b"0"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_knows_whether_it_writes(name: str) -> None:
    assert Script.load(name).writes == (name not in READ_ONLY)


def test_the_rights_name_every_command_of_scripts_and_stores_and_no_other() -> None:
    scripts = "".join(path.read_text("utf-8") for path in (STORES / "scripts").glob("*.lua"))
    used = set(re.findall(r"redis\.p?call\('([A-Z]+)'", scripts))
    for path in STORES.rglob("*.py"):
        if path.name not in ("acl.py", "error_replies.py", "routing.py", "script.py"):
            used |= set(re.findall(r'(?:\(|_act\()\s*"([A-Z]{3,})"[,)]', path.read_text("utf-8")))
    used -= {"AUTH", "COUNT", "ENTRIESADDED", "GROUP", "STREAMS"}
    allowed = {command.partition("|")[0].upper() for group in COMMANDS.values() for command in group}
    assert used - allowed == set()
    # redis-py asks these; `kiosk doctor` asks CONFIG GET.
    assert allowed - used <= {"CLUSTER", "COMMAND", "CONFIG"}
    assert acl_rules()[:4] == ["~kiosk:*", "~{*}:*", "resetchannels", "-@all"]


def test_plain_writes_wait_for_replicas_and_reads_do_not() -> None:
    assert {"HSET", "XADD", "DEL"} <= WRITES
    assert not {"GET", "HGETALL", "XRANGE", "SCAN"} & WRITES


def test_the_guide_shows_the_rights_as_they_are() -> None:
    page = (STORES.parents[1] / "docs" / "guides" / "redis.md").read_text("utf-8")
    assert " ".join(acl_rules()) in " ".join(page.split())
    for about, group in COMMANDS.items():
        shown = ", ".join("`" + command.replace("|", "\\|") + "`" for command in group)
        assert f"| {about} | {shown} |" in page
