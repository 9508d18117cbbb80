"""Renders templates of the console, with the headers that every page has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from deployments.console.assets import Assets
from deployments.console.texts.console_texts import ConsoleTexts


def file_response(body: bytes, name: str, media_type: str) -> Response:
    """Return a file to save; `name` is a constant of the page, no text of clients."""
    headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return Response(body, 200, headers, media_type=media_type)


FOLDER = Path(__file__).parent / "templates"
POLICY = (
    # Pictures of products lie on servers of the shops; everything else comes from here.
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: https:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
HTMX = json.dumps(
    {
        "allowEval": False,
        "allowScriptTags": False,
        "includeIndicatorStyles": False,
        "selfRequestsOnly": True,
        # Htmx would keep copies of pages in the browser, where they outlive a sign-out.
        "historyEnabled": False,
        "timeout": 30_000,
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "[23]..", "swap": True},
            {"code": "4..", "swap": True},
            {"code": "5..", "swap": True, "error": True},
        ],
    }
)
"Settings of htmx: no evaluated text, no style of its own, and answers to refused requests are shown."


class _KeyedEnvironment(Environment):
    """Reads `a.b` of a mapping as its key `b`: a field that is named `items` or `count` is no method of `dict`."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return the value of a key, or the attribute of anything else."""
        if isinstance(obj, Mapping):
            return self.getitem(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return the value of a key or an index; jinja also looks for an attribute, here mappings have none."""
        if not isinstance(obj, Mapping):
            return super().getitem(obj, argument)
        return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)


class Renderer:
    """Renders pages and parts of pages; every value is escaped."""

    def __init__(self, assets: Assets, texts: ConsoleTexts, title: str, version: str) -> None:
        self._texts = texts
        self._environment = _KeyedEnvironment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=format_value,
        )
        self._environment.globals.update(
            t=texts,
            asset=assets.url,
            installation=title,
            version=version,
            htmx_config=HTMX,
            language=texts.language,
        )
        self._environment.filters.update(
            number=format_number,
            moment=format_moment,
            duration=format_duration,
            size=format_size,
            percent=format_percent,
            line_runs=draw_line_runs,
        )
        self._macros = self._environment.get_template("macros.html")

    def render(
        self,
        template: str,
        values: dict[str, Any],
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Return the response of a template; `ui` holds the macros."""
        macros = self._macros.make_module(
            {"csrf": values.get("csrf", ""), "entered": values.get("entered") or {}}
        )
        text = self._environment.get_template(template).render({**values, "ui": macros})
        # Texts of clients may hold halves of surrogate pairs, which UTF-8 can't.
        body = text.encode("utf-8", "replace")
        return Response(body, status, {**PAGE_HEADERS, **(headers or {})}, media_type="text/html")


def format_value(value: Any) -> Any:
    """Return a value as people read it: a dash for nothing, yes or no, and lists and objects without quotes."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {format_value(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(format_value(part)) for part in value)
    return value


def format_number(value: float | None, digits: int = 0) -> str:
    """Return a number with thousands separated, or a dash."""
    return "–" if value is None else f"{value:,.{digits}f}"


def format_percent(share: float | None, digits: int = 1) -> str:
    """Return a share between 0 and 1 as percent, or a dash."""
    return "–" if share is None else f"{share * 100:,.{digits}f} %"


def draw_line_runs(values: Sequence[float | None]) -> list[str]:
    """Return the points of a line from 0 to the largest value in a box of 100 by 20, for each run without a gap."""
    most = max((value for value in values if value is not None), default=0.0) or 1.0
    step = 100 / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{at * step:.1f},{19 - 18 * value / most:.1f}")
    # a line of a single point is not drawn
    return [" ".join(run * 2 if len(run) == 1 else run) for run in runs if run]


def format_moment(at_ms: int | None) -> str:
    """Return a time in milliseconds since 1970 as date and time of day in UTC, or a dash."""
    if not at_ms:
        return "–"
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def format_duration(seconds: float | None) -> str:
    """Return a duration in its largest fitting unit, or a dash."""
    if seconds is None:
        return "–"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds:.1f}".removesuffix(".0") + " s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def format_size(size: float | None) -> str:
    """Return a number of bytes in its largest fitting unit, or a dash."""
    if size is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1_000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1_000
    return f"{size:,.1f} TB"
