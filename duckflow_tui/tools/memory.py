"""Notes that outlive a session: added with the user's approval, looked up freely (S4-9)."""

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
    """One line of the notes. ``kind`` is None below a heading of the user's own. ``number`` counts
    from 0; ``raw`` is the line as in the file, by which it is removed.
    """

    number: int
    kind: MemoryKind | None
    text: str
    on: str = ""  # the day it was added, as written
    raw: str = ""


class NotesFile(Protocol):
    """The file of notes, as the operations use it. Its methods raise MemoryFault."""

    @property
    def path(self) -> str:
        """The path of the file."""
        ...

    @property
    def redacted(self) -> Callable[[str], str]:
        """A function that removes secrets from a text."""
        ...

    async def list_lines(self) -> tuple[MemoryLine, ...]:
        """Return all lines of the notes."""
        ...

    async def check(self, text: str) -> None:
        """Raise MemoryFault for a text that cannot be added."""
        ...

    async def remember(self, text: str, kind: MemoryKind) -> None:
        """Add a line."""
        ...


class MemoryFault(ToolFault):
    """The reason why a line was not added or removed; ``detail`` is the system's error text, if
    any.
    """

    def __init__(self, code: FaultCode, detail: str = "") -> None:
        """``code`` selects the text ``note.<code>`` for the model and the outcome."""
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
    """Raise MemoryFault for a text that cannot be a line of notes: empty, too long, or with control
    characters.
    """
    if not text.strip():
        raise MemoryFault("empty")
    if len(text) > LONGEST:
        raise MemoryFault("too_long")
    if "\n" in text or not is_safe(text):
        raise MemoryFault("control")


def are_same_words(one: str, other: str) -> bool:
    """Whether two lines are equal except for width, case and spaces."""
    return _plain_text(one) == _plain_text(other)


def find_matching(lines: Sequence[MemoryLine], query: str) -> list[MemoryLine]:
    """Return the lines that contain terms of the query, most terms first, then newest first.

    Scripts without spaces are compared by pairs of characters. An empty query matches every line.
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
    """Return the terms of a query: words, and pairs of characters in scripts without spaces."""
    words, pairs = set[str](), set[str]()
    for word in _WORDS.findall(_plain_text(query)):
        words |= {part for part in _DENSE.split(word) if part}
        for run in _DENSE.findall(word):
            pairs |= {run[at : at + 2] for at in range(max(1, len(run) - 1))}
    # Hiragana endings and particles are in every sentence; they count only if nothing else does.
    telling = {pair for pair in pairs if not _HIRAGANA.fullmatch(pair)}
    return (words | telling) or pairs


def _plain_text(text: str) -> str:
    """Normalize a text for comparison: NFKC, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_FAULTY: Final = frozenset({"full", "not_text", "gone", "disk"})


def memory_operations(memory: NotesFile) -> tuple[AnyOperation, ...]:
    """Return the operations ``memory.remember`` and ``memory.recall`` on these notes."""

    async def remember(args: Remember, places: tuple[Place, ...], context: ToolContext) -> Work:
        """Check a note and return the work that adds it."""
        await memory.check(args.text)

        async def write() -> Output:
            """Add the note to the file."""
            await memory.remember(args.text, args.kind)
            return Output(context.words("note.kept"))

        return Work(write, {"memory_file": memory.path})

    async def recall(args: Recall, places: tuple[Place, ...], context: ToolContext) -> Work:
        """Return the work that looks up notes."""

        async def look() -> Output:
            """Find the notes that match the query."""
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
    """Return a note as a list item for the model, with its kind and day."""
    marks = ", ".join(mark for mark in (line.kind or "", line.on) if mark)
    return f"- {line.text} ({marks})" if marks else f"- {line.text}"
