"""Slash commands and the command palette: one registry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from duckflow_tui.state.decision import TaskProfile

Takes = Literal["", "language", "theme", "mode", "vitals", "profile", "text"]

#: A message that begins so is a command; ``/etc/hosts is wrong`` is a message.
_COMMAND: Final = re.compile(r"/([A-Za-z]+)(?:[ \t]+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command by its name without the slash; ``action`` is an action of the app."""

    name: str
    action: str
    takes: Takes = ""  # what its argument chooses from, or any text; with none given the app asks
    alone: bool = False  # with none given it runs its action instead

    @property
    def text(self) -> str:
        """Key of the catalogue."""
        return f"commands.{self.name}"


COMMANDS: Final[tuple[Command, ...]] = (
    Command("keys", "keys"),
    Command("chat", "pane('chat')"),
    Command("plan", "pane('plan')"),
    Command("diff", "pane('diff')"),
    Command("vitals", "pane('vitals')", takes="vitals", alone=True),
    Command("requirements", "requirements"),
    Command("profile", "profile", takes="profile"),
    Command("more", "more"),
    Command("memory", "memory"),
    Command("remember", "remember", takes="text"),
    Command("mode", "mode", takes="mode"),
    Command("pause", "pause"),
    Command("stop", "stop"),
    Command("retry", "retry"),
    Command("queue", "queue"),
    Command("ps", "processes"),
    Command("mcp", "servers"),
    Command("undo", "undo"),
    Command("rewind", "rewind", takes="text", alone=True),
    Command("fork", "fork"),
    Command("copy", "copy"),
    Command("context", "context"),
    Command("compact", "compact", takes="text"),
    Command("sessions", "sessions"),
    Command("rename", "rename", takes="text"),
    Command("export", "export", takes="text"),
    Command("lang", "language", takes="language"),
    Command("theme", "theme", takes="theme"),
    Command("quit", "quit_now"),
)

AUTO: Final = "auto"  # of a choice: the AI's

_BY_NAME: Final = {command.name: command for command in COMMANDS}

CHOICES: Final[dict[Takes, tuple[str, ...]]] = {
    "language": ("en", "ja"),
    "theme": ("duck-dark", "duck-light", "duck-contrast"),
    "mode": ("plan", "strict", "standard", "trusted"),
    "vitals": ("on", "off"),
    "profile": (*(profile.value.lower() for profile in TaskProfile), AUTO),
}


@dataclass(frozen=True, slots=True)
class Invocation:
    """A typed command; ``command`` is None where the name is none of ours."""

    name: str
    command: Command | None
    argument: str


def parse(text: str) -> Invocation | None:
    """Read a composer's text as a command; None when it is a message."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    name = match.group(1)
    return Invocation(name, _BY_NAME.get(name.lower()), (match.group(2) or "").strip())


def starting_with(prefix: str) -> tuple[Command, ...]:
    """Commands whose name begins so, in the registry's order."""
    return tuple(command for command in COMMANDS if command.name.startswith(prefix.lower()))
