"""What an operation is: its entry in the registry, and what it proposes to do before it does it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import JsonObject, brief, one_line
from duckflow_tui.state.operations import Effect, FileChange, OperationSpec, Outcome, Weight, Zone
from duckflow_tui.tools.changes import PlannedChange


class Arguments(BaseModel):
    """Arguments of an operation. Strict: a text is no number, an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=Arguments)


RUN: Final = "shell.run"  # the one operation that runs command lines


class ToolFault(Exception):
    """What kept an operation from its work, and what to do, in words for the model.

    ``transient``: the same call may go well in a moment. ``output`` is what there was until then.
    """

    def __init__(
        self,
        text: str,
        outcome: Outcome = Outcome.ERROR,
        summary: str = "",
        *,
        transient: bool = False,
        output: Output | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.outcome = outcome
        self.summary = summary
        self.transient = transient
        self.output = output


class Blobs(Protocol):
    """Where bytes are kept by their SHA-256."""

    async def put(self, data: bytes) -> str:
        """Keep the bytes; returns once they would survive a crash. Raises OSError."""
        ...

    async def get(self, sha: str) -> bytes:
        """The bytes; raises KeyError when they were never kept or are damaged."""
        ...


@dataclass(frozen=True, slots=True)
class Output:
    """What an operation found or did. ``read`` are the files whose content the model now knows."""

    text: str
    summary: str = ""  # one short line of figures for the screen
    read: Mapping[str, str] = field(default_factory=dict[str, str])  # shown path → SHA-256
    changes: tuple[FileChange, ...] = ()
    exit_code: int | None = None  # of a command
    cut: int = 0  # characters that ``text`` leaves out already
    blob: str = ""  # handle of the whole where it was cut


@dataclass(frozen=True, slots=True)
class Work:
    """A proposal that runs as a whole: a read, a search, a command.

    ``facts`` are shown in the gate, computed by the app. ``so_far`` is what there is of it when
    it is stopped while it runs.
    """

    run: Callable[[], Awaitable[Output]]
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    so_far: Callable[[], Output] | None = None


@dataclass(frozen=True, slots=True)
class Edits:
    """A proposal that is a set of file changes, shown as diffs before anything is written."""

    changes: tuple[PlannedChange, ...]
    reasons: tuple[str, ...] = ()  # codes for the impact, such as ``not_read_before``
    note: str = ""  # what else the model is told once it was written


Proposal = Work | Edits


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What operations work with."""

    workspace: Workspace
    seen: Mapping[str, str]  # shown path → SHA-256 as the model last saw the file
    changed_outside: tuple[str, ...]  # shown paths that changed since, the model not told yet
    progress: Callable[[str], None]  # one short line while it runs
    result: Callable[[str], Awaitable[str]]  # earlier results, by call or blob; raises ToolFault
    output: Callable[[str], None] = lambda text: None  # what it prints, as it comes
    call_id: str = ""
    step_id: str = ""  # the plan's step the call belongs to
    by_user: bool = False  # the user runs it with ``!``

    def reveals(self, place: Place) -> bool:
        """Whether an error may quote the file although no gate was passed: it lies inside and
        is no secret, or the model read it before.
        """
        return place.zone is Zone.INSIDE or place.shown in self.seen

    def state_of(self, place: Place, sha: str) -> tuple[str, ...]:
        """Codes that say how well the model knows a file that is there with this hash."""
        last = self.seen.get(place.shown)
        if last is None:
            return ("not_read_before",)
        if last != sha or place.shown in self.changed_outside:
            return ("changed_since_read",)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A]):
    """One thing that can be called. ``prepare`` looks and computes, and changes nothing."""

    name: str  # dotted, the same for every codec
    summary: str  # one sentence for the model
    effect: Effect
    arguments: type[A]
    paths: Callable[[A], tuple[str, ...]]  # those of its arguments that name places
    prepare: Callable[[A, tuple[Place, ...], ToolContext], Awaitable[Proposal]]
    weight: Weight = Weight.LIGHT
    retries: int = 0  # more tries of a read after a transient fault (S3-22)
    command: Callable[[A], str] | None = None  # the line that a shell would run
    content: frozenset[str] = frozenset()  # arguments that hold text of files, C2
    help: str = ""  # more for the model, after the summary

    @property
    def spec(self) -> OperationSpec:
        """The entry as prompts and native calls name it."""
        return OperationSpec(
            name=self.name,
            summary=f"{self.summary} {self.help}".strip(),
            parameters=model_schema(self.arguments),
            effect=self.effect,
            weight=self.weight,
        )


#: An operation whose arguments are not known to the reader.
AnyOperation = Operation[Any]


#: References to results of other calls, which nothing fills in (C2, S3-18).
_REFERENCE: Final = re.compile(
    r"\{\{[^{}]*\}\}"  # {{previous_result}}, {{task_1.output}}
    r"|\$\{(?:previous|task|step|result)[\w.\[\]-]*\}"
    r"|^\s*ref:\s*\S+"
    r"|<(?:previous_result|result_of_[\w.-]+)>",
    re.IGNORECASE,
)

_MAX_PROBLEMS: Final = 5


def model_schema(model: type[BaseModel]) -> JsonObject:
    """The JSON schema of the arguments: no titles, no references, optional without ``null``."""
    schema = model.model_json_schema()
    definitions = cast("dict[str, JsonObject]", schema.pop("$defs", {}))
    for table in (schema, *definitions.values()):
        table.pop("description", None)  # the docstring of the class, which is not for models
    return cast("JsonObject", _clean(schema, definitions))


def _clean(node: object, definitions: dict[str, JsonObject]) -> object:
    if isinstance(node, list):
        return [_clean(item, definitions) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    table = dict(cast("dict[str, Any]", node))
    reference = table.pop("$ref", None)
    if isinstance(reference, str):
        table = {**definitions[reference.rsplit("/", 1)[-1]], **table}
    choices = table.get("anyOf")
    if isinstance(choices, list):
        real = [c for c in cast("list[JsonObject]", choices) if c.get("type") != "null"]
        if len(real) == 1:
            del table["anyOf"]
            table = {**real[0], **table}
            if table.get("default", 0) is None:
                del table["default"]
    cleaned: JsonObject = {}
    for key, value in table.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties":
            fields = cast("JsonObject", value)
            cleaned[key] = {name: _clean(field, definitions) for name, field in fields.items()}
        else:
            cleaned[key] = _clean(value, definitions)
    if model_text := cleaned.get("description"):
        cleaned["description"] = " ".join(str(model_text).split())
    return cleaned


def argument_problems(error: ValidationError) -> str:
    """What is wrong with the arguments, each field named, in words for the model."""
    found = error.errors(include_url=False)
    words: list[str] = []
    for problem in found[:_MAX_PROBLEMS]:
        where = brief(".".join(str(part) for part in problem["loc"])) or "arguments"
        kind = problem["type"]
        if kind == "missing":
            words.append(f"{where}: is required")
        elif kind == "extra_forbidden":
            words.append(f"{where}: there is no such argument")
        else:
            given = one_line(repr(problem["input"]), 80)
            message = problem["msg"].removeprefix("Value error, ")
            words.append(f"{where}: {message[:1].lower()}{message[1:]} (given: {given})")
    if len(found) > _MAX_PROBLEMS:
        words.append(f"and {len(found) - _MAX_PROBLEMS} more")
    return "; ".join(words)


def references(args: JsonObject, content: frozenset[str]) -> list[str]:
    """Arguments that refer to other results instead of holding a value, as ``name: text``, the
    first few of them.

    Fields that hold the content of files may say anything (C2).
    """
    found: list[str] = []
    for name, value in args.items():
        if name in content:
            continue
        for text in _texts(value, content):
            if match := _REFERENCE.search(text):
                found.append(brief(f"{name}: {match.group().strip()}"))
    return found[:_MAX_PROBLEMS]


def _texts(value: object, content: frozenset[str]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item, content)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            if name not in content:
                yield from _texts(item, content)
