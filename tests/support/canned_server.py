"""A server of tools over HTTP whose answers are given as files; prints its port, then serves.

``--tools FILE``: the result of ``tools/list``. ``--result FILE``: that of ``tools/call``.
``--ask FILE``: the params of a question that a call asks before; the client's answer becomes the
call's result. ``--closed``: it wants to be signed in at, and what it says of that never ends.
Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

PIECE: Final = b"x" * 1024 * 1024
TOOLS: Final = b'{"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}'


def read_file(name: str, otherwise: bytes = b"") -> bytes:
    return Path(name).read_bytes() if name else otherwise


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    options: argparse.Namespace
    answers: queue.Queue[dict[str, Any]] = queue.Queue()

    def log_message(self, *_: object) -> None:  # type: ignore[override]  # says nothing
        pass

    def send(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_result(self, request: dict[str, Any], result: bytes) -> None:
        head = json.dumps({"jsonrpc": "2.0", "id": request["id"]}).encode()
        self.send(200, head[:-1] + b', "result": ' + result + b"}")

    def send_events(self, pieces: Any) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()

    def ask(self, request: dict[str, Any]) -> Any:
        head = json.dumps({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"}).encode()
        yield b"data: " + head[:-1] + b', "params": ' + read_file(self.options.ask) + b"}\n\n"
        text = json.dumps(self.answers.get(timeout=60))
        result = {"content": [{"type": "text", "text": text}]}
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        yield f"data: {json.dumps(answer)}\n\n".encode()

    def do_GET(self) -> None:
        if self.options.closed and ".well-known" in self.path:
            self.send_events(PIECE for _ in range(300))
        else:
            self.send(405)

    def do_DELETE(self) -> None:
        self.send(405)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message.get("method")
        if self.options.closed:
            self.send(401)
        elif method is None:
            self.answers.put(message)
            self.send(202)
        elif method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "canned", "version": "1"},
            }
            self.send_result(message, json.dumps(result).encode())
        elif method == "tools/list":
            self.send_result(message, read_file(self.options.tools, TOOLS))
        elif method == "tools/call" and self.options.ask:
            self.send_events(self.ask(message))
        elif method == "tools/call":
            self.send_result(message, read_file(self.options.result))
        else:
            self.send(404 if "id" in message else 202)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--tools", "--result", "--ask"):
        parser.add_argument(name, default="")
    parser.add_argument("--closed", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    Handler.options = parser.parse_args()
    serving = ThreadingHTTPServer(("127.0.0.1", Handler.options.port), Handler)
    print(serving.server_port, flush=True)
    serving.serve_forever()


if __name__ == "__main__":
    main()
