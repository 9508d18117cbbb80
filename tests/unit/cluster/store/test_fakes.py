"""The stores in memory answer each public method themselves: none falls through to the code over Redis."""

from __future__ import annotations

from dataclasses import fields
from inspect import isfunction

import pytest

from cluster.store.stores import Stores
from tests.fakes.stores.memory import memory_stores


@pytest.mark.parametrize("name", [field.name for field in fields(Stores)])
def test_a_store_in_memory_overrides_every_public_method_of_its_store(name: str) -> None:
    fake = type(getattr(memory_stores(), name))
    store = fake.__mro__[1]
    public = {
        method for method in dir(store) if not method.startswith("_") and isfunction(getattr(store, method))
    }
    assert fake.__module__.startswith("tests.fakes.")
    assert store.__module__.startswith("cluster.store.")
    assert public
    assert {method for method in public if getattr(fake, method) is getattr(store, method)} == set()
