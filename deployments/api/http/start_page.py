"""What stands at `/`: links for people, the same addresses as JSON for programs."""

from __future__ import annotations

from typing import Any

from deployments.api.http.html_pages import render_inline, render_page

_PLACES = {
    "docs": ("docs", "The reference: every operation with an example to paste."),
    "try": ("docs/try", "Send requests from the browser."),
    "openapi": ("openapi.json", "The same for tools: OpenAPI 3.1."),
    "health": ("-/healthz", "Whether this installation is ready."),
    "mcp": ("mcp", "The news archive for AI agents (Model Context Protocol)."),
    "agents": ("llms.txt", "How an agent connects to the archive."),
}


def render_start_json(name: str, version: str) -> dict[str, Any]:
    """List the addresses for programs."""
    return {"name": name, "version": version, **{key: f"/{path}" for key, (path, _) in _PLACES.items()}}


def render_start_page(name: str, version: str) -> bytes:
    """List the addresses for people."""
    rows = "".join(
        f"<tr><td>{_link(path) if key != 'mcp' else f'<code>/{path}</code>'}<td>{render_inline(text)}"
        for key, (path, text) in _PLACES.items()
    )
    more = (
        "Keys of this installation: `kiosk keys list --reveal`. How to begin stands in the file `README.md`, "
        "and `docs/api.md` is the guide for web developers."
    )
    return render_page(name, f"<h1>{name} {version}</h1><table>{rows}</table><p>{render_inline(more)}</p>")


def _link(path: str) -> str:
    return f'<a href="{path}">/{path}</a>'
