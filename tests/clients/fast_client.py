"""FastMCP's client: the whole way, told as one line of JSON. Runs in its own room; BROWSER signs in.

python fast_client.py legacy|auto|2026-07-28      without a handshake it signs in by the document at DOCUMENT
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.auth import OAuth


async def main(mode: str) -> None:
    """Connect, search, read, and be refused."""
    report = {}
    auth = "oauth" if mode == "legacy" else OAuth(client_metadata_url=os.environ["DOCUMENT"])
    async with Client(os.environ["MCP_URL"], auth=auth, mode=mode) as client:
        if mode == "legacy":
            await client.ping()
        report["version"] = client.protocol_version
        report["tools"] = [tool.name for tool in await client.list_tools()]
        answer = (
            await client.call_tool("ask_archive", {"question": os.environ["QUESTION"]})
        ).structured_content
        report["results"] = answer["results"]
        pair = {name: answer["results"][0][name] for name in ("product_id", "offset")}
        report["article"] = (await client.call_tool("get_archive_article", pair)).structured_content
        try:
            await client.call_tool("get_archive_article", {**pair, "offset": pair["offset"] + 1})
        except Exception as error:  # noqa: BLE001 - whatever it is, its words are compared
            report["refused"] = str(error)
        report["again"] = report["article"]["url"]
    print(json.dumps(report))


asyncio.run(main(sys.argv[1]))
