"""The news archive for AI agents: one JSON-RPC endpoint with two tools, behind OAuth 2.1."""
