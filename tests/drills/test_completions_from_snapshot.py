"""After `kiosk train --promote` the completions of a running installation are pages of the snapshot, in every replica.

Run with `-m drill -s` for the figures. About two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.benchmarks.stack import Stack
from tests.drills.engines import APP, installed, replicas, say, seed

pytestmark = [pytest.mark.drill, pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(400)]

_SETTLE_S = 35
_FILES = "extra-completions"


def test_completions_are_pages_of_the_snapshot_that_was_promoted() -> None:
    with installed() as running:
        seed(running, 2_000, 4_000)
        before = texts(running, "stel ketle")
        assert before
        assert mapped(running) == []
        time.sleep(_SETTLE_S)
        trained = say(running, "train", APP, "--recipe", "fast", "--promote")
        assert trained["promoted"], trained
        until(lambda: bool(texts(running, "stel ketle")) and mapped(running) == [True], 30)
        for completions in (before, texts(running, "stel ketle")):
            assert {text.rpartition(" ")[0] for text in completions} == {"Steel kettle"}
        took_s = uploaded(running, "new-1", "Zephyr lantern")
        print(f"\na new title was completed after {took_s:.2f} s", end="")
        assert took_s < 1.0
        took_s = uploaded(running, "new-1", "Quince basket")
        assert texts(running, "zephyr la") == []
        (replica,) = replicas(running)
        replica.kill()
        until(lambda: answers(running) and mapped(running) == [True], 90)
        assert texts(running, "zephyr la") == []
        assert texts(running, "quicne bas") == ["Quince basket"]
        print(f", a changed one after {took_s:.2f} s")


def texts(stack: Stack, typed: str) -> list[str]:
    """Complete titles."""
    reply: Any = stack.call("POST", "/v1/search/autocomplete", {"q": typed})
    return [entry["text"] for entry in reply["data"]["completions"]["title"]]


def answers(stack: Stack) -> bool:
    """Is anybody there to complete?"""
    try:
        return texts(stack, "quicne bas") == ["Quince basket"]
    except OSError:
        return False


def mapped(stack: Stack) -> list[bool]:
    """Say for every replica that holds a snapshot whether it maps the completions of it."""
    is_mapped = []
    for replica in replicas(stack):
        try:
            paths = [page.path for page in replica.memory_maps()]
        except psutil.Error:
            continue
        if any("/snapshots/" in path for path in paths):
            is_mapped.append(any(_FILES in path for path in paths))
    return is_mapped


def uploaded(stack: Stack, product_id: str, title: str) -> float:
    """Upload a title and say after how many seconds it was completed."""
    began = time.monotonic()
    stack.call("POST", "/v1/products", {"data": [{"product_id": product_id, "title": title}]})
    until(lambda: title in texts(stack, title), 10)
    return time.monotonic() - began


def until(true: Callable[[], bool], within_s: float) -> None:
    """Wait for something to become so."""
    ends = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < ends, "did not happen in time"
        time.sleep(0.02)
