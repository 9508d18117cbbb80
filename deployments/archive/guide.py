"""`/llms.txt`: what the archive is and how to connect to it, written from the live configuration."""

from __future__ import annotations

import json

from deployments.archive.citation import licence_sentence
from deployments.archive.tools import TOOLS

_TEXT = """# {title}

> A news archive (world, politics, science, sport, business) for AI agents: a remote MCP server over streamable HTTP \
with two tools. Sign-in is OAuth 2.1; clients find everything from the one address below.

Endpoint: {mcp}
Transport: streamable-http (POST only; there is no event stream)
Protocol versions: {versions}
Sign-in: opens in the browser at the first use; accounts are made by the archive's publisher

## Install

{install}

## Tools

{tools}

## Workflow

1. Call `ask_archive` with one whole question; `context` may say what the user is working on.
2. Call `get_archive_article` with the `product_id` and the `offset` of a result. Other pairs are refused; a pair \
stays good for the user who got it, also after a new sign-in.
3. Cite whatever you take with `citation_format`, a clickable markdown link.

## Licence

{licence}. Each article's `citation_instruction` says the licence of that article.{extra}

## More

- [Server card]({base}/.well-known/mcp-server-card)
- [Protected-resource metadata]({base}/.well-known/oauth-protected-resource/mcp)
- [Clients you allowed]({base}/oauth/authorize/clients)
"""


def render_guide(base: str, title: str, versions: tuple[str, ...], licence: str, extra: str) -> str:
    """Write the page for clients that came to `base`."""
    mcp = f"{base}/mcp"
    return _TEXT.format(
        base=base,
        title=title,
        mcp=mcp,
        versions=", ".join(versions),
        install="\n".join(f"- {where}: {how}" for where, how in list_installs(mcp)),
        tools="\n".join(f"- `{tool.name}`: {tool.title}. {_arguments(tool.name)}" for tool in TOOLS),
        licence=licence_sentence(licence),
        extra=f" {extra}" if extra else "",
    )


def list_installs(mcp: str) -> tuple[tuple[str, str], ...]:
    """Tell how common clients add a server, one line each."""
    cursor = json.dumps({"mcpServers": {"archive": {"url": mcp}}})
    code = json.dumps({"servers": {"archive": {"type": "http", "url": mcp}}})
    proxy = json.dumps({"mcpServers": {"archive": {"command": "npx", "args": ["-y", "mcp-remote", mcp]}}})
    return (
        ("Claude (web, desktop)", f"Settings, Connectors, Add custom connector, address `{mcp}`"),
        ("Claude Code", f"`claude mcp add --transport http archive {mcp}`, then `/mcp` to sign in"),
        ("ChatGPT", f"Settings, Connectors (developer mode), Create, address `{mcp}`, authentication OAuth"),
        ("Codex", f"`codex mcp add archive --url {mcp}`, then `codex mcp login archive`"),
        ("Cursor", f"`.cursor/mcp.json`: `{cursor}`"),
        ("VS Code", f"`.vscode/mcp.json`: `{code}`"),
        ("Hosts that only start programs", f"`{proxy}`"),
        ("Inspector", f"`npx @modelcontextprotocol/inspector`, transport Streamable HTTP, address `{mcp}`"),
        ("Python", f'`fastmcp.Client("{mcp}", auth="oauth")`'),
    )


def _arguments(name: str) -> str:
    tool = next(tool for tool in TOOLS if tool.name == name)
    words = [f"`{one.name}` ({one.type}{', required' if one.required else ''})" for one in tool.arguments]
    return f"Arguments: {', '.join(words)}."
