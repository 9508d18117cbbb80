"""With the packages of a plain installation alone, each module imports: no extra and nothing of the tests is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from cluster.local.bill_of_materials import parse_lock_file
from tests.house.tree import PACKAGES, ROOT, sources

NEEDS_AN_EXTRA = {"jobs.encoders.onnx_graph": "onnx", "jobs.refresh.learners.transformer_steps": "jax"}
"Modules that only the feature of an extra imports, with the package that each misses first."

_IMPORT_ALL = """
import importlib, json, sys
blocked, modules = json.load(sys.stdin)
sys.modules.update(dict.fromkeys(blocked))
missing = {}
for module in modules:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing[module] = error.name.split(".")[0]
print(json.dumps(missing))
"""


def _find_other_packages() -> set[str]:
    """Return the import packages that no distribution of a plain installation holds."""
    plain = {name for name, _ in parse_lock_file(Path(ROOT, "cluster/locks/run.lock").read_text())} | {
        "kiosk"
    }
    return {
        package
        for package, distributions in packages_distributions().items()
        if not plain & {canonicalize_name(distribution) for distribution in distributions}
    } - set(PACKAGES)


@pytest.mark.usefixtures("allow_world")
def test_a_plain_installation_imports_every_module() -> None:
    others = _find_other_packages()
    assert {"onnx", "pytest"} <= others
    completed = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL],
        input=json.dumps([sorted(others), [source.module for source in sources()]]),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(completed.stdout.splitlines()[-1]) == NEEDS_AN_EXTRA
