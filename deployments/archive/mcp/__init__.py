"""The protocol MCP: HTTP, JSON-RPC and the methods of both eras."""
