"""FastMCP's client: the whole way, told as one line of JSON. Runs in its own room; BROWSER signs in."""

from __future__ import annotations

import asyncio
import json
import os

from fastmcp import Client


async def main() -> None:
    """Connect twice, the second time over what the first one was given."""
    report = {}
    async with Client(os.environ["MCP_URL"], auth="oauth") as client:
        hello = client.initialize_result
        report["version"] = getattr(hello, "protocolVersion", None) or hello.protocol_version
        await client.ping()
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


asyncio.run(main())
