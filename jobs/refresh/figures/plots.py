"""Figures as pictures: bars with their intervals as SVG, made of text, without a library and readable anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

_COLOURS = ("#2f6f8f", "#d08c3a", "#7a9a4b", "#8a5a8c")
_WIDTH, _PLOT, _TOP, _LEFT, _BOTTOM = 720, 240, 64, 56, 56


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `low` and `high` are its interval where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


def bars(title: str, groups: Mapping[str, Mapping[str, Bar]]) -> str:
    """Draw groups of bars side by side; bars of the same name have the same colour in every group."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    most = (
        max((bar.high or bar.value for group in groups.values() for bar in group.values()), default=0.0)
        or 1.0
    )
    scale, step = _PLOT / most, (_WIDTH - _LEFT - 16) / max(len(groups), 1)
    width = min(48.0, step * 0.8 / max(len(names), 1))
    base = _TOP + _PLOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{base + _BOTTOM}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{base + _BOTTOM}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15">{escape(title)}</text>',
    ]
    for at, name in enumerate(names):
        x = _LEFT + at * 160
        lines.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{_colour(at)}"/>')
        lines.append(f'<text x="{x + 18}" y="42">{escape(name)}</text>')
    for part in range(5):
        y, value = base - _PLOT * part / 4, most * part / 4
        lines.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 16}" y2="{y:.1f}" stroke="#dddddd"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3f}</text>')
    for place, (label, group) in enumerate(groups.items()):
        middle = _LEFT + step * (place + 0.5)
        first = middle - width * len(group) / 2
        for at, (name, bar) in enumerate(group.items()):
            lines += _drawn(bar, first + at * width, width, base, scale, _colour(names.index(name)))
        lines.append(f'<text x="{middle:.1f}" y="{base + 20}" text-anchor="middle">{escape(label)}</text>')
    return "\n".join([*lines, "</svg>", ""])


def pictures(reports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Draw reports: file name -> SVG, two a report: figures of everybody, and NDCG by segment."""
    drawn = {}
    for report in reports:
        if "segments" not in report:
            continue
        name = str(report.get("protocol", "auto"))
        k = report["k"]
        everybody = report["segments"][0]["figures"]
        wanted = [f"ndcg@{k}", f"recall@{k}", f"hit_rate@{k}", f"mrr@{k}"]
        drawn[f"{name}-figures.svg"] = bars(
            f"{report['trial']}: {report['recipe']}, all readers",
            {figure: _compared(report, "all", figure, everybody[figure]) for figure in wanted},
        )
        drawn[f"{name}-segments.svg"] = bars(
            f"{report['trial']}: NDCG@{k} by how much is known of a reader",
            {
                f"{segment['name']} ({segment['readers']:,})": _compared(
                    report, segment["name"], wanted[0], segment["figures"][wanted[0]]
                )
                for segment in report["segments"]
            },
        )
    return drawn


def _compared(
    report: Mapping[str, Any], segment: str, figure: str, ours: Mapping[str, float]
) -> dict[str, Bar]:
    group = {"this recipe": Bar(ours["mean"], ours["low"], ours["high"])}
    for name, other in report["beside"].items():
        value = other.get("segments", {}).get(segment, {}).get(figure)
        if value is not None:
            group[name] = Bar(value)
    return group


def _drawn(bar: Bar, x: float, width: float, base: float, scale: float, colour: str) -> list[str]:
    height = max(bar.value, 0.0) * scale
    lines = [
        f'<rect x="{x:.1f}" y="{base - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
        f'fill="{colour}"><title>{bar.value:.4f}</title></rect>'
    ]
    if bar.low is not None and bar.high is not None:
        middle, top, bottom = x + width / 2 - 1, base - bar.high * scale, base - bar.low * scale
        lines.append(f'<path d="M{middle:.1f} {top:.1f}V{bottom:.1f}" stroke="#222222"/>')
        lines += [f'<path d="M{middle - 4:.1f} {y:.1f}h8" stroke="#222222"/>' for y in (top, bottom)]
    return lines


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]
