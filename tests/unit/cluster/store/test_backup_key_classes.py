"""Every Redis key has one class for backups."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

from cluster.store import keys
from cluster.store.backup_key_classes import CLASSES, control_keys, key_class


def test_every_key_function_has_exactly_one_class() -> None:
    functions = {
        name
        for name, function in inspect.getmembers(keys, inspect.isfunction)
        if function.__module__ == keys.__name__ and not name.startswith("_")
    }
    classed = Counter(name for names in CLASSES.values() for name in names)
    assert set(classed) == functions, (
        "say in cluster/store/backup_key_classes.py what a backup does with a new key"
    )
    assert max(classed.values()) == 1


def test_a_key_is_recognised_whatever_its_ids_contain() -> None:
    for kind, names in CLASSES.items():
        for name in names:
            function = getattr(keys, name)
            parameters = inspect.signature(function).parameters
            given = [
                {"noun": "product", "day": 7, "minute": 7, "app": "shop"}.get(parameter, "a:b{}:limit:c\n")
                for parameter in parameters
            ]
            assert key_class(function(*given)) == kind, function(*given)


@pytest.mark.parametrize("key", ["kiosk:{access}:new-thing", "{shop}:new-thing", "{shop}:new:user:1"])
def test_a_key_of_a_newer_release_is_backed_up(key: str) -> None:
    assert key_class(key) == "bulk"


def test_control_keys_are_listed_without_a_scan() -> None:
    assert keys.access_app() in control_keys(None)
    assert keys.intake("shop") in control_keys("shop")
    assert keys.attribute_types("shop", "user") in control_keys("shop")
    for app in (None, "shop"):
        assert {key_class(key) for key in control_keys(app)} == {"control"}
    listed = len(control_keys("shop")) + len(control_keys(None))
    assert listed == len(CLASSES["control"]) + 2 * 2  # two of them for each of three nouns
