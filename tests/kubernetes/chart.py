"""Render the chart with Helm itself, as a library, in a process of its own.

    python -m tests.kubernetes.chart lint
    python -m tests.kubernetes.chart render [VALUES.yaml]
    python -m tests.kubernetes.chart base            write the kustomize base from the chart

Helm is Go code: a separate process keeps its signal handlers and its log out of this one.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "cluster" / "helm" / "kiosk"
VALUES = Path(__file__).resolve().parent / "values"
KUSTOMIZATION = ROOT / "cluster" / "kuberay" / "base"
MANIFEST = KUSTOMIZATION / "kiosk.yaml"
HEAD = "# Written from the chart in cluster/helm/kiosk by `python -m tests.kubernetes.chart base`; do not edit.\n"


def has_helm() -> bool:
    """Return whether Helm is installed as a library."""
    return find_spec("helm_python") is not None


def render(values: dict[str, Any], name: str = "kiosk", namespace: str = "kiosk") -> dict[str, str]:
    """Return the text of each template, rendered for a release.

    Errors:
        ValueError: Helm refuses the values; the message is Helm's
    """
    order = {"action": "render", "values": values, "name": name, "namespace": namespace}
    texts: dict[str, str] = _run(order)
    return {path: text for path, text in texts.items() if text.strip()}


def lint(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the findings of `helm lint --strict`."""
    report: dict[str, Any] = _run({"action": "lint", "values": values})
    return [message for message in report["messages"] if message["error"] != "icon is recommended"]


def documents(texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return the objects of rendered templates."""
    manifests = [text for path, text in sorted(texts.items()) if path.endswith(".yaml")]
    return [part for text in manifests for part in yaml.safe_load_all(text) if part]


def render_manifest() -> str:
    """Return the manifest of the kustomize base: the chart with its default values."""
    texts = render({}, namespace="default")
    parts = [
        text.strip().removeprefix("---\n") for path, text in sorted(texts.items()) if path.endswith(".yaml")
    ]
    return HEAD + "".join(f"---\n{part}\n" for part in parts)


def pods(objects: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return all pods that these objects make, with a name for each."""
    templates: list[tuple[str, dict[str, Any]]] = []
    for part in objects:
        spec, name = part.get("spec", {}), part["metadata"]["name"]
        if part["kind"] == "RayService":
            cluster = spec["rayClusterConfig"]
            templates.append(("head", cluster["headGroupSpec"]["template"]["spec"]))
            templates += [
                (group["groupName"], group["template"]["spec"]) for group in cluster["workerGroupSpecs"]
            ]
        elif part["kind"] == "StatefulSet":
            templates.append((name, spec["template"]["spec"]))
        elif part["kind"] == "CronJob":
            templates.append((name, spec["jobTemplate"]["spec"]["template"]["spec"]))
    return templates


def _run(order: dict[str, Any]) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kubernetes.chart", "worker"],
        input=json.dumps(order), capture_output=True, text=True, check=False, cwd=ROOT, timeout=100,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(done.stderr[-2000:])
    return json.loads(done.stdout)


def _work(order: dict[str, Any]) -> Any:
    helm = importlib.import_module("helm_python")
    if order["action"] == "lint":
        return helm.lint(CHART, order["values"], strict=True)
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(order["values"])
        return chart.render(order["values"], name=order["name"], namespace=order["namespace"])


def main(words: list[str]) -> int:
    """Run one command of the module's docstring."""
    match words:
        case ["worker"]:
            try:
                json.dump(_work(json.load(sys.stdin)), sys.stdout)
            except Exception as error:  # noqa: BLE001 - Helm's words go to the caller
                print(error, file=sys.stderr)
                return 1
        case ["lint"]:
            print(json.dumps(lint({}), indent=2))
        case ["render", *rest]:
            values = yaml.safe_load(Path(rest[0]).read_text()) if rest else {}
            print("\n---\n".join(render(values).values()))
        case ["base"]:
            MANIFEST.write_text(render_manifest())
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
