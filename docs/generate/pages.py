"""All generated pages."""

from __future__ import annotations

from pathlib import Path

from docs.generate import administration, commands, errors, metrics, modules, peers, rest, settings

FOLDER = Path(__file__).parents[1] / "reference"
_BUILDERS = {
    "settings.md": settings.build_page,
    "commands.md": commands.build_page,
    "errors.md": errors.build_page,
    "metrics.md": metrics.build_page,
    "modules.md": modules.build_page,
    "rest.md": rest.build_page,
    "administration.md": administration.build_page,
    "peers.md": peers.build_page,
    peers.CHART: peers.build_chart,
}


def build_pages() -> dict[str, str]:
    """Build every page of `docs/reference` and the charts in them: name of the file and its text."""
    return {name: build() for name, build in _BUILDERS.items()}
