"""A server of tools over streamable HTTP on the loopback; prints its port, then serves.

``--json``: answers as one JSON object instead of a stream of events.
"""

from __future__ import annotations

import argparse
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("over-http", log_level="ERROR")


@server.tool(annotations=READS)
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


@server.tool(annotations=READS)
def large(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
async def grow(ctx: Context) -> str:
    """One tool more."""
    server.add_tool(double, name="twice", annotations=READS)
    await ctx.notify_tools_changed()
    return "grown"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app(json_response=options.json)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    running.run(sockets=[listener])


if __name__ == "__main__":
    main()
