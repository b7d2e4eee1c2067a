"""Events of what runs beside the conversation: output, background commands, MCP servers."""

from __future__ import annotations

from typing import ClassVar, Literal

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.event_base import BaseEvent, StateError
from duckflow_tui.state.processes import BackgroundProcess, LiveOutput, McpServer


class OperationOutput(BaseEvent):
    """A piece of what a running call prints; the whole comes with its result."""

    kind: Literal["operation_output"] = "operation_output"
    transient: ClassVar[bool] = True
    call_id: str
    text: str
    at: float = 0.0  # 0: not known

    def apply(self, state: AgentState) -> None:
        if all(r.call_id != self.call_id for r in state.running):
            return
        state.outputs.setdefault(self.call_id, LiveOutput()).add(self.text, self.at)


class ProcessStarted(BaseEvent):
    """A command runs in the background from now on."""

    kind: Literal["process_started"] = "process_started"
    process: BackgroundProcess

    def apply(self, state: AgentState) -> None:
        if any(p.process_id == self.process.process_id for p in state.processes):
            raise StateError(f"process {self.process.process_id} is there already")
        state.processes = (*state.processes, self.process)


class ProcessOutput(BaseEvent):
    """A piece of what a background command prints."""

    kind: Literal["process_output"] = "process_output"
    transient: ClassVar[bool] = True
    process_id: str
    text: str
    at: float = 0.0  # 0: not known

    def apply(self, state: AgentState) -> None:
        if all(p.process_id != self.process_id for p in state.processes):
            return
        state.outputs.setdefault(self.process_id, LiveOutput()).add(self.text, self.at)


class ProcessEnded(BaseEvent):
    """A background command ended; its newest output stays readable in this session."""

    kind: Literal["process_ended"] = "process_ended"
    process_id: str
    exit_code: int | None  # None: it could not be told
    ended_by: Literal["itself", "user", "model", "app"]
    output_blob: str = ""
    at: float

    def apply(self, state: AgentState) -> None:
        old = next((p for p in state.processes if p.process_id == self.process_id), None)
        if old is None or not old.runs:
            raise StateError(f"process {self.process_id} does not run")
        ended = old.model_copy(
            update={
                "ended_at": self.at,
                "exit_code": self.exit_code,
                "ended_by": self.ended_by,
                "output_blob": self.output_blob,
            }
        )
        state.processes = tuple(ended if p is old else p for p in state.processes)


class McpServerChanged(BaseEvent):
    """A server came to another status or has other tools. Never journalled: a session that is
    taken up again starts its servers anew.
    """

    kind: Literal["mcp_server"] = "mcp_server"
    transient: ClassVar[bool] = True
    server: McpServer

    def apply(self, state: AgentState) -> None:
        if any(s.name == self.server.name for s in state.servers):
            state.servers = tuple(
                self.server if s.name == self.server.name else s for s in state.servers
            )
        else:
            state.servers = (*state.servers, self.server)
