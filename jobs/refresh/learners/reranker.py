"""Trees of the re-ranker: LambdaMART over logged lists, trained with LightGBM and exported to plain arrays.

The trees start from the scores of the blend and learn what to add to them. LightGBM learns a bias of each place beside
them, so a product that was clicked because it stood first earns less (Hu et al., Unbiased LambdaMART, WWW 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from actors.models.tree_ensemble import MOST_LEAVES, MOST_TREES, TreeArrays
from actors.vectors.types import Floats, Mask, Rows
from jobs.refresh.learners.protocol import RecipeModel

_DEFAULT_LEFT = 2
_MISSING_TYPE = 12
_MISSING_IS_NAN = 8
"Bits of `decision_type` in the text form of a tree."


class RerankerRecipe(RecipeModel):
    """Parameters of the re-ranker."""

    candidates: int = Field(default=200, ge=10, le=200)
    "Number of best products of a list that it may move."
    trees: int = Field(default=100, ge=1, le=MOST_TREES)
    "Number of trees."
    leaves: int = Field(default=15, ge=2, le=MOST_LEAVES)
    "Number of leaves of a tree."
    rate: float = Field(default=0.1, gt=0, le=1)
    "Learning rate."
    least_rows: int = Field(default=50, ge=1)
    "Least number of shown products in a leaf."
    ridge: float = Field(default=10.0, ge=0)
    "L2 penalty of the leaf values."
    days: int = Field(default=28, ge=2, le=365)
    "Newest days of the log from which it learns."
    lists: int = Field(default=20_000, ge=100, le=200_000)
    "Maximum number of lists with a click; the newest are taken."
    least_lists: int = Field(default=500, ge=100)
    "Least number of lists with a click; with fewer, the re-ranker is left out."


@dataclass(frozen=True, slots=True)
class RankingRows:
    """Shown products as rows of the trees, list by list.

    Shapes:
        rows: float64 [m, features]; scores: float64 [m], of the blend; lists, places: int64 [m], ascending, places
        from 0; clicks: bool [m]
    """

    rows: Floats
    scores: Floats
    lists: Rows
    places: Rows
    clicks: Mask

    def __len__(self) -> int:
        return len(self.lists)

    def pick(self, which: Mask) -> RankingRows:
        """Return some rows; whole lists stay whole if the mask does.

        Shapes:
            which: bool [m]
        """
        return RankingRows(
            self.rows[which], self.scores[which], self.lists[which], self.places[which], self.clicks[which]
        )


LISTED = 20
"Products of a list, for estimates."
SECONDS_A_SCORE = 1e-8
"Seconds for the score of one item by one component, in blocks of users."
_COLUMNS_BESIDE_PARTS = 6


def estimate_memory_bytes(rows: int, parts: int) -> int:
    """Return the memory of rows in numpy and in LightGBM."""
    return rows * 8 * 3 * (parts + _COLUMNS_BESIDE_PARTS) + (50 << 20)


def estimate_seconds(rows: int, recipe: RerankerRecipe) -> float:
    """Return the time of two trainings of the trees and of their rows."""
    return 4e-7 * rows * recipe.trees / 10 + 1e-5 * rows


def train_trees(recipe: RerankerRecipe, data: RankingRows, seed: int) -> Any:
    """Train trees on logged lists and return the booster of LightGBM; equal rows and seed give equal trees.

    Cost:
        20,000 lists of 20 products, 15 columns: 3 s on one core
    """
    import lightgbm

    # LightGBM takes rows list by list, with the length of each.
    _, sizes = np.unique(data.lists, return_counts=True)
    dataset = lightgbm.Dataset(
        data.rows,
        label=data.clicks.astype(np.float64),
        group=sizes,
        position=data.places,
        # Starts from the blend, so the trees learn only what to add to it.
        init_score=data.scores,
        params={"verbosity": -1},
    )
    parameters = {
        "objective": "lambdarank",
        # All places count; the default ignores pairs that are both below place 30.
        "lambdarank_truncation_level": int(sizes.max(initial=1)),
        "num_leaves": recipe.leaves,
        "learning_rate": recipe.rate,
        "min_data_in_leaf": recipe.least_rows,
        "lambda_l2": recipe.ridge,
        "seed": seed,
        # Equal rows give equal trees, so that a repeated attempt builds the same snapshot (decision 12).
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    return lightgbm.train(parameters, dataset, recipe.trees)


def export_trees(booster: Any) -> TreeArrays:
    """Return the trees of a LightGBM booster as plain arrays, from its text form: that has all digits of a number."""
    conditions: list[tuple[int, float, bool, int]] = []
    leaves: list[float] = []
    starts = [0]
    leaf_starts = [0]
    for block in booster.model_to_string().split("\nTree=")[1:]:
        lines = block.split("\n\n", 1)[0].splitlines()[1:]
        tree = {name: values.split() for name, _, values in (line.partition("=") for line in lines)}
        _add_subtree(tree, 0 if tree["split_feature"] else -1, len(leaves), conditions, leaves)
        starts.append(len(conditions))
        leaf_starts.append(len(leaves))
    features, thresholds, missing_left, left_leaves = (
        zip(*conditions, strict=True) if conditions else [()] * 4
    )
    return TreeArrays(
        np.array(starts, np.int64),
        np.array(leaf_starts, np.int64),
        np.array(features, np.int64),
        np.array(thresholds, np.float64),
        np.array(missing_left, np.bool_),
        np.array(left_leaves, np.uint16),
        np.array(leaves, np.float64),
    )


def _add_subtree(
    tree: Mapping[str, Sequence[str]],
    node: int,
    first: int,
    conditions: list[tuple[int, float, bool, int]],
    leaves: list[float],
) -> int:
    """Append the conditions and leaves of a subtree, left ones first; return its leaves as bits.

    `node` is a condition of the tree, or the complement of a leaf. `first` is the number of leaves of earlier trees.
    """
    if node < 0:
        leaves.append(float(tree["leaf_value"][~node]))
        # Leaves are numbered within their tree, from the left: that is the order of the bits.
        return 1 << (len(leaves) - 1 - first)
    left = _add_subtree(tree, int(tree["left_child"][node]), first, conditions, leaves)
    right = _add_subtree(tree, int(tree["right_child"][node]), first, conditions, leaves)
    threshold = float(tree["threshold"][node])
    decision = int(tree["decision_type"][node])
    # Without missing values in the training, LightGBM takes a later one as 0.
    has_missing = decision & _MISSING_TYPE == _MISSING_IS_NAN
    missing_left = bool(decision & _DEFAULT_LEFT) if has_missing else threshold >= 0
    conditions.append((int(tree["split_feature"][node]), threshold, missing_left, left))
    return left | right
