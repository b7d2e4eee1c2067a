"""Context for models that took no part in the conversation: judges, planners, steps of a plan.

It holds the user's request in full, the decisions made since, and the files read for it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.lines import (
    cut_middle,
    escape_frame,
    format_bullets,
    frame_text,
    short_line,
)
from duckflow_tui.prompting.templates import Template
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.lines import split_lines

READ_FILE: Final = "file_ops.read_file"
HANDLE: Final = "result:"  # before the id of a call, where a path is wanted

SHARE: Final = 4  # the request, or the files, take at most this part (1/4) of a window

#: Every frame that the text of a question may stand in.
FRAMES: Final = (
    *("request", "requirements", "changes", "log", "reply", "judgement", "missing", "errors"),
    *("results", "problems", "partial", "suggestions", "alternatives", "attempts", "avoid"),
    *("limitations", "unavailable", "user", "text", "goal", "said", "decisions"),
    *("plans", "files", "learned", "facts", "earlier"),
)

_SAID: Final = 20  # newest messages of the user since the request
_SAID_TEXT: Final = 800  # characters of each
_BACKGROUND_DECISIONS: Final = 10  # newest
_OUTLINE: Final = 30  # lines of what a file declares
_LINE: Final = 100  # characters of each
_OTHERS: Final = 40  # files that are only named

#: A line that opens a part of a file: a declaration, a heading, a section.
_DECLARES: Final = re.compile(
    r"\s*(?:(?:export|public|private|protected|static|abstract|async|pub|default|final)\s+)*"
    r"(?:def|class|func|function|fn|struct|enum|trait|interface|impl|module|type|const)\s+\w"
    r"|#{1,4} \S|\[[\w.\-\"]+\]\s*$"
)


def frame_data(tag: str, text: str) -> str:
    """Return the text inside ``<tag>`` marks, its own closing marks escaped for every
    known frame.
    """
    return frame_text(tag, escape_frame(text, *FRAMES))


@dataclass(frozen=True, slots=True)
class Background:
    """The request in full, and the other parts as framed text, each empty where there is
    nothing.
    """

    request: str
    said: str
    constraints: str
    decisions: str
    requirements: str
    files: Sequence[FileRead] = ()

    def make_fields(
        self, texts: Mapping[str, Template], window: int, count: Callable[[str], int]
    ) -> Mapping[str, str]:
        """Return the values of a template's fields ``asked`` and ``files``, for a model whose
        context window holds ``window`` tokens. Each takes at most a quarter of it; a longer
        request is cut in the middle, with a note.
        """
        most = window // SHARE
        words = {
            "request": frame_data("request", _cut_to_tokens(self.request, most, texts, count)),
            "said": self.said,
            "constraints": self.constraints,
            "decisions": self.decisions,
            "requirements": self.requirements,
        }
        files = frame_data("files", format_files(self.files, most, count))
        return {"asked": texts["asked"].render(words), "files": files}


def make_background(
    state: AgentState, request: str = "", *, files: Sequence[FileRead] = (), ledger: bool = True
) -> Background:
    """Collect the background of the current request, or of the user's last message where there is
    none.

    ``request`` replaces the request's text; ``files`` are shown; ``ledger`` includes the
    requirements.
    """
    words = [m for m in state.messages if isinstance(m, UserMessage) and not (m.aside or m.step_id)]
    asked, since = (words[-1].text, words[-1].at) if words else ("", 0.0)
    if state.objective is not None:
        asked, since = state.objective.original_query, state.objective.created_at
    said = [short_line(m.text, _SAID_TEXT) for m in words if m.at > since and m.text != asked]
    memory = state.memory
    return Background(
        request or asked,
        frame_data("said", "\n".join(format_bullets(said[-_SAID:]))),
        "\n".join(format_bullets(memory.constraints)),
        frame_data(
            "decisions", "\n".join(format_bullets(memory.decision_log[-_BACKGROUND_DECISIONS:]))
        ),
        frame_data("requirements", lines.format_requirements(state)) if ledger else "",
        files,
    )


def _cut_to_tokens(
    text: str, tokens: int, texts: Mapping[str, Template], count: Callable[[str], int]
) -> str:
    """Return the text, cut in the middle with a note where it has more than ``tokens`` tokens."""
    size = count(text)
    if size <= tokens:
        return text
    note = {"handle": "", "op_read": ""}
    return cut_middle(
        text,
        tokens / size,
        lambda cut: texts["left_out"].render({**note, "characters": str(cut)}),
    )[0]


@dataclass(frozen=True, slots=True)
class FileRead:
    """A file, or a range of its ``lines``, as read by the model; ``changed``: a later call changed
    it.
    """

    path: str
    lines: str
    text: str
    changed: bool = False

    @property
    def name(self) -> str:
        """The path, with the numbers of the lines that were read where it was not the
        whole file.
        """
        return f"{self.path}, lines {self.lines}" if self.lines else self.path


def list_files_read(
    state: AgentState, about: str = "", *, but_of: str = ""
) -> tuple[FileRead, ...]:
    """List the files read since the request was made: first those named in the text ``about``, then
    by time, newest first. Reads from the begin of step ``but_of`` on are left out.
    """
    since = state.objective.created_at if state.objective else 0.0
    found: list[FileRead] = []
    for message in state.messages:
        if message.step_id and message.step_id == but_of:
            break
        if not isinstance(message, OperationMessage) or message.at < since:
            continue
        new = {path for c in message.result.changes for path in (c.path, c.target)}
        found = [replace(file, changed=True) if file.path in new else file for file in found]
        path, args = str(message.args.get("path", "")), message.args
        if message.operation != READ_FILE or not message.result.went_well:
            continue
        if not path.startswith(HANDLE):
            some = args.get("start_line") is not None or args.get("end_line") is not None
            part = f"{args.get('start_line') or 1}–{args.get('end_line') or ''}" if some else ""
            read = FileRead(posixpath.normpath(path), part, message.result.text)
            old = [f for f in found if f.path == read.path and part in ("", f.lines)]
            found = [read, *(f for f in found if f not in old)]

    def is_named(file: FileRead) -> bool:
        """Whether ``about`` contains the file's base name."""
        return posixpath.basename(file.path) in about

    return tuple(sorted(found, key=lambda file: not is_named(file)))


def format_files(files: Sequence[FileRead], tokens: int, count: Callable[[str], int]) -> str:
    """Format files for a prompt within a budget of ``tokens``: contents while they fit, then
    outlines, then names only.
    """
    shown: list[str] = []
    for place, file in enumerate(files):
        whole = f"== {file.name}\n{file.text.rstrip()}"
        if file.changed:
            whole = (
                f"== {file.name}, changed since it was read; as it was then:\n{_outline_file(file)}"
            )
        for text in (whole, f"== {file.name}, outline only\n{_outline_file(file)}"):
            size = count(text)
            if size <= tokens:
                tokens -= size
                shown.append(text)
                break
        else:
            rest = [short_line(other.name, 100) for other in files[place : place + _OTHERS]]
            shown.append(f"== also read: {', '.join(rest)}")
            break
    return "\n".join(shown)


def _outline_file(file: FileRead) -> str:
    """Return the lines of a file that open a declaration, a heading or a section; at most 30."""
    lines = [line.rstrip()[:_LINE] for line in split_lines(file.text) if _DECLARES.match(line)]
    return "\n".join(lines[:_OUTLINE])
