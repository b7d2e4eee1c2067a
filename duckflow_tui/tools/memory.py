"""Notes that outlive a session: noted after the user's key, looked up freely (S4-9)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from pydantic import Field

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.safe_text import is_safe
from duckflow_tui.state.base import ModelText
from duckflow_tui.state.operations import Effect, Need, Outcome
from duckflow_tui.tools.operation import (
    AnyOperation,
    Arguments,
    Operation,
    Output,
    ToolContext,
    ToolFault,
    Work,
)

MemoryKind = Literal["worked", "failed", "preference"]
FaultCode = Literal[
    "empty", "too_long", "control", "secret", "known", "full", "not_text", "gone", "disk"
]

LONGEST: Final = 300  # characters of a line
MOST_FOUND: Final = 20  # lines of an answer


class MemoryLine(NamedTuple):
    """One line. ``kind`` is None where it stands under a heading of the user's own. ``number``
    counts from 0; ``raw`` is the line as the file has it, which a removal names.
    """

    number: int
    kind: MemoryKind | None
    text: str
    on: str = ""  # the day it was noted, as written
    raw: str = ""


class NotesFile(Protocol):
    """The file of notes behind the operations. Its methods raise MemoryFault."""

    @property
    def path(self) -> str: ...

    @property
    def redacted(self) -> Callable[[str], str]: ...

    async def list_lines(self) -> tuple[MemoryLine, ...]: ...

    async def check(self, text: str) -> None: ...

    async def remember(self, text: str, kind: MemoryKind) -> None: ...


class MemoryFault(ToolFault):
    """Why a line was not noted or removed; ``detail`` is the system's word, if it had one."""

    def __init__(self, code: FaultCode, detail: str = "") -> None:
        outcome = Outcome.ERROR if code in _FAULTY else Outcome.INVALID
        if code == "known":
            outcome = Outcome.SKIPPED
        values = {"limit": str(LONGEST)} if code == "too_long" else {}
        if code == "disk":
            values = {"reason": detail}
        super().__init__(ModelText(f"note.{code}", values), outcome)
        self.code: FaultCode = code
        self.detail = detail


class Remember(Arguments):
    text: str = Field(description=f"At most {LONGEST} characters.")
    kind: MemoryKind


class Recall(Arguments):
    query: str = Field(default="", description="Left out: the newest lines.")


def check_words(text: str) -> None:
    """Raise what is wrong with a line whatever the notes hold."""
    if not text.strip():
        raise MemoryFault("empty")
    if len(text) > LONGEST:
        raise MemoryFault("too_long")
    if "\n" in text or not is_safe(text):
        raise MemoryFault("control")


def are_same_words(one: str, other: str) -> bool:
    """Whether two lines say the same but for width, case and spaces."""
    return _plain_text(one) == _plain_text(other)


def find_matching(lines: Sequence[MemoryLine], query: str) -> list[MemoryLine]:
    """The lines that hold words of the query, those with more of them first, then the newest.

    Scripts without spaces are compared by pairs of characters. An empty query fits every line.
    """
    wanted = _search_terms(query)
    newest = sorted(lines, key=lambda line: (line.on, line.number), reverse=True)
    if not query.strip():
        return newest
    scored = [(sum(term in _plain_text(line.text) for term in wanted), line) for line in newest]
    return [line for score, line in sorted(scored, key=lambda pair: -pair[0]) if score]


_WORDS: Final = re.compile(r"[^\W_]+")
_DENSE: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_HIRAGANA: Final = re.compile("[\u3040-\u309f]+")


def _search_terms(query: str) -> set[str]:
    """The terms to search for: words, and pairs of characters in scripts without blanks."""
    words, pairs = set[str](), set[str]()
    for word in _WORDS.findall(_plain_text(query)):
        words |= {part for part in _DENSE.split(word) if part}
        for run in _DENSE.findall(word):
            pairs |= {run[at : at + 2] for at in range(max(1, len(run) - 1))}
    # Endings and particles are in every sentence; they count only where there is nothing else.
    telling = {pair for pair in pairs if not _HIRAGANA.fullmatch(pair)}
    return (words | telling) or pairs


def _plain_text(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_FAULTY: Final = frozenset({"full", "not_text", "gone", "disk"})


def memory_operations(memory: NotesFile) -> tuple[AnyOperation, ...]:
    """The operations on the notes."""

    async def remember(args: Remember, places: tuple[Place, ...], context: ToolContext) -> Work:
        await memory.check(args.text)

        async def write() -> Output:
            await memory.remember(args.text, args.kind)
            return Output(context.words("note.kept"))

        return Work(write, {"memory_file": memory.path})

    async def recall(args: Recall, places: tuple[Place, ...], context: ToolContext) -> Work:
        async def look() -> Output:
            found = find_matching(await memory.list_lines(), args.query)[:MOST_FOUND]
            text = memory.redacted("\n".join(_format_line(line) for line in found))
            told = context.words("note.found", notes=text) if found else None
            return Output(told or context.words("note.nothing"), str(len(found)))

        return Work(look)

    return (
        Operation(
            name="memory.remember",
            listed=True,
            summary="Note a lasting wish of the user, or what will matter here again; no secrets.",
            effect=Effect.WRITE,
            arguments=Remember,
            prepare=remember,
            content=frozenset({"text"}),
        ),
        Operation(
            name="memory.recall",
            summary="Look up what earlier sessions noted about this project.",
            effect=Effect.READ,
            arguments=Recall,
            needs=(Need.NOTES,),
            prepare=recall,
            content=frozenset({"query"}),
        ),
    )


def _format_line(line: MemoryLine) -> str:
    marks = ", ".join(mark for mark in (line.kind or "", line.on) if mark)
    return f"- {line.text} ({marks})" if marks else f"- {line.text}"
