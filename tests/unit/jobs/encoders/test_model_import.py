from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from actors.language.encoder import SentenceEncoder, find_encoder, list_models
from cluster.errors import Conflict, Fault, Invalid
from jobs.encoders.model_import import import_model
from jobs.encoders.safetensors import read_safetensors

pytest.importorskip("onnxruntime", reason="the extra `meaning` is not installed")
pytest.importorskip("onnx", reason="the extra `meaning` is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="the extra `meaning` is not installed")

WIDTH, INNER, LAYERS, WORDS = (
    16,
    32,
    2,
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "river", "treaty", "cup", "final"],
)


def safetensors(tensors: dict[str, np.ndarray]) -> bytes:
    header, body = {}, b""
    for name, array in tensors.items():
        data = array.astype("<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    made = {
        "embeddings.word_embeddings.weight": rng.standard_normal((len(WORDS), WIDTH)),
        "embeddings.position_embeddings.weight": rng.standard_normal((64, WIDTH)) * 0.1,
        "embeddings.token_type_embeddings.weight": rng.standard_normal((2, WIDTH)) * 0.1,
    }
    sizes = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH)}
    sizes |= {"attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH)}
    sizes |= {"intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
    for layer in range(LAYERS):
        for name, size in sizes.items():
            made[f"encoder.layer.{layer}.{name}.weight"] = rng.standard_normal(size) * 0.2
            made[f"encoder.layer.{layer}.{name}.bias"] = rng.standard_normal(size[0]) * 0.1
        for name in ("attention.output", "output"):
            made[f"encoder.layer.{layer}.{name}.LayerNorm.weight"] = np.ones(WIDTH)
            made[f"encoder.layer.{layer}.{name}.LayerNorm.bias"] = np.zeros(WIDTH)
    made["embeddings.LayerNorm.weight"], made["embeddings.LayerNorm.bias"] = np.ones(WIDTH), np.zeros(WIDTH)
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny network of the right kind."""
    folder = tmp_path / "brought"
    folder.mkdir()
    config = {"model_type": "bert", "hidden_act": "gelu", "hidden_size": WIDTH, "num_hidden_layers": LAYERS}
    config |= {"num_attention_heads": 4, "max_position_embeddings": 64}
    (folder / "config.json").write_text(json.dumps(config))
    words = tokenizers.models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "model.safetensors").write_bytes(safetensors(tensors()))
    return folder


def test_an_imported_encoder_embeds_and_padding_changes_nothing(model: Path, tmp_path: Path) -> None:
    folder = import_model(model, tmp_path / "models")
    encoder = SentenceEncoder.open(folder)
    assert encoder.version == folder.name
    alone = encoder.embed(["river treaty"])
    padded = encoder.embed(["river treaty", "cup final river treaty cup", ""])
    assert np.allclose(np.linalg.norm(padded[:2], axis=1), 1, atol=1e-4)
    assert float(alone[0] @ padded[0]) > 0.999
    assert not padded[2].any()


def test_a_wheel_is_read_without_being_installed(model: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in model.iterdir():
            archive.write(path, f"some/model/{path.name}")
    folder = import_model(wheel, tmp_path / "models")
    assert list_models(tmp_path / "models") == [folder]
    encoder = find_encoder(tmp_path / "models", folder.name)
    assert encoder is not None
    assert encoder.dimensions == WIDTH
    assert find_encoder(tmp_path / "models", "minilm-384-other") is None
    with pytest.raises(Conflict):
        import_model(model, tmp_path / "models")


def test_what_is_no_encoder_is_refused_and_leaves_nothing(model: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    with pytest.raises(Invalid, match="neither"):
        import_model(tmp_path / "nothing", models)
    (model / "model.safetensors").write_bytes(safetensors({"other": np.zeros((2, 2))}))
    with pytest.raises(Invalid, match="has no embeddings"):
        import_model(model, models)
    (model / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(Invalid, match="safetensors"):
        import_model(model, models)
    (model / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(Invalid, match="BERT"):
        import_model(model, models)
    for config in ("[]", '{"model_type": "bert", "hidden_act": "gelu", "hidden_size": "wide"}'):
        (model / "config.json").write_text(config)
        with pytest.raises(Invalid, match=r"BERT|config\.json says no num_hidden_layers"):
            import_model(model, models)
    assert list_models(models) == []
    assert list(models.iterdir()) == []


def test_a_damaged_encoder_is_refused(model: Path, tmp_path: Path) -> None:
    folder = import_model(model, tmp_path / "models")
    data = bytearray((folder / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "model.onnx").write_bytes(data)
    with pytest.raises(Fault, match="damaged"):
        SentenceEncoder.open(folder)


@pytest.mark.parametrize(
    "header",
    [{"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}, {"x": {"dtype": "F32"}}, [], {"x": 3}],
)
def test_weights_that_do_not_fit_are_refused(header: object) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(Invalid, match="safetensors"):
        read_safetensors(struct.pack("<Q", len(text)) + text + b"\0" * 4)
