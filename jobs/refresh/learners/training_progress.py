"""The progress of long trainings: a display, and states from which a killed training continues.

A learner asks for the progress of the present thread (`current_progress`). The stages of a run set it; elsewhere, a
training shows and stores nothing. A state is named by what determines it, so no stage has to be named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

import numpy as np

from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.data.dataset import Interactions


class TrainingProgress(Protocol):
    """Display and store of one run."""

    def show(self, text: str) -> None:
        """Show a text beside the present step.

        Errors:
            RunLost: the run was cancelled, or another worker owns it; the training must stop
        """
        ...

    def load(self, name: str) -> ModelState | None: ...

    def store(self, name: str, state: ModelState) -> None:
        """Store a state in place of an earlier one of the same name."""
        ...


class _NoProgress:
    def show(self, text: str) -> None:
        """Show nothing."""

    def load(self, name: str) -> ModelState | None:
        return None

    def store(self, name: str, state: ModelState) -> None:
        """Store nothing."""


_PROGRESS: ContextVar[TrainingProgress | None] = ContextVar("training_progress", default=None)
_NO_PROGRESS: Final = _NoProgress()


def current_progress() -> TrainingProgress:
    """Return the progress of the present thread."""
    return _PROGRESS.get() or _NO_PROGRESS


@contextmanager
def keep_progress(progress: TrainingProgress) -> Iterator[None]:
    """Show and store the progress of trainings within."""
    token = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


def digest_training(recipe: str, seed: int, data: Interactions) -> str:
    """Return the name of a training: equal parameters, seed and data have an equal name, and an equal model."""
    digest = hashlib.sha256(f"{recipe} {seed} {data.n_items} {data.clock}".encode())
    # All that a training reads; names of users and items play no part in it.
    for array in (data.reader, data.item, data.at_s, data.weight):
        digest.update(np.ascontiguousarray(array).tobytes())
    if data.content is not None:
        arrays = (
            (data.content,)
            if isinstance(data.content, np.ndarray)
            else (data.content.data, data.content.indices, data.content.indptr)
        )
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
