"""What one more replica of an engine on the same machine costs in memory of its own.

Run with `-m drill -s` for the figures.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from actors.models.blend import Blend, BlendPart
from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from actors.vectors.vocabulary import Vocabulary
from jobs.refresh.build.fit import DataFacts, TrainedEngine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.learners.neighbours.sparse_weights import normalize_matrix
from jobs.refresh.recipe import parse_recipe

pytestmark = [pytest.mark.drill, pytest.mark.timeout(300)]

ITEMS, WEIGHTS = 60_000, 120
MOST_SHARE = 0.25

REPLICA = textwrap.dedent(
    """
    import re, sys
    from pathlib import Path
    import numpy as np
    from actors.models.loading.snapshot import Snapshot
    from actors.models.loading.validation import trusted
    from actors.recommender.state.serving_model import Champion
    from actors.recommender.ranking.user_profile import Steps

    def private():
        told = Path("/proc/self/smaps_rollup").read_text()
        return sum(int(size) << 10 for size in re.findall(r"Private_(?:Clean|Dirty):\\s+(\\d+)", told))

    folder, version = Path(sys.argv[1]), sys.argv[2]
    ids = [f"p{n:06d}" for n in range(int(sys.argv[3]))]
    rng = np.random.default_rng(1)

    def load(path, version):
        champion = Champion(trusted(Snapshot.open(path), version), ids)
        for _ in range(3_000):
            rows = rng.integers(0, len(ids), 30).tolist()
            steps = Steps(rows, list(range(30, 0, -1)), [1.0] * 30, ["click"] * 30)
            for said in champion.says(champion.past_of(steps, 100)):
                said.values.sum()
        return champion

    # libraries, allocator and names first, on a snapshot of nothing: they are there whether or not anything serves
    load(folder.parent / "none", sys.argv[4])
    before = private()
    champion = load(folder, version)
    print(private() - before, flush=True)
    sys.stdin.read()
    """
)


def snapshot(folder: Path, items: int, kept: int) -> tuple[str, int]:
    """Write a snapshot of two parts whose weights nobody trained; return version and size."""
    rng = np.random.default_rng(2)
    names = Vocabulary.from_names([f"p{number:06d}" for number in range(items)])
    parts = []
    for name in ("rules", "ease"):
        columns = np.sort(rng.integers(0, items, (items, kept)), axis=1)
        weights = sp.csr_matrix(
            (rng.random(items * kept).astype(np.float32), columns.ravel(), np.arange(items + 1) * kept),
            shape=(items, items),
        )
        parts.append(BlendPart(name, NeighbourModel(normalize_matrix(weights), TimeDecay()), 1.0))
    recipe = parse_recipe({"parts": {name: {"learner": name} for name in ("rules", "ease")}})
    facts = DataFacts("none", 0, 0, items, 0, 1.0)
    manifest = write_model_snapshot(
        TrainedEngine(recipe, Blend(tuple(parts)), names, facts), folder, written_at_ms=1
    )
    return str(manifest.facts["version"]), sum(entry.size for entry in manifest.files)


def test_one_more_replica_costs_less_than_a_quarter_of_the_snapshot(tmp_path: Path) -> None:
    nothing, _ = snapshot(tmp_path / "none", 60, 1)
    version, size = snapshot(tmp_path / "full", ITEMS, WEIGHTS)
    command = [sys.executable, "-c", REPLICA, str(tmp_path / "full"), version, str(ITEMS), nothing]
    root = Path(__file__).parents[2]
    replicas = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        for _ in range(2)
    ]
    try:
        private = []
        for replica in replicas:
            assert replica.stdout is not None
            private.append(int(replica.stdout.readline()))
    finally:
        for replica in replicas:
            replica.communicate(timeout=30)
    share = private[1] / size
    print(f"\nsnapshot {size / 2**20:.0f} MiB; private memory of a replica beside another one: ", end="")
    print(f"{private[1] / 2**20:.1f} MiB, {share:.1%} of it")
    assert share < MOST_SHARE
