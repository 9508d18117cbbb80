"""Rank the queries of a task with a recipe of Kiosk, in a process of its own, and write what a peer writes.

python -m tests.benchmarks.peers.kiosk_lists RECIPE TASK CONTENT OUT SECONDS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from cluster.build_info import installed_version
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.evaluate import Scorer, score_allowed_items
from jobs.refresh.evaluation.metrics import RankedLists, rank_top_items
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.tuning.plan import make_plan
from tests.benchmarks.peers.environment import limit_cpu_time, read_peak_bytes
from tests.benchmarks.peers.split_files import LIST_LENGTH, write_lists

_BLOCK = 500


def rank_split(scorer: Scorer, split: EvaluationSplit) -> RankedLists:
    """Rank the whole catalog for each query.

    Shapes:
        returns: int64 [q, 20], -1 for places without an item
    """
    lists = []
    for first in range(0, len(split), _BLOCK):
        part = split.pick(np.arange(first, min(first + _BLOCK, len(split))))
        lists.append(rank_top_items(score_allowed_items(scorer, part), LIST_LENGTH))
    return np.concatenate(lists)


def main(recipe: str, task: str, content: str, out: str, seconds: str) -> None:
    """Choose on validation, train, rank and write."""
    from tests.benchmarks import quality_peers

    limit_cpu_time(float(seconds))
    split = quality_peers.load_split(task, has_content=content == "content")
    began = time.process_time()
    plan = make_plan(load_recipe_file(recipe), split.validation)
    planned = time.process_time()
    engine = train_engine(plan.recipe, split.test.train)
    trained = time.process_time()
    lists = rank_split(engine, split.test)
    ranked = time.process_time()
    write_lists(lists, Path(out) / "lists-0.parquet")
    weights = dict(plan.recipe.blend.weights)  # type: ignore[arg-type]
    row = {
        "settings": weights,
        "search_s": planned - began,
        "fit_s": trained - planned,
        "rank_s": ranked - trained,
        "peak_bytes": read_peak_bytes(),
    }
    (Path(out) / "runs.json").write_text(json.dumps({"version": installed_version(), "rows": [row]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
