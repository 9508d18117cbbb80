"""The same archive behind other people's MCP servers: an equal tool, on their fastest settings, without sign-in.

    python -m tests.benchmarks.peers.mcp_servers sdk|fastmcp PORT FOLDER [--ready]

Runs in a room that has `mcp` and `fastmcp` beside our own dependencies. Stateless and with plain JSON answers, as
our own endpoint is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn

from actors.archive.messages import ArchiveQuery
from actors.archive.retrieve import search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from tests.benchmarks.mcp_articles import APP


def main() -> None:
    """Serve until a signal stops the process."""
    which, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    opened = PassageSnapshotStore(ArtifactStore.open(folder)).open(APP)
    assert opened is not None, "there is no snapshot"
    library = opened[0]

    ready: list[Any] = []

    def ask_archive(question: str, context: str = "", skill_used: str = "") -> dict[str, Any]:
        """Search the archive."""
        if "--ready" in sys.argv and ready:
            result = ready[0]
        else:
            result = search_passages(library, ArchiveQuery(APP, question, context=context), 0)
            ready[:] = [result]
        return {
            "results": [
                {
                    "product_id": snippet.product_id, "offset": snippet.position, "product_title": snippet.title,
                    "snippet": snippet.text, "authors": list(snippet.authors), "published_date": snippet.published,
                    "url": snippet.url, "score": snippet.score,
                }
                for snippet in result.snippets
            ]
        }  # fmt: skip

    uvicorn.run(_app(which, ask_archive), port=port, log_level="warning", access_log=False)


def _app(which: str, tool: Any) -> Any:
    if which == "sdk":
        from mcp.server.mcpserver import MCPServer

        sdk: Any = MCPServer("archive")
        sdk.tool()(tool)
        return sdk.streamable_http_app(stateless_http=True, json_response=True)
    from fastmcp import FastMCP

    fast: Any = FastMCP("archive")
    fast.tool(tool)
    return fast.http_app(path="/mcp", stateless_http=True, json_response=True)


if __name__ == "__main__":
    main()
