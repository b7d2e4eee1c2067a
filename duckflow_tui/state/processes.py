"""What runs beside the conversation: background commands, MCP servers, output as it comes."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Frozen

TAIL: Final = 64_000  # characters kept of output that is still arriving; the whole goes to a blob


def overprinted(text: str) -> str:
    """What a terminal would leave of each line: what follows its last carriage return.

    CR LF is a line end. A carriage return at the very end stays: what it does depends on what
    comes next.
    """
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if "\r" in line:
            body = line.rstrip("\r")
            rest = "\r" if number == last and body != line else ""
            lines[number] = body.rpartition("\r")[2] + rest
    return "\n".join(lines)


class LiveOutput:
    """Output that is arriving: its newest part, and how much there was. Mutable, it grows often.

    A carriage return begins the line anew, so that a progress bar stays one line.
    """

    def __init__(self) -> None:
        self.total = 0  # characters so far
        self.at = 0.0  # when the newest piece came, seconds since the epoch; 0: not known
        self._parts: list[str] = []  # whole lines, and pieces of a line that is very long
        self._kept = 0
        self._line = ""  # the last line, as long as it may be printed over

    def add(self, text: str, at: float = 0.0) -> None:
        """Take a piece in; what is older than the newest ``TAIL`` characters goes."""
        self.total += len(text)
        self.at = at or self.at
        text = overprinted(self._line + text)
        whole = text.rfind("\n") + 1
        if len(text) - whole > TAIL:
            whole = len(text)
        self._line = text[whole:]
        self._parts.append(text[:whole])
        self._kept += whole
        if self._kept > 2 * TAIL:
            joined = "".join(self._parts)[-TAIL:]
            self._parts, self._kept = [joined], len(joined)

    @property
    def text(self) -> str:
        """The newest ``TAIL`` characters."""
        return ("".join(self._parts) + self._line.rstrip("\r"))[-TAIL:]

    def newest(self, count: int) -> list[str]:
        """The newest ``count`` lines, the unfinished one included; asked for at every frame."""
        pieces = [self._line.rstrip("\r")]
        ends = size = 0
        for part in reversed(self._parts):
            if ends > count or size > TAIL:
                break
            pieces.append(part)
            ends += part.count("\n")
            size += len(part)
        lines = "".join(reversed(pieces))[-TAIL:].rsplit("\n", count + 1)
        if not lines[-1]:
            lines.pop()
        return lines[-count:]


class BackgroundProcess(Frozen):
    """A command that runs, or ran, beside the work."""

    process_id: str
    call_id: str  # of the call that started it
    command: str
    cwd: str  # as shown: relative to the workspace
    started_at: float  # seconds since the epoch
    ended_at: float | None = None
    exit_code: int | None = None  # negative: the signal that ended it
    ended_by: Literal["", "itself", "user", "model", "app"] = ""
    output_blob: str = ""  # the whole output, once it ended

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None


class McpTool(Frozen):
    """A tool of a server. ``read_only`` is the server's word, a hint and no more."""

    name: str  # as the server calls it
    operation: str  # mcp.<server>.<tool>
    summary: str = ""
    read_only: bool = False


class McpServer(Frozen):
    """A server from the settings and how it is."""

    name: str
    transport: Literal["stdio", "http"] = "stdio"
    status: Literal["off", "starting", "ready", "failed", "stopped"] = "off"
    tools: tuple[McpTool, ...] = ()
    error: str = ""  # what the server or the system said, untrusted text
    log: str = ""  # path of the file that takes its stderr
    calls: int = Field(default=0, ge=0)
