"""Operations, the proposals they make before acting, and the registry of all (S2-25)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import (
    JsonObject,
    ModelText,
    ToldError,
    canonical_json,
    clip_value,
    one_line,
    plain_schema,
)
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.operations import (
    Effect,
    FileChange,
    Need,
    OperationSpec,
    Outcome,
    Weight,
)
from duckflow_tui.tools.changes import PlannedChange


class Arguments(BaseModel):
    """Arguments of an operation. Strict: a text is no number, an unknown name is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=Arguments)


#: Keywords of a schema of arguments that are sent.
_SCHEMA: Final = (
    "description", "enum", "items", "maximum", "properties", "required", "type",
)  # fmt: skip

RUN: Final = "shell.run"  # the one operation that runs command lines


class ToolFault(ToldError):
    """Raised when an operation cannot do its work; the model is told why, and what to do.

    ``summary`` is for the screen. ``transient``: the same call may go well in a moment. ``output``
    is what there was until then.
    """

    def __init__(
        self,
        text: str | ModelText,
        /,
        outcome: Outcome = Outcome.ERROR,
        summary: str = "",
        *,
        transient: bool = False,
        output: Output | None = None,
        **values: str | ModelText | Sequence[str | ModelText],
    ) -> None:
        super().__init__(text, **values)
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
    """The result of an operation. ``read`` are the files whose content the model now knows."""

    text: str
    summary: str = ""  # one short line of figures for the screen
    read: Mapping[str, str] = field(default_factory=dict[str, str])  # shown path → SHA-256
    changes: tuple[FileChange, ...] = ()
    exit_code: int | None = None  # of a command
    cut: int = 0  # characters that ``text`` leaves out already
    blob: str = ""  # handle of the whole where it was cut
    images: tuple[
        bytes, ...
    ] = ()  # pictures that go with the text, of the kinds and size that models take
    held_back: str = ""  # what of a command a sandbox probably kept it from, as a code


class Written(NamedTuple):
    """Files that other programs act on and that changed, by path, each with the topmost ignored
    folder or file it lies in, or an empty text. Not ``whole``: there may be more.
    """

    files: Mapping[str, str]
    whole: bool = True


class Touched(NamedTuple):
    """The changes of files while a command ran."""

    changes: tuple[FileChange, ...] = ()
    uncovered: tuple[str, ...] = ()  # paths that changed and cannot be put back
    whole: bool = False  # nothing else changed, but for ignored files
    previews: tuple[FilePreview, ...] = ()  # the changes as differences, as far as they are shown
    destroyed: tuple[FileChange, ...] = ()  # ignored files that were deleted or overwritten
    obeyed: Written = Written({})


@dataclass(frozen=True, slots=True)
class Work:
    """A proposal that runs as a whole: a read, a search, a command.

    ``facts`` are shown in the gate, computed by the app. ``so_far`` is what there is of it when
    it is stopped while it runs; ``touched`` is filled at the end of a command. ``covered``: files
    of the workspace are copied before it, so that undo can put them back. ``find_facts`` takes
    some time to find further ``facts``, and is called only when a gate opens.
    """

    run: Callable[[], Awaitable[Output]]
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    so_far: Callable[[], Output] | None = None
    touched: list[Touched] = field(default_factory=list[Touched])
    covered: bool = False
    find_facts: Callable[[], Awaitable[Mapping[str, str]]] | None = None


@dataclass(frozen=True, slots=True)
class Edits:
    """A proposal that is a set of file changes, shown as diffs before anything is written."""

    changes: tuple[PlannedChange, ...]
    reasons: tuple[str, ...] = ()  # codes for the impact, such as ``not_read_before``
    note: str = ""  # what else the model is told once it was written


Proposal = Work | Edits


class Original(NamedTuple):
    """A file before the first change of it on a request."""

    name: str  # shown path
    sha: str  # SHA-256 of its content; empty where there was no file
    data: bytes | None  # None where there was no file, and where what it held was never kept


