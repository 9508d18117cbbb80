"""Training steps of the transformer in JAX: the network, its loss, and the optimizer. The only importer of JAX.

The network equals `actors.models.transformer`, for many sequences in one row: attention stays inside a sequence. The
loss is the softmax over all items, or over sampled ones with a correction for their frequency (logQ).

With sampled items, a step reads and writes only the item vectors that it needs. An item that some steps left out
first catches up. The optimizer would have moved it by its moments alone, and the sum of these moves has a closed form.

Source:
    A. Petrov, C. Macdonald, gSASRec: Reducing Overconfidence in Sequential Recommendation, RecSys 2023
    Y. Bengio, J. Senecal, Adaptive Importance Sampling, IEEE Trans. Neural Networks 2008 (correction)
    D. Kingma, J. Ba, Adam, ICLR 2015
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from actors.models.transformer import GAPS, WEIGHTS, TransformerConfig
from actors.vectors.types import Matrix

Arrays = dict[str, Any]
"Name -> array of JAX: the parameters of a network, or their gradients."

_ROUNDING = 1e-6
_NEVER = -1e9
_BETAS = (0.9, 0.98)
_LONGEST_GRADIENT = 1.0
_WARM_UP = 100
"Number of steps in which the learning rate grows to its value."
_WIDTH = 2
"Width of the feed-forward layer, as a multiple of the dimensions."


@dataclass(frozen=True, slots=True)
class StepConfig:
    """Sizes and rates of the training."""

    network: TransformerConfig
    dropout: float
    decay: float
    "Weight decay of the optimizer, for matrices."
    rate: float = 0.0
    "Learning rate after the warm-up."


def build_parameters(
    config: TransformerConfig, items: int, dimensions: int, content: int, rng: np.random.Generator
) -> Arrays:
    """Return random initial parameters; `content` is the width of the item contents, 0 without them."""

    def draw(*shape: int, spread: float) -> Matrix:
        return rng.normal(0.0, spread, shape).astype(np.float32)

    width = dimensions
    wide = _WIDTH * dimensions
    parameters: Arrays = {
        "items": draw(items, width, spread=width**-0.5),
        "weights": draw(WEIGHTS, width, spread=0.02),
        "gaps": draw(GAPS, width, spread=0.02),
        "norm": np.ones(width, np.float32),
    }
    if content:
        parameters["content"] = draw(content, width, spread=width**-0.5)
    for block in range(config.blocks):
        parameters |= {
            f"{block}.norm": np.ones(width, np.float32),
            f"{block}.attend": draw(width, 3 * width, spread=width**-0.5),
            f"{block}.gate": draw(width, width, spread=0.02),
            # The smaller, the more blocks there are: all of them add to one sum.
            f"{block}.mix": draw(width, width, spread=width**-0.5 / config.blocks),
            f"{block}.distance": np.zeros((config.heads, config.events), np.float32),
            f"{block}.norm_wide": np.ones(width, np.float32),
            f"{block}.widen": draw(width, 2 * wide, spread=width**-0.5),
            f"{block}.narrow": draw(wide, width, spread=wide**-0.5 / config.blocks),
        }
    return {name: jnp.asarray(array) for name, array in parameters.items()}


def compute_item_vectors(parameters: Arrays, content: Any) -> Any:
    """Return the vectors of all items: those learned for each item, plus those of their contents.

    Shapes:
        content: float32 [n, c], or None; returns: float32 [n, d]
    """
    vectors = parameters["items"]
    return vectors if content is None else vectors + content @ parameters["content"]


def encode(parameters: Arrays, vectors: Any, rows: Arrays, config: StepConfig, key: Any = None) -> Any:
    """Return the outputs of the network at each event; with a key, some inputs are dropped at random.

    Shapes:
        vectors: float32 [n, d]; rows: int32 [b, t] each: `items`, `weights`, `gaps`, and `sequences`, -1 for padding
        returns: float32 [b, t, d]
    """
    # bfloat16 halves the memory on GPUs; most CPUs compute it slower.
    half = jnp.bfloat16 if jax.default_backend() == "gpu" else jnp.float32
    network = config.network
    steps = vectors[rows["items"]] + parameters["weights"][rows["weights"]] + parameters["gaps"][rows["gaps"]]
    steps = _drop(steps, config.dropout, key, 0).astype(half)
    length = rows["items"].shape[1]
    places = jnp.arange(length)
    back = places[:, None] - places
    same = rows["sequences"][:, :, None] == rows["sequences"][:, None, :]
    # Shape [b, 1, t, t]: an event sees earlier events of its own sequence.
    hidden = ~(same & (back >= 0))[:, None]
    for block in range(network.blocks):
        names = {name: parameters[f"{block}.{name}"].astype(half) for name in _BLOCK}
        inside = _normalize(steps, names["norm"])
        parts = (inside @ names["attend"]).reshape(*steps.shape[:2], 3, network.heads, -1)
        queries, keys, values = (parts[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
        attention = queries @ keys.transpose(0, 1, 3, 2) * (queries.shape[-1] ** -0.5)
        attention = attention + names["distance"][:, jnp.clip(back, 0, network.events - 1)]
        # In float32: bfloat16 has two to three digits, too few for a sum of exponentials.
        attention = jax.nn.softmax(jnp.where(hidden, _NEVER, attention.astype(jnp.float32)), axis=-1)
        mixed = (attention.astype(half) @ values).transpose(0, 2, 1, 3).reshape(steps.shape)
        mixed = (mixed * jax.nn.sigmoid(inside @ names["gate"])) @ names["mix"]
        steps = steps + _drop(mixed, config.dropout, key, 2 * block + 1)
        left, right = jnp.split(_normalize(steps, names["norm_wide"]) @ names["widen"], 2, axis=-1)
        narrow = (jax.nn.silu(left) * right) @ names["narrow"]
        steps = steps + _drop(narrow, config.dropout, key, 2 * block + 2)
    return _normalize(steps.astype(jnp.float32), parameters["norm"])


def compute_loss(
    parameters: Arrays, content: Any, rows: Arrays, sampled: Arrays | None, config: StepConfig, key: Any
) -> Any:
    """Return the mean cross entropy of the targets.

    Shapes:
        rows: as `encode`, and `targets`: int32 [b, t], -1 for none
        sampled: `items` int32 [s], and `counts` float32 [n], log of how often an item is expected in the sample; None
        compares with all items
    """
    vectors = compute_item_vectors(parameters, content)
    outputs = encode(parameters, vectors, rows, config, key).reshape(-1, vectors.shape[1])
    targets = rows["targets"].reshape(-1)
    is_target = (targets >= 0).astype(jnp.float32)
    chosen = jnp.maximum(targets, 0)
    if sampled is None:
        logits = outputs @ vectors.T
        target_logits = jnp.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
        losses = jax.nn.logsumexp(logits, axis=1) - target_logits
    else:
        # Minus the log of the expected count (logQ): frequent items are sampled more often and would be
        # pushed down.
        target_logits = (outputs * vectors[chosen]).sum(axis=1) - sampled["counts"][chosen]
        logits = outputs @ vectors[sampled["items"]].T - sampled["counts"][sampled["items"]]
        # A sampled item that is the target itself is no wrong answer.
        logits = jnp.where(sampled["items"] == chosen[:, None], _NEVER, logits)
        losses = jnp.logaddexp(jax.nn.logsumexp(logits, axis=1), target_logits) - target_logits
    return (losses * is_target).sum() / jnp.maximum(is_target.sum(), 1.0)


def _update(
    parameters: Arrays,
    moments: Arrays,
    rows: Arrays,
    sampled: Arrays | None,
    content: Any,
    key: Any,
    count: Any,
    config: StepConfig,
) -> tuple[Arrays, Arrays, Any]:
    """Take one step; with sampled items, `rows` and `sampled` number the items of `sampled["touched"]`.

    Shapes:
        sampled: as `compute_loss`, and `touched` int32 [u], different items in rising order, at the end numbers from n
        on for none; `missed` float32 [u], the number of steps since the last one that touched an item
    """
    if sampled is None:
        return _step(parameters, moments, rows, None, content, key, count, config)
    touched = sampled["touched"]
    first, second = moments["items"]
    values, *kept = _catch_up(
        parameters["items"][touched], first[touched], second[touched], sampled["missed"], count, config
    )
    changed, changed_moments, loss = _step(
        {**parameters, "items": values},
        {**moments, "items": tuple(kept)},
        rows,
        sampled,
        None if content is None else content[touched],
        key,
        count,
        config,
    )

    def write(array: Any, part: Any) -> Any:
        # numbers from n on have no row: nothing is written for them
        return array.at[touched].set(part, mode="drop", indices_are_sorted=True, unique_indices=True)

    changed["items"] = write(parameters["items"], changed["items"])
    pairs = zip(moments["items"], changed_moments["items"], strict=True)
    changed_moments["items"] = tuple(write(array, part) for array, part in pairs)
    return changed, changed_moments, loss


def _step(
    parameters: Arrays,
    moments: Arrays,
    rows: Arrays,
    sampled: Arrays | None,
    content: Any,
    key: Any,
    count: Any,
    config: StepConfig,
) -> tuple[Arrays, Arrays, Any]:
    loss, gradients = jax.value_and_grad(compute_loss)(parameters, content, rows, sampled, config, key)
    length = jnp.sqrt(sum(jnp.sum(gradient**2) for gradient in gradients.values()))
    # One bad batch must not throw the parameters far away.
    shrink = jnp.minimum(1.0, _LONGEST_GRADIENT / (length + 1e-9))
    rate = _compute_rate(count, config)
    changed: Arrays = {}
    kept: Arrays = {}
    for name, gradient in gradients.items():
        first, second = moments[name]
        first = _BETAS[0] * first + (1 - _BETAS[0]) * gradient * shrink
        second = _BETAS[1] * second + (1 - _BETAS[1]) * (gradient * shrink) ** 2
        step = (first / (1 - _BETAS[0] ** count)) / (jnp.sqrt(second / (1 - _BETAS[1] ** count)) + 1e-8)
        # Not for the gains of norms: their neutral value is 1, not 0.
        decay = config.decay if gradient.ndim > 1 else 0.0
        changed[name] = parameters[name] - rate * (step + decay * parameters[name])
        kept[name] = (first, second)
    return changed, kept, loss


def _compute_rate(count: Any, config: StepConfig) -> Any:
    return config.rate * jnp.minimum(1.0, count / _WARM_UP)


def _catch_up(
    values: Any, first: Any, second: Any, missed: Any, count: Any, config: StepConfig
) -> tuple[Any, Any, Any]:
    """Return rows and moments as after `missed` steps without a gradient, before step `count`.

    In each such step the quotient of the moments shrinks by the same ratio, so the moves are a geometric series. The
    rate and the corrections of the bias are those of the first missed step, where the moves are largest.

    Shapes:
        values, first, second: float32 [u, d]; missed: float32 [u]; returns: the same three
    """
    missed = missed[:, None]
    begin = jnp.maximum(count - missed, 1.0)
    rate = _compute_rate(begin, config)
    ratio = _BETAS[0] / _BETAS[1] ** 0.5
    moves = ratio * (1 - ratio**missed) / (1 - ratio)
    step = (first / (1 - _BETAS[0] ** begin)) / (jnp.sqrt(second / (1 - _BETAS[1] ** begin)) + 1e-8)
    values = values * (1 - rate * config.decay) ** missed - rate * moves * step
    return values, first * _BETAS[0] ** missed, second * _BETAS[1] ** missed


def _catch_up_all(
    parameters: Arrays, moments: Arrays, missed: Any, count: Any, config: StepConfig
) -> tuple[Arrays, Arrays]:
    first, second = moments["items"]
    values, *kept = _catch_up(parameters["items"], first, second, missed, count, config)
    return {**parameters, "items": values}, {**moments, "items": tuple(kept)}


def _encode_last(parameters: Arrays, vectors: Any, rows: Arrays, last: Any, config: StepConfig) -> Any:
    outputs = encode(parameters, vectors, rows, config)
    return outputs[jnp.arange(outputs.shape[0]), last]


# compiled once for each config and shape, for all trainings of a process
update: Callable[..., Any] = jax.jit(_update, static_argnames=("config",), donate_argnums=(0, 1))
"Compiled: returns parameters and moments after one batch, and its loss. It consumes the given ones."
catch_up_all: Callable[..., Any] = jax.jit(_catch_up_all, static_argnames=("config",), donate_argnums=(0, 1))
"Compiled: returns parameters and moments in which no item has missed a step. It consumes the given ones."
encode_last: Callable[..., Any] = jax.jit(_encode_last, static_argnames=("config",))
"Compiled: returns the outputs at one event (`last`) of each row."

_BLOCK = ("norm", "attend", "gate", "mix", "distance", "norm_wide", "widen", "narrow")


def _normalize(steps: Any, gain: Any) -> Any:
    whole = steps.astype(jnp.float32)
    square = (whole**2).mean(axis=-1, keepdims=True)
    return (whole / jnp.sqrt(square + _ROUNDING)).astype(steps.dtype) * gain


def _drop(values: Any, share: float, key: Any, place: int) -> Any:
    if key is None or not share:
        return values
    kept = jax.random.bernoulli(jax.random.fold_in(key, place), 1.0 - share, values.shape)
    return jnp.where(kept, values / (1.0 - share), 0.0)
