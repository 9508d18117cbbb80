"""The three methods of revision 2026-07-28: server/discover, tools/list, tools/call.

A refusal that a model can act on is a result with `isError`. Its words are those of the error that clients of the
handshake get.
Source: Model Context Protocol 2026-07-28, Discover, Tools and Caching
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.errors import Invalid
from deployments.archive.admission import ArchiveCaller
from deployments.archive.archive_tools import ArchiveTools
from deployments.archive.call_context import CallContexts
from deployments.archive.citations.citation_tools import CitationTools
from deployments.archive.combined_tools import CombinedTools
from deployments.archive.mcp.jsonrpc import RpcCall, RpcError, dumps, render_error, render_result
from deployments.archive.mcp.methods import INSTRUCTIONS, NAME, McpMethods
from deployments.archive.mcp.stateless_validation import INVALID_PARAMS, PREFIX, REVISION, UNKNOWN_METHOD
from deployments.archive.tools import Tool
from deployments.archive.usage_log import UsageLog

CACHE_MS = 300_000
"Milliseconds for which clients may keep the list of tools: a changed list reaches them so late."
_METHODS = ("server/discover", "tools/list", "tools/call")
_LONGEST = 200


class StatelessMethods(McpMethods):
    """Answers calls of authorized users in revision 2026-07-28."""

    def __init__(
        self,
        research: ArchiveTools | CombinedTools,
        citations: CitationTools,
        usage: UsageLog,
        *,
        title: str,
        version: str,
        tools: Sequence[Tool],
        contexts: CallContexts | None = None,
    ) -> None:
        super().__init__(
            research, citations, usage, title=title, version=version, tools=tools, contexts=contexts
        )
        meta = {f"{PREFIX}serverInfo": {"name": NAME, "title": title, "version": version}}
        # Public, because the list of tools is the same for every user.
        cached = {"resultType": "complete", "ttlMs": CACHE_MS, "cacheScope": "public", "_meta": meta}
        self._complete = dumps({"resultType": "complete", "_meta": meta})
        self._discovered = dumps(
            {
                **cached,
                "supportedVersions": [REVISION],
                "capabilities": {"tools": {}},
                "instructions": INSTRUCTIONS,
            }
        )
        self._listed = dumps({**cached, "tools": [tool.to_dict() for tool in tools]})

    def find_fault(self, call: RpcCall) -> RpcError | None:
        """Return why a call can't be made at all: an unknown method or tool, or parameters of a wrong form."""
        if call.method not in _METHODS:
            words = f"Unknown method: {call.method[:_LONGEST]}"
            return RpcError(words, UNKNOWN_METHOD, id=call.id, status=404)
        if call.method == "tools/list" and call.params.get("cursor") is not None:
            words = "Invalid arguments for tools/list: the server returned no such cursor"
            return RpcError(words, INVALID_PARAMS, id=call.id, status=400)
        if call.method == "tools/call":
            try:
                self._find_tool(call)
            except Invalid as error:
                return RpcError(error.message, INVALID_PARAMS, id=call.id, status=400)
        return None

    async def _result(self, call: RpcCall, person: ArchiveCaller, begun_s: float) -> bytes:
        if call.method == "server/discover":
            return self._discovered
        if call.method == "tools/list":
            return self._listed
        result = await self._call_tool(call, person, begun_s)
        # Two JSON objects are joined as bytes: `{a}` and `{b}` become `{a,b}`.
        return self._complete[:-1] + b"," + result[1:]

    def trace_name(self, call: RpcCall) -> str:
        """Return the method of a call, and its tool; `unknown` for texts that only the client chose."""
        return call.method if call.method == "server/discover" else super().trace_name(call)

    def render_refusal(self, call: RpcCall, problem: RpcError) -> bytes:
        """Return a result that tells the model why its call was refused; an error for other methods."""
        if call.method != "tools/call":
            return render_error(problem)
        content = b'"content":[{"type":"text","text":' + orjson.dumps(problem.message) + b'}],"isError":true}'
        return render_result(call.id, self._complete[:-1] + b"," + content)
