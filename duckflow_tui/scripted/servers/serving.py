"""Serves tools over standard input and output, one JSON message a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

JsonObject = dict[str, Any]

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_NO_METHOD: Final = -32601
_BAD_PARAMS: Final = -32602


class ToolProblem(Exception):
    """Why a call has no result; the text is for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that only reads. ``properties`` are JSON schemas by the argument's name."""

    name: str
    description: str
    run: Callable[..., JsonObject]
    properties: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    optional: frozenset[str] = frozenset()

    @property
    def entry(self) -> JsonObject:
        """The tool as ``tools/list`` returns it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": self.properties,
                "required": [name for name in self.properties if name not in self.optional],
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


def serve(name: str, tools: tuple[Tool, ...]) -> None:
    """Answer the requests on standard input until it ends; a line that is no request is ignored."""
    by_name = {tool.name: tool for tool in tools}
    for line in sys.stdin.buffer:
        try:
            message: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and "id" in message and "method" in message:
            _send_message(sys.stdout.buffer, _make_answer(name, by_name, message))  # type: ignore[reportUnknownArgumentType]  # JSON


def _make_answer(name: str, tools: dict[str, Tool], request: JsonObject) -> JsonObject:
    """Return the JSON-RPC answer to a request, an error for an unknown method or tool."""
    params: JsonObject = request.get("params") or {}
    answer: JsonObject = {"jsonrpc": "2.0", "id": request["id"]}
    match request["method"]:
        case "initialize":
            wanted = params.get("protocolVersion")
            answer["result"] = {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"},
            }
        case "ping":
            answer["result"] = {}
        case "tools/list":
            answer["result"] = {"tools": [tool.entry for tool in tools.values()]}
        case "tools/call" if params.get("name") in tools:
            answer["result"] = _call_tool(tools[params["name"]], params.get("arguments") or {})
        case "tools/call":
            answer["error"] = {"code": _BAD_PARAMS, "message": "there is no such tool"}
        case _:
            answer["error"] = {"code": _NO_METHOD, "message": "there is no such method"}
    return answer


def _call_tool(tool: Tool, arguments: JsonObject) -> JsonObject:
    """Run a tool and return its result, marked as an error where the tool refuses or the arguments
    do not fit.
    """
    try:
        result = tool.run(**arguments)
    except ToolProblem as problem:
        return {"content": [{"type": "text", "text": str(problem)}], "isError": True}
    except TypeError:
        text = f"the arguments are {', '.join(tool.properties) or 'none'}"
        return {"content": [{"type": "text", "text": text}], "isError": True}
    text = json.dumps(result, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": result}


def _send_message(out: BinaryIO, message: JsonObject) -> None:
    """Write a message as one line of JSON."""
    out.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
    out.flush()
