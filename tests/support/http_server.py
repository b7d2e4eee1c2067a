"""A server of tools over streamable HTTP on the loopback; prints its port, then serves.

``--json``: answers as one JSON object instead of a stream of events. ``--legacy``: it knows no
``server/discover``, so that clients take the protocol before that of 2026-07-28.
"""

from __future__ import annotations

import argparse
import base64
import socket
from typing import Annotated, Any, Literal

import uvicorn
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import ElicitRequestURLParams, ToolAnnotations
from pydantic import BaseModel, Field

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


@server.resource("menu://today", title="Menu of today", description="What there is.")
def menu() -> str:
    """Text."""
    return "soup\x1b[2J"


@server.resource("menu://{day}/icon", mime_type="image/png")
def icon(day: str) -> bytes:
    """A picture."""
    return day.encode()


#: A picture of one pixel.
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@server.resource("photo://duck", mime_type="image/png")
def photo() -> bytes:
    """A picture that is one."""
    return PIXEL


@server.tool(annotations=READS)
def draw() -> list[str | Image]:
    """A text and a picture."""
    return ["a duck", Image(data=PIXEL, format="png")]


@server.prompt(description="Checks a menu.")
def check(day: str, tone: str = "plain") -> str:
    """A text with an argument that is needed and one that is not."""
    return f"Is the menu of {day} good? Be {tone}."


class Order(BaseModel):
    """The form that ``order`` asks for."""

    size: Literal["small", "large"]
    count: Annotated[int, Field(ge=1, le=10, description="How many ducks.")]
    gift: bool
    note: str = ""


async def ask_order(what: str) -> Elicit[Order]:
    """A question that both protocols carry, each in its own way."""
    return Elicit(f"Which {what} do you want?\nThe shop closes soon. \x1b]0;owned\x07", Order)


@server.tool(annotations=READS)
def order(what: str, answer: Annotated[ElicitationResult[Order], Resolve(ask_order)]) -> str:
    """Orders something, after a question to the user."""
    return f"{what} {answer.action}: {answer.model_dump_json()}"


@server.tool()
async def sign_up(ctx: Context, url: str) -> str:
    """Sends the user to a page; in the protocol before 2026-07-28."""
    answer = await ctx.elicit_url("Sign up first.", url, "1")
    return answer.action


@server.tool()
def closed(url: str) -> str:
    """Wants a page to be visited before it does anything; in the older protocol."""
    page = ElicitRequestURLParams(message="Pay first.", url=url, elicitation_id="1")
    raise UrlElicitationRequiredError([page])


@server.tool()
async def grow(ctx: Context) -> str:
    """One tool more."""
    server.add_tool(double, name="twice", annotations=READS)
    await ctx.notify_tools_changed()
    return "grown"


def refuse_new_protocol(app: Any) -> Any:
    """The application as one that was written before the protocol of 2026-07-28."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-protocol-version") == b"2026-07-28":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--legacy", action="store_true")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", options.port))
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app(json_response=options.json)
    if options.legacy:
        app = refuse_new_protocol(app)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    running.run(sockets=[listener])


if __name__ == "__main__":
    main()
