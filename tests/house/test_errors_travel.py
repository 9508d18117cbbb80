"""Every error of the house survives the journey between processes, with its class, message and facts."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator

import pytest

from cluster import errors
from cluster.errors import KioskError, Refusal
from tests.house.tree import may_know_ray, sources


def _kinds(kind: type[KioskError]) -> Iterator[type[KioskError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


@pytest.fixture(scope="module")
def kinds() -> list[type[KioskError]]:
    for source in sources():
        if not may_know_ray(source.name) and "Error" in source.text and source.path.name != "__main__.py":
            importlib.import_module(source.module)
    return list(dict.fromkeys(_kinds(KioskError)))


def test_every_error_can_be_pickled(kinds: list[type[KioskError]]) -> None:
    assert len(kinds) >= 14
    for kind in kinds:
        error = kind("the engine is away", retry_after_s=3, detail=[{"loc": ["body"]}])
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is kind
        assert (back.message, back.facts, str(back)) == (error.message, error.facts, str(error))


def test_no_error_class_defines_a_constructor(kinds: list[type[KioskError]]) -> None:
    assert [kind.__name__ for kind in kinds if kind is not KioskError and "__init__" in vars(kind)] == []


def test_codes_are_distinct(kinds: list[type[KioskError]]) -> None:
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_a_refusal_brings_the_class_back() -> None:
    for kind in list(_kinds(KioskError))[1:]:
        if kind.__module__ == errors.__name__:
            refusal = pickle.loads(pickle.dumps(Refusal.of(kind("no", retry_after_s=1))))
            assert type(refusal.error()) is kind
            assert refusal.error().facts == {"retry_after_s": 1}
