"""Reports as plain JSON and as Markdown: figures of one engine on one trial, by segment, with 95 % intervals, and
beside them those of others on the same readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jobs.refresh.evaluation.evaluate import Comparison, Examination, compare, interval, report, segments_of
from jobs.refresh.evaluation.gate import judge
from jobs.refresh.evaluation.protocol_notes import SEGMENTS

_SEED = 95
"Intervals of others draw from a sequence of their own, so that they change nobody else's."


def told(examined: Examination, rng: np.random.Generator) -> dict[str, Any]:
    """Write an examination as JSON."""
    summed = report(examined, rng)
    return {
        "trial": summed.trial,
        "k": summed.k,
        "coverage": round(summed.coverage, 6),
        "segments": [
            {
                "name": segment.name,
                "readers": segment.readers,
                "figures": {
                    name: {
                        "mean": _short(figure.mean),
                        "low": _short(figure.low),
                        "high": _short(figure.high),
                    }
                    for name, figure in segment.figures.items()
                },
            }
            for segment in summed.segments
        ],
    }


def beside(
    before: Examination, after: Examination, figure: str, rng: np.random.Generator, **about: Any
) -> dict[str, Any]:
    """Write how an examination compares with another one of the same readers."""
    found: Comparison = compare(before, after, figure, rng)
    return {
        "figure": figure,
        "readers": found.readers,
        "before": _short(found.before),
        "after": _short(found.after),
        "low": _short(found.low),
        "high": _short(found.high),
        "coverage_before": round(before.coverage, 6),
        "segments": means(before),
        "intervals": intervals(before, figure),
        **about,
    }


def intervals(examined: Examination, figure: str) -> dict[str, dict[str, list[float]]]:
    """Give the 95 % intervals of all figures of everybody, and of one figure of every segment."""
    rng = np.random.default_rng(_SEED)
    return {
        segment: {
            name: [_short(end) for end in interval(values[members], rng)]
            for name, values in examined.figures.items()
            if segment == "all" or name == figure
        }
        for segment, members in segments_of(examined.events).items()
    }


def means(examined: Examination) -> dict[str, dict[str, float]]:
    """Give the mean figures of every segment, without intervals."""
    return {
        name: {figure: _short(values[members].mean()) for figure, values in examined.figures.items()}
        for name, members in segments_of(examined.events).items()
    }


def headline(report_: Mapping[str, Any]) -> dict[str, float]:
    """Give the figures of all readers, as they stand in run records and histories."""
    everybody = report_["segments"][0]["figures"]
    figures = {name: float(figure["mean"]) for name, figure in everybody.items()}
    return {**figures, f"coverage@{report_['k']}": float(report_["coverage"])}


def as_markdown(reports: Sequence[Mapping[str, Any]], title: str) -> str:
    """Write reports as Markdown tables."""
    lines = [f"# {title}", ""]
    for found in reports:
        if "error" in found:
            lines += [f"## {found['protocol']}", "", str(found["error"]), ""]
            continue
        names = list(found["segments"][0]["figures"])
        lines += [f"## {found['trial']}: {found['recipe']}", ""]
        lines += ["| readers | | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 2)]
        for segment in found["segments"]:
            figures = segment["figures"].values()
            cells = [f"{one['mean']:.4f} ({one['low']:.4f} to {one['high']:.4f})" for one in figures]
            lines.append(f"| {segment['name']} | {segment['readers']} | " + " | ".join(cells) + " |")
        for name, other in found["beside"].items():
            cells = [_cell(other, figure) for figure in names]
            lines.append(f"| {name} | | " + " | ".join(cells) + " |")
        lines += ["", f"Coverage {found['coverage']:.3f}. {judge(found).sentence}.", ""]
        notes = (found.get("chosen"), SEGMENTS, found.get("note"))
        lines += [f"{note[:1].upper()}{note[1:]}.\n" for note in notes if note]
    return "\n".join(lines)


def _cell(other: Mapping[str, Any], figure: str) -> str:
    mean = f"{other['segments']['all'][figure]:.4f}"
    low, high = other.get("intervals", {}).get("all", {}).get(figure, (None, None))
    return mean if low is None or high is None else f"{mean} ({low:.4f} to {high:.4f})"


def _short(value: float) -> float:
    return round(float(value), 6)
