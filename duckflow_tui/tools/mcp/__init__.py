"""Tools of MCP servers as operations: ``mcp.<server>.<tool>``."""
