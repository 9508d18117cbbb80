"""Metrics: name, type, labels and meaning of every number that a process counts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docs.generate.markdown import write_page, write_table

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
_PACKAGES = ("actors", "cluster", "deployments", "jobs")
_KINDS = {"count": "counter", "gauge": "gauge", "time": "histogram"}
_INTRO = """
Every process counts for itself and hands its numbers to Ray every five seconds. Ray exports them for Prometheus, each
name with the prefix `ray_`, beside its own metrics. `metrics_url` in `<data_dir>/state.json` says where (loopback
only). On a cluster they come with Ray's scrape targets. The last seconds of a process that was killed are lost.

| Type | Exported as |
| --- | --- |
| counter | `ray_<name>_total`; a name that ends in `_total` gets no second one |
| gauge | `ray_<name>` |
| histogram | `ray_<name>_bucket`, `_sum` and `_count`, in milliseconds |

A process keeps at most 64 samples of a histogram for each set of labels in five seconds. Counters are exact.

No label holds the id of a user. The file `cluster/prometheus/alerts.yaml` has an alert for each fault that a person
should hear of.
"""


@dataclass
class Metric:
    """A metric as the code uses it."""

    name: str
    kind: str
    labels: set[str] = field(default_factory=set)


def build_page() -> str:
    """Write the page of all metrics, grouped as `metrics.toml` groups them."""
    found = scan_metrics()
    sections = []
    for group, meanings in read_meanings().items():
        rows = [
            (
                f"`{_exported(found[name])}`",
                found[name].kind,
                ", ".join(f"`{label}`" for label in sorted(found[name].labels)),
                meaning,
            )
            for name, meaning in sorted(meanings.items())
        ]
        sections.append(f"## {group}\n\n{write_table(('Metric', 'Type', 'Labels', 'Meaning'), rows)}")
    return write_page("Metrics", _INTRO, sections)


def read_meanings() -> dict[str, dict[str, str]]:
    """Read the meanings: group, name of the metric, text."""
    text = Path(__file__).with_name("metrics.toml").read_text("utf-8")
    return tomllib.loads(text)


def scan_metrics() -> dict[str, Metric]:
    """Find every metric in the code: constants in calls of a meter, or handed to what calls one."""
    found: dict[str, Metric] = {}
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if '"kiosk_' in text:
                for metric in _metrics_of(ast.parse(text)):
                    known = found.setdefault(metric.name, metric)
                    assert known.kind == metric.kind, metric.name
                    known.labels |= metric.labels
    return dict(sorted(found.items()))


def _metrics_of(tree: ast.Module) -> Iterator[Metric]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        labels = {word.arg for word in node.keywords if word.arg} - {"by"}
        for name in _names_in(node.args):
            if called in _KINDS:
                yield Metric(name, _KINDS[called], labels)
            elif name.endswith("_ms"):
                yield Metric(name, "histogram")
            elif name.endswith("_bytes"):
                yield Metric(name, "gauge")


def _names_in(arguments: list[ast.expr]) -> Iterator[str]:
    for argument in arguments:
        parts = (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,)
        for part in parts:
            if (
                isinstance(part, ast.Constant)
                and isinstance(part.value, str)
                and part.value.startswith("kiosk_")
            ):
                yield part.value


def _exported(metric: Metric) -> str:
    total = "_total" if metric.kind == "counter" else ""
    return f"ray_{metric.name.removesuffix('_total')}{total}"
