"""A run is found by `[APP] RUN`, where RUN may be the start of its name."""

from __future__ import annotations

import pytest

from cluster.errors import Conflict, NotFound
from cluster.store.stores import Stores
from deployments.operations.models.runs import find_run
from tests.suites.test_runs import APP, a_run

APPS = ("first", APP)


async def test_an_app_may_be_left_out_and_a_name_cut_short(memory_stores: Stores) -> None:
    for name in ("run-05614a5279", "run-0569999999"):
        await memory_stores.runs.compare_and_set(a_run(name))
    for words in (("run-05614a5279", ""), (APP, "run-05614a5279"), ("run-05614", ""), (APP, "run-05614")):
        assert (await find_run(memory_stores, APPS, words)).run_id == "run-05614a5279"


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("run-1", ""), NotFound, "this installation has no run run-1"),
        (("first", "run-05614a5279"), NotFound, "app first has no run run-05614a5279"),
        (("nowhere", "run-05614a5279"), NotFound, "there is no app named nowhere"),
        (("run-05", ""), Conflict, "2 runs begin with run-05"),
    ],
)
async def test_an_unknown_or_ambiguous_run_name_is_an_error(
    memory_stores: Stores, words: tuple[str, str], error: type[Exception], message: str
) -> None:
    for name in ("run-05614a5279", "run-0569999999"):
        await memory_stores.runs.compare_and_set(a_run(name))
    with pytest.raises(error, match=message):
        await find_run(memory_stores, APPS, words)