async def _no_originals() -> Mapping[str, Original]:
    return {}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The services that operations use."""

    workspace: Workspace
    seen: Mapping[str, str]  # shown path → SHA-256 as the model last saw the file
    changed_outside: tuple[str, ...]  # shown paths that changed since, the model not told yet
    progress: Callable[[str], None]  # one short line while it runs
    result: Callable[[str], Awaitable[str]]  # earlier results, by call or blob; raises ToolFault
    words: Callable[..., str]  # renders texts for the model
    output: Callable[[str], None] = lambda text: None  # what it prints, as it comes
    call_id: str = ""
    by_user: bool = False  # the user runs it with ``!``
    redact: Callable[[str], str] = str  # takes keys out of a text, as results are told
    before: Callable[[], Awaitable[Mapping[str, Original]]] = _no_originals  # by their paths of now

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
    prepare: Callable[[A, tuple[Place, ...], ToolContext], Awaitable[Proposal]]
    paths: Callable[[A], tuple[str, ...]] = lambda args: ()  # its arguments that name places
    weight: Weight = Weight.LIGHT
    needs: tuple[Need, ...] = ()  # as in OperationSpec
    listed: bool = False  # as there
    retries: int = 0  # more tries of a read after a transient fault (S3-22)
    command: Callable[[A], str] | None = None  # the line that a shell would run
    hosts: Callable[[A], tuple[str, ...]] | None = None  # as in ``Access``
    content: frozenset[str] = frozenset()  # arguments that hold text of files, C2
    help: str = ""  # more for the model, after the summary
    parameters: JsonObject | None = None  # as the model is told; None: those of ``arguments``
    untold: JsonObject | None = None  # the whole schema, where it is told on a wrong call only
    #: An ordinary call; the policy's verdict on it is what models are told of the operation.
    example: JsonObject = field(default_factory=dict[str, Any])
    version: str = ""  # of what a server says of its tool: consent to another one is none
    ready: Callable[[], Awaitable[None]] | None = None  # found out before a call is judged

    def parse_arguments(self, args: JsonObject) -> A:
        """The arguments as their model; raises ToolFault that names each error."""
        try:
            return self.arguments.model_validate(args)
        except ValidationError as error:
            problems = argument_problems(error)
            if self.untold is not None:
                raise ToolFault(
                    "call.wrong_arguments_untold",
                    Outcome.INVALID,
                    operation=self.name,
                    problems=problems,
                    schema=canonical_json(self.untold),
                ) from error
            raise ToolFault(
                "call.wrong_arguments", Outcome.INVALID, operation=self.name, problems=problems
            ) from error

    @property
    def spec(self) -> OperationSpec:
        """The entry as prompts and native calls name it."""
        return OperationSpec(
            name=self.name,
            summary=f"{self.summary} {self.help}".strip(),
            parameters=self.parameters or plain_schema(self.arguments, _SCHEMA),
            effect=self.effect,
            weight=self.weight,
            needs=self.needs,
            listed=self.listed,
        )


#: An operation whose arguments are not known to the reader.
AnyOperation = Operation[Any]

_CALLS: Final = "task|step|call|action"
#: A placeholder for a value that is not there yet, which nothing fills in (S3-18).
_PLACEHOLDER: Final = re.compile(
    r"\{\{[^{}\n]*\}\}"
    rf"|\$\{{(?:{_CALLS}|previous|last|result|output)[^{{}}\n]*\}}"
    rf"|<[^<>\n]*\bfrom (?:the )?(?:previous |last )?(?:{_CALLS})\b[^<>\n]*>"
    r"|<(?:previous_result|result_of_[\w.-]+)>"
    rf"|ref:\s*(?:previous_result|(?:{_CALLS})[\w.-]*)",
    re.IGNORECASE,
)
#: Arguments of any tool in which braces are text.
_TEXTS: Final = frozenset({"content", "pattern", "regex", "query", "sql", "template"})

_MAX_PROBLEMS: Final = 5


def argument_problems(error: ValidationError) -> list[ModelText]:
    """The errors in the arguments, each field named."""
    found = error.errors(include_url=False)
    problems: list[ModelText] = []
    for problem in found[:_MAX_PROBLEMS]:
        where = clip_value(".".join(str(part) for part in problem["loc"])) or "arguments"
        values = {"where": where}
        if (name := problem["type"]) not in ("missing", "extra_forbidden"):
            message = problem["msg"].removeprefix("Value error, ")
            values["problem"] = f"{message[:1].lower()}{message[1:]}"
            values["given"] = one_line(repr(problem["input"]), 80)
            name = "wrong"
        problems.append(ModelText(f"argument.{name}", values))
    if len(found) > _MAX_PROBLEMS:
        problems.append(ModelText("argument.more", {"count": str(len(found) - _MAX_PROBLEMS)}))
    return problems


def find_placeholders(args: JsonObject, content: frozenset[str]) -> list[str]:
    """Arguments whose whole value is a placeholder, as ``name: text``, the first few of them.
    Contents of files, patterns and queries may say anything (C2).
    """
    found: list[str] = []
    for name, value in args.items():
        if name in content or name in _TEXTS:
            continue
        for text in _iter_texts(value, content | _TEXTS):
            if _PLACEHOLDER.fullmatch(text.strip()):
                found.append(clip_value(f"{name}: {text.strip()}"))
    return found[:_MAX_PROBLEMS]


def _iter_texts(value: object, content: frozenset[str]) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _iter_texts(item, content)
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            if name not in content:
                yield from _iter_texts(item, content)


class DuplicateOperation(ValueError):
    """Two operations want one name."""


class Registry:
    """Operations by name, in the order in which they were added. A name that is taken already
    raises DuplicateOperation, and nothing is changed.
    """

    def __init__(self, operations: Iterable[AnyOperation] = ()) -> None:
        self._operations: dict[str, AnyOperation] = {}
        self._specs: tuple[OperationSpec, ...] | None = None
        self.add(*operations)

    def add(self, *operations: AnyOperation, instead_of: tuple[str, ...] = ()) -> None:
        """Put these last, instead of all whose names begin with one of those prefixes."""
        kept = {n: op for n, op in self._operations.items() if not n.startswith(instead_of)}
        for operation in operations:
            if operation.name in kept:
                raise DuplicateOperation(f"{operation.name} is in the registry already")
            kept[operation.name] = operation
        self._operations = kept
        self._specs = None

    def get(self, name: str) -> AnyOperation | None:
        """The operation of exactly that name."""
        return self._operations.get(name)

    def list_examples(self) -> dict[str, JsonObject]:
        """By name an ordinary call of each operation that has one."""
        return {name: op.example for name, op in self._operations.items() if op.example}

    def has_effects(self, name: str) -> bool:
        """Whether a call of that name may change anything outside our own state."""
        operation = self._operations.get(name)
        return operation is not None and operation.spec.has_side_effects

    def specs(self) -> tuple[OperationSpec, ...]:
        """Every operation as prompts and native calls name it, in the order of adding."""
        if self._specs is None:
            self._specs = tuple(op.spec for op in self._operations.values())
        return self._specs

    def check_arguments(self, name: str, args: JsonObject) -> Arguments:
        """The arguments of a call as their model; raises ToolFault for an operation that is not
        there, and for arguments that it cannot take.
        """
        operation = self._operations.get(name)
        if operation is None:
            raise ToolFault("call.no_operation", Outcome.INVALID, operation=clip_value(name))
        if found := find_placeholders(args, operation.content):
            raise ToolFault("call.placeholders", Outcome.INVALID, found="; ".join(found))
        return operation.parse_arguments(args)


def default_registry() -> Registry:
    """The file operations."""
    from duckflow_tui.tools import files, listing, reading, search

    return Registry(
        (
            reading.READ_FILE,
            listing.LIST_DIR,
            listing.FIND_FILES,
            search.SEARCH_TEXT,
            files.WRITE_FILE,
            files.EDIT_FILE,
            files.MOVE_FILE,
            files.DELETE_FILE,
        )
    )
