"""Dashboards ask for metrics and labels that the code has; each panel says what it shows, and in which unit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generate.metrics import scan_metrics

FOLDER = Path(__file__).resolve().parents[2] / "cluster" / "grafana"
BOARDS = sorted(FOLDER.glob("*.json"))
OF_HISTOGRAMS = ("_bucket", "_sum", "_count")
OF_HAPROXY = {"haproxy_frontend_http_responses_total": {"proxy", "code"}}


def _exported() -> dict[str, set[str]]:
    """Return each name that Prometheus reads with its labels."""
    names = dict(OF_HAPROXY)
    for metric in scan_metrics().values():
        name = f"ray_{metric.name.removesuffix('_total')}"
        if metric.kind == "histogram":
            names |= {name + end: metric.labels | {"le"} for end in OF_HISTOGRAMS}
        else:
            names[name + ("_total" if metric.kind == "counter" else "")] = metric.labels
    return names


def _faults(expression: str) -> list[str]:
    """Return what is wrong with the metrics and labels of an expression."""
    exported = _exported()
    matches = re.findall(r"\b((?:ray_kiosk|haproxy)_\w+)(?:\{([^}]*)\})?", expression)
    faults = [name for name, _ in matches if name not in exported]
    label_names = set().union(*(exported.get(name, set()) for name, _ in matches))
    for name, matchers in matches:
        used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
        faults += [f"{name}: {label}" for label in used - exported.get(name, set())]
    for labels in re.findall(r"by \(([^)]*)\)", expression):
        faults += [
            f"by {label}"
            for label in (part.strip() for part in labels.split(","))
            if label not in label_names
        ]
    return faults if matches else ["no metric"]


def test_there_is_a_dashboard_for_each_subject() -> None:
    assert [path.stem for path in BOARDS] == ["archive", "engine", "ingest", "overview", "training"]


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_every_panel_asks_for_what_the_code_counts(path: Path) -> None:
    board: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert board["uid"] == f"kiosk-{path.stem}"
    assert board["description"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) >= 6
    for panel in board["panels"]:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        for target in panel["targets"]:
            assert _faults(target["expr"]) == [], (title, target["expr"])
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            by = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert named <= by, (title, "the legend names a label that the expression drops")


@pytest.mark.parametrize(
    "expression",
    [
        "max(ray_kiosk_nothing)",
        'sum(rate(ray_kiosk_requests_total{colour="red"}[5m]))',
        "sum by (colour) (rate(ray_kiosk_requests_total[5m]))",
        "sum(rate(ray_kiosk_request_ms[5m]))",
        "vector(1)",
    ],
)
def test_a_wrong_name_or_label_is_a_fault(expression: str) -> None:
    assert _faults(expression)
