"""No file of OAuth opens a connection; documents of clients are fetched by `edge.http.document_client` alone."""

from __future__ import annotations

import ast

from tests.house.tree import ROOT

FETCHERS = {
    "httpx", "requests", "aiohttp", "urllib3", "http.client", "urllib.request", "socket", "ssl", "ftplib", "subprocess",
    "asyncio.open_connection", "webbrowser",
}  # fmt: skip


def test_no_file_of_oauth_can_open_a_connection() -> None:
    files = sorted((ROOT / "deployments" / "archive" / "oauth").glob("*.py"))
    assert len(files) > 15
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            assert not FETCHERS & set(names), path.name
            assert not (
                isinstance(node, ast.Attribute) and node.attr in ("open_connection", "create_connection")
            )
