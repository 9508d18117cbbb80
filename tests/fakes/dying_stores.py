"""Stores whose user is killed before or after its n-th call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from cluster.store.stores import Stores
from tests.fakes.dying_shelf import Killed


class Life:
    """How many half-steps are left; even ones end before a call, odd ones right after it."""

    def __init__(self, left: int | None = None) -> None:
        self.left = left
        self.lived = 0

    def age(self) -> None:
        self.lived += 1
        if self.left is not None:
            if self.left <= 0:
                raise Killed
            self.left -= 1


class Mortal:
    """One port; every call of an async method ages its user."""

    def __init__(self, port: Any, life: Life, trouble: Callable[[str], None] | None = None) -> None:
        self._port = port
        self._life = life
        self._trouble = trouble

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def aged(*args: Any, **kwargs: Any) -> Any:
            self._life.age()
            if self._trouble is not None:
                self._trouble(name)
            answer = await method(*args, **kwargs)
            self._life.age()
            return answer

        return aged


def mortal(stores: Stores, life: Life, trouble: Callable[[str], None] | None = None) -> Stores:
    """Wrap all ports. `trouble(method)` may raise instead of the call."""
    names = [field.name for field in fields(Stores)]
    return Stores(**{name: Mortal(getattr(stores, name), life, trouble) for name in names})
