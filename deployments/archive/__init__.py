"""The news archive for AI agents: one JSON-RPC endpoint, behind OAuth 2.1, for two eras of MCP."""
