"""Background commands and MCP servers, with their live output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from duckflow_tui.state.base import Event, Frozen, StateError
from duckflow_tui.state.calls import LiveOutput

if TYPE_CHECKING:
    from duckflow_tui.state.agent import AgentState


#: Commands that ended whose entries and output are kept; of more, the oldest are forgotten.
KEPT: Final = 16


class BackgroundProcess(Frozen):
    """A background command, running or ended."""

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
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None


class McpTool(Frozen):
    """A tool of a server. ``read_only`` is the server's own claim, no more than a hint."""

    name: str  # as the server calls it
    operation: str  # mcp.<server>.<tool>
    summary: str = ""
    read_only: bool = False


class McpResource(Frozen):
    """A resource that a server offers, written ``@server:uri``. Its name comes from the server."""

    uri: str  # of a template only the beginning, up to the first part to be filled in
    about: str = ""
    is_template: bool = False


class McpPrompt(Frozen):
    """A prompt that a server offers, called as ``/server:name``. All texts come from the server."""

    name: str
    about: str = ""
    arguments: tuple[str, ...] = ()  # their names, in the server's order
    required: tuple[str, ...] = ()  # those of them that it needs


class McpServer(Frozen):
    """A configured server and its status."""

    name: str
    transport: Literal["stdio", "http"] = "stdio"
    status: Literal["off", "starting", "ready", "failed", "stopped"] = "off"
    tools: tuple[McpTool, ...] = ()
    resources: tuple[McpResource, ...] = ()
    prompts: tuple[McpPrompt, ...] = ()
    error: str = ""  # what the server or the system said, untrusted text
    log: str = ""  # path of the file that takes its stderr
    calls: int = Field(default=0, ge=0)


@dataclass(eq=False)
class ProcessState:
    """Commands in the background."""

    processes: tuple[BackgroundProcess, ...] = ()  # oldest first


class ProcessStarted(Event, kind="process_started"):
    """A background command started."""

    process: BackgroundProcess

    def apply(self, state: AgentState) -> None:
        if any(p.process_id == self.process.process_id for p in state.processes):
            raise StateError(f"process {self.process.process_id} is there already")
        state.processes = (*state.processes, self.process)


class ProcessOutput(Event, kind="process_output", transient=True):
    """A piece of what a background command prints."""

    process_id: str
    text: str
    at: float  # seconds since the epoch

    def apply(self, state: AgentState) -> None:
        if all(p.process_id != self.process_id for p in state.processes):
            return
        state.outputs.setdefault(self.process_id, LiveOutput()).add_output(self.text, self.at)


class ProcessEnded(Event, kind="process_ended"):
    """A background command ended; the output of the newest ended ones stays readable."""

    process_id: str
    exit_code: int | None  # None: it could not be told
    ended_by: Literal["itself", "user", "model", "app"]
    output_blob: str = ""
    at: float

    def apply(self, state: AgentState) -> None:
        old = next((p for p in state.processes if p.process_id == self.process_id), None)
        if old is None or not old.is_running:
            raise StateError(f"process {self.process_id} does not run")
        ended = old.replace(
            ended_at=self.at,
            exit_code=self.exit_code,
            ended_by=self.ended_by,
            output_blob=self.output_blob,
        )
        known = [ended if p is old else p for p in state.processes]
        over = sorted((p for p in known if not p.is_running), key=lambda p: p.ended_at or 0)
        forgotten = {p.process_id for p in over[:-KEPT]}
        state.processes = tuple(p for p in known if p.process_id not in forgotten)
        for process_id in forgotten:
            state.outputs.pop(process_id, None)


class McpServerChanged(Event, kind="mcp_server", transient=True):
    """A server changed status or tools. Never journalled: a resume starts servers anew."""

    server: McpServer

    def apply(self, state: AgentState) -> None:
        if any(s.name == self.server.name for s in state.servers):
            state.servers = tuple(
                self.server if s.name == self.server.name else s for s in state.servers
            )
        else:
            state.servers = (*state.servers, self.server)
