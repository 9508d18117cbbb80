"""The Lua texts: all used, all described, none that names a key of its own."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.store.client import script

STORE = Path(script.__file__).parents[1]
SCRIPTS = sorted(STORE.glob("scripts/*.lua"))
PYTHON = "\n".join(path.read_text() for path in STORE.rglob("*.py"))


def test_every_script_is_used_and_describes_keys_and_arguments() -> None:
    assert len(SCRIPTS) > 50
    for path in SCRIPTS:
        assert f'Script.load("{path.stem}")' in PYTHON, path.name
        head = [line for line in path.read_text().splitlines() if line.startswith("--")]
        assert any(line.startswith("-- KEYS") for line in head), path.name


def test_no_script_touches_a_key_it_was_not_given() -> None:
    first_argument = re.compile(r"redis\.p?call\('(\w+)', ([^,)]+)")
    given = re.compile(
        r"^(KEYS\[.+|intake|task|types|seen|open|ids|by_type|links|list|log|theirs|visitors|key)$"
    )
    for path in SCRIPTS:
        for command, argument in first_argument.findall(path.read_text()):
            if command not in ("XREADGROUP", "XGROUP", "XINFO"):
                assert given.match(argument), (path.name, command, argument)


def test_a_digest_is_the_one_redis_computes() -> None:
    # From the documentation of SCRIPT LOAD and EVALSHA: the SHA-1 of the text.
    loaded = script.Script.load("release")
    assert re.fullmatch("[0-9a-f]{40}", loaded.digest)
    assert "DEL" in loaded.text
