"""A shelf whose process is killed before or after its n-th step."""

from __future__ import annotations

from pathlib import Path

from cluster.artifacts.storage.artifact_store import ArtifactStore


class Killed(BaseException):
    """The process is gone; nothing of ours may catch this."""


class DyingArtifactStore(ArtifactStore):
    """Dies `after` the given number of half-steps: even ones before a change, odd ones right after it."""

    def __init__(self, alive: ArtifactStore) -> None:
        self.__dict__.update(alive.__dict__)
        self.life: int | None = None

    def _age(self) -> None:
        if self.life is not None:
            if self.life == 0:
                raise Killed
            self.life -= 1

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        self._age()
        super().write(path, data, new=new)
        self._age()

    def upload(self, path: str, source: Path) -> None:
        self._age()
        super().upload(path, source)
        self._age()

    def remove(self, path: str) -> bool:
        self._age()
        removed = super().remove(path)
        self._age()
        return removed
