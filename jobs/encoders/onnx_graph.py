"""A BERT sentence encoder as an ONNX graph, with unit vectors as output. Only the import of a model uses this module.

    ids [b, s], mask [b, s], positions [s]  ->  embeddings, layers, mean over the mask, length 1  ->  vectors [b, d]

Source: BERT (Devlin et al. 2018), mean pooling (Reimers and Gurevych 2019)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, checker, helper, numpy_helper

from cluster.errors import Invalid
from jobs.encoders.safetensors import Tensors

_OPSET = 17
_BLOCKED = -1e4
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """Sizes of a network, as its configuration defines them."""

    layers: int
    heads: int
    width: int


@dataclass(slots=True)
class _Graph:
    """Nodes and constants of a graph under construction."""

    weights: Tensors
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    count: int = 0

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        self.count += 1
        name = f"{kind.lower()}_{self.count}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"n{self.count}", **attributes))
        return name

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        """Add a constant once."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def value(self, name: str) -> npt.NDArray[np.float32]:
        """Return a weight of the model.

        Errors:
            Invalid: the model has no weight of that name
        """
        if name not in self.weights:
            raise Invalid(f"the model has no {name}; it is not of the kind that can be imported")
        return self.weights[name]

    def weight(self, name: str, *, turned: bool = False) -> str:
        value = self.value(name)
        return self.constant(name, value.T if turned else value)

    def dense(self, value: str, name: str) -> str:
        """Multiply by a matrix and add its bias."""
        # The weights are stored as [out, in]; MatMul needs [in, out].
        product = self.node("MatMul", value, self.weight(name + ".weight", turned=True))
        return self.node("Add", product, self.weight(name + ".bias"))

    def norm(self, value: str, name: str) -> str:
        parts = (self.weight(name + ".weight"), self.weight(name + ".bias"))
        return self.node("LayerNormalization", value, *parts, axis=-1, epsilon=_EPSILON)


def build_graph(weights: Tensors, shape: NetworkShape) -> Any:
    """Build the ONNX graph of a sentence encoder.

    Shapes:
        weights: float32, each as the encoder names and shapes it
    Errors:
        Invalid: weights are missing
    """
    graph = _Graph(weights)
    value = _add_embeddings(graph)
    for layer in range(shape.layers):
        value = _add_layer(graph, value, f"encoder.layer.{layer}", shape)
    vectors = _add_mean_pooling(graph, value)
    graph.nodes.append(helper.make_node("Identity", [vectors], ["vectors"], name="last"))
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["b", "s"]),
        helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", "s"]),
        helper.make_tensor_value_info("positions", TensorProto.INT64, ["s"]),
    ]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["b", shape.width])]
    body = helper.make_graph(graph.nodes, "encoder", inputs, outputs, list(graph.constants.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    checker.check_model(model)
    return model


def _add_embeddings(graph: _Graph) -> str:
    words = graph.node("Gather", graph.weight("embeddings.word_embeddings.weight"), "ids")
    places = graph.node("Gather", graph.weight("embeddings.position_embeddings.weight"), "positions")
    # Token type 0 for all tokens: there is one sentence, so its row is a constant.
    kind = graph.constant("kind", graph.value("embeddings.token_type_embeddings.weight")[0])
    total = graph.node("Add", graph.node("Add", words, places), kind)
    return graph.norm(total, "embeddings.LayerNorm")


def _add_layer(graph: _Graph, value: str, name: str, shape: NetworkShape) -> str:
    attended = graph.dense(
        _add_attention(graph, value, f"{name}.attention.self", shape), f"{name}.attention.output.dense"
    )
    value = graph.norm(graph.node("Add", attended, value), f"{name}.attention.output.LayerNorm")
    inner = graph.dense(value, f"{name}.intermediate.dense")
    outer = graph.dense(_add_gelu(graph, inner), f"{name}.output.dense")
    return graph.norm(graph.node("Add", outer, value), f"{name}.output.LayerNorm")


def _add_attention(graph: _Graph, value: str, name: str, shape: NetworkShape) -> str:
    size = shape.width // shape.heads
    # 0 copies a dimension: [b, s, width] becomes [b, s, heads, size].
    split = graph.constant("split", np.array([0, 0, shape.heads, size], np.int64))
    query, key, content = (
        graph.node("Reshape", graph.dense(value, f"{name}.{part}"), split)
        for part in ("query", "key", "value")
    )
    # [b, heads, s, size]
    query = graph.node("Transpose", query, perm=[0, 2, 1, 3])
    # [b, heads, size, s], so that query @ key is [b, heads, s, s]
    key = graph.node("Transpose", key, perm=[0, 2, 3, 1])
    content = graph.node("Transpose", content, perm=[0, 2, 1, 3])
    # softmax(Q K^T / sqrt(size) + mask) V
    scale = graph.constant("scale", np.array(1 / math.sqrt(size), np.float32))
    scores = graph.node("Mul", graph.node("MatMul", query, key), scale)
    weights = graph.node("Softmax", graph.node("Add", scores, _add_padding_mask(graph)), axis=-1)
    mixed = graph.node("Transpose", graph.node("MatMul", weights, content), perm=[0, 2, 1, 3])
    return graph.node("Reshape", mixed, graph.constant("whole", np.array([0, 0, shape.width], np.int64)))


def _add_padding_mask(graph: _Graph) -> str:
    """Return the term that is added to the scores of padding tokens: [b, 1, 1, s]."""
    unit = graph.constant("one", np.array(1, np.float32))
    # (1 - mask) * -1e4: softmax gives padding a weight of 0.
    away = graph.node(
        "Mul", graph.node("Sub", unit, "mask"), graph.constant("away", np.array(_BLOCKED, np.float32))
    )
    return graph.node("Unsqueeze", away, graph.constant("inner", np.array([1, 2], np.int64)))


def _add_gelu(graph: _Graph, value: str) -> str:
    root = graph.constant("root", np.array(math.sqrt(2), np.float32))
    unit = graph.constant("one", np.array(1, np.float32))
    half = graph.constant("half", np.array(0.5, np.float32))
    # GELU: x / 2 * (1 + erf(x / sqrt(2)))
    error = graph.node("Add", graph.node("Erf", graph.node("Div", value, root)), unit)
    return graph.node("Mul", graph.node("Mul", value, half), error)


def _add_mean_pooling(graph: _Graph, value: str) -> str:
    """Return the mean over the tokens that are not padding, scaled to length 1."""
    last = graph.constant("last_axis", np.array([2], np.int64))
    mask = graph.node("Unsqueeze", "mask", last)
    middle = graph.constant("middle", np.array([1], np.int64))
    total = graph.node("ReduceSum", graph.node("Mul", value, mask), middle, keepdims=0)
    counts = graph.node("ReduceSum", mask, middle, keepdims=0)
    # sum(x * mask) / sum(mask)
    mean = graph.node("Div", total, counts)
    length = graph.node("ReduceL2", mean, axes=[1], keepdims=1)
    tiny = graph.constant("tiny", np.array(1e-12, np.float32))
    return graph.node("Div", mean, graph.node("Max", length, tiny))
