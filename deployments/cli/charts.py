"""Bar charts as files: one drawing, written as SVG or as PNG.

A drawing is a list of rectangles and texts, so both forms show the same thing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from cluster.errors import Invalid

FORMS = ("svg", "png")
WIDTH = 760
_LINE = 26
_LABEL = 300
_MARGIN = 24
_TOP = 64
_INK, _PALE, _BAR, _PAPER = "#1f2430", "#5b6472", "#3b6ea5", "#ffffff"
_MOST_LETTERS = 42


@dataclass(frozen=True, slots=True)
class ChartText:
    """A line of text; `anchor` is where its x stands: `start` or `end`."""

    x: float
    y: float
    words: str
    size: int = 13
    colour: str = _INK
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class ChartBar:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What stands on a chart."""

    title: str
    height: int
    bars: list[ChartBar] = field(default_factory=list)
    texts: list[ChartText] = field(default_factory=list)


def build_bar_chart(title: str, rows: Sequence[tuple[str, int]], note: str = "", *, unit: str = "") -> Chart:
    """Draw one bar a row, the longest as wide as the page allows; `unit` stands behind each number."""
    most = max((count for _, count in rows), default=0)
    drawing = Chart(title, _TOP + _LINE * max(1, len(rows)) + _MARGIN)
    drawing.texts.append(ChartText(_MARGIN, 30, title, 18))
    drawing.texts.append(ChartText(_MARGIN, 50, note, 12, _PALE))
    room = WIDTH - _LABEL - 2 * _MARGIN - 60
    for at, (label, count) in enumerate(rows):
        y = _TOP + at * _LINE
        width = room * count / most if most else 0
        drawing.texts.append(ChartText(_LABEL, y + 17, _shorten_label(label), anchor="end"))
        drawing.bars.append(ChartBar(_LABEL + 10, y + 4, max(width, 1), _LINE - 9))
        drawing.texts.append(ChartText(_LABEL + 18 + width, y + 17, f"{count:,}{unit}", colour=_PALE))
    if not rows:
        drawing.texts.append(ChartText(_MARGIN, _TOP + 17, "nothing yet", colour=_PALE))
    return drawing


def render_svg(drawing: Chart) -> bytes:
    """Write it as SVG: text stays text, and strangers' words are escaped."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{drawing.height}" '
        f'viewBox="0 0 {WIDTH} {drawing.height}" role="img" aria-label="{escape(drawing.title)}" '
        'font-family="system-ui, sans-serif">',
        f'<rect width="100%" height="100%" fill="{_PAPER}"/>',
    ]
    for bar in drawing.bars:
        parts.append(
            f'<rect x="{bar.x:g}" y="{bar.y:g}" width="{bar.width:.1f}" height="{bar.height:g}" fill="{_BAR}"/>'
        )
    for text in drawing.texts:
        parts.append(
            f'<text x="{text.x:.1f}" y="{text.y:g}" font-size="{text.size}" fill="{text.colour}" '
            f'text-anchor="{text.anchor}">{escape(text.words)}</text>'
        )
    return "\n".join((*parts, "</svg>", "")).encode()


def render_png(drawing: Chart, scale: int = 2) -> bytes:
    """Write it as PNG, at twice the size so that it stays sharp on good screens."""
    # Imported here: every other command starts faster without it.
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH * scale, drawing.height * scale), _PAPER)
    brush = ImageDraw.Draw(image)
    for bar in drawing.bars:
        corners = (bar.x, bar.y, bar.x + bar.width, bar.y + bar.height)
        brush.rectangle([corner * scale for corner in corners], fill=_BAR)
    for text in drawing.texts:
        font = ImageFont.load_default(text.size * scale)
        anchor = "rs" if text.anchor == "end" else "ls"
        brush.text((text.x * scale, text.y * scale), text.words, fill=text.colour, font=font, anchor=anchor)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def write_charts(folder: Path, charts: dict[str, Chart], forms: Sequence[str]) -> list[Path]:
    """Write each drawing in each form; returns the files.

    Errors:
        Invalid: an unknown form, or a folder that can't be written to
    """
    unknown = [form for form in forms if form not in FORMS]
    if unknown:
        raise Invalid(f"there is no chart form {unknown[0]!r}; choose from {', '.join(FORMS)}")
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, drawing in charts.items():
            for form in forms:
                path = folder / f"{name}.{form}"
                path.write_bytes(render_svg(drawing) if form == "svg" else render_png(drawing))
                files.append(path)
    except OSError as error:
        raise Invalid(f"charts can't be written to {folder}: {error.strerror}") from error
    return files


def _shorten_label(label: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in label)
    return plain if len(plain) <= _MOST_LETTERS else plain[: _MOST_LETTERS - 1] + "…"
