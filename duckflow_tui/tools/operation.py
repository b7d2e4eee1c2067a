"""Operations, the proposals that they make before acting, their results and faults, and the
registry (S2-25).
"""

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
from duckflow_tui.state.operations import Effect, FileChange, Need, OperationSpec, Outcome, Weight
from duckflow_tui.tools.changes import PlannedChange


class Arguments(BaseModel):
    """Base of the arguments of an operation. Strict: a text is not accepted as a number, an unknown
    name is an error.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


A = TypeVar("A", bound=Arguments)


#: Keywords of an argument schema that are sent to models.
_SCHEMA: Final = (
    "description", "enum", "items", "maximum", "properties", "required", "type",
)  # fmt: skip

RUN: Final = "shell.run"  # the one operation that runs command lines


class ToolFault(ToldError):
    """An operation could not do its work; the text tells the model why, and what to do.

    ``summary`` is for the screen. ``transient``: the same call may succeed in a moment. ``output``
    is the output so far.
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
    """A store of bytes by their SHA-256."""

    async def put(self, data: bytes) -> str:
        """Store the bytes and return their SHA-256, once they would survive a crash. Raises
        OSError.
        """
        ...

    async def get(self, sha: str) -> bytes:
        """Return the bytes; raises KeyError when they were never stored or are damaged."""
        ...


@dataclass(frozen=True, slots=True)
class Output:
    """The result of an operation. ``read`` are the files whose present content the model
    now knows.
    """

    text: str
    summary: str = ""  # one short line of figures for the screen
    read: Mapping[str, str] = field(default_factory=dict[str, str])  # shown path → SHA-256
    changes: tuple[FileChange, ...] = ()
    exit_code: int | None = None  # of a command
    cut: int = 0  # characters already left out of ``text``
    blob: str = ""  # handle of the whole output where it was cut
    images: tuple[bytes, ...] = ()  # pictures with the text, of kinds and sizes that models accept
    held_back: str = ""  # the sandbox restriction that probably made a command fail, a code


class Written(NamedTuple):
    """Changed files that other programs act on: path → the topmost ignored folder or file that it
    lies in, empty for none. ``whole`` False: there may be more.
    """

    files: Mapping[str, str]
    whole: bool = True


class Touched(NamedTuple):
    """The file changes that were found after a command."""

    changes: tuple[FileChange, ...] = ()
    uncovered: tuple[str, ...] = ()  # changed paths that undo cannot restore
    whole: bool = False  # nothing else changed except ignored files
    previews: tuple[FilePreview, ...] = ()  # of the changes that are shown
    destroyed: tuple[FileChange, ...] = ()  # ignored files that were deleted or overwritten
    obeyed: Written = Written({})


@dataclass(frozen=True, slots=True)
class Work:
    """A proposal to run something as a whole: a read, a search, a command.

    ``facts`` are shown in the gate, computed by the app. ``so_far`` returns the output when it is
    stopped while running; ``touched`` is filled at the end of a command. ``covered``: files of the
    workspace are copied before it, so that undo can restore them. ``find_facts`` computes slower
    ``facts`` and is called only when a gate opens.
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
    note: str = ""  # further text for the model after the write


Proposal = Work | Edits


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The services and facts that an operation gets with a call."""

    workspace: Workspace
    seen: Mapping[str, str]  # shown path → SHA-256 as the model last saw the file
    changed_outside: tuple[str, ...]  # shown paths that changed since, not told to the model yet
    progress: Callable[[str], None]  # shows one short line while it runs
    result: Callable[[str], Awaitable[str]]  # earlier result by call or blob; raises ToolFault
    words: Callable[..., str]  # renders texts for the model
    output: Callable[[str], None] = lambda text: None  # shows output as it comes
    call_id: str = ""
    by_user: bool = False  # the user runs it with ``!``
    redact: Callable[[str], str] = str  # removes secrets from a text

    def state_of(self, place: Place, sha: str) -> tuple[str, ...]:
        """Return codes for how well the model knows an existing file with this SHA-256:
        ``not_read_before``, ``changed_since_read``, or none when it has seen the present
        content.
        """
        last = self.seen.get(place.shown)
        if last is None:
            return ("not_read_before",)
        if last != sha or place.shown in self.changed_outside:
            return ("changed_since_read",)
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A]):
    """An operation that a model can call. ``prepare`` returns a proposal and changes nothing."""

    name: str  # dotted, the same for every codec
    summary: str  # one sentence for the model
    effect: Effect
    arguments: type[A]
    prepare: Callable[[A, tuple[Place, ...], ToolContext], Awaitable[Proposal]]
    paths: Callable[[A], tuple[str, ...]] = lambda args: ()  # the paths among its arguments
    weight: Weight = Weight.LIGHT
    needs: tuple[Need, ...] = ()  # as in OperationSpec
    listed: bool = False  # as in OperationSpec
    retries: int = 0  # repetitions of a read after a transient fault (S3-22)
    command: Callable[[A], str] | None = None  # the line that a shell would run
    hosts: Callable[[A], tuple[str, ...]] | None = None  # as in ``Access``
    content: frozenset[str] = frozenset()  # arguments that hold text of files, C2
    help: str = ""  # more for the model, after the summary
    parameters: JsonObject | None = None  # schema for the model; None: that of ``arguments``
    untold: JsonObject | None = None  # whole schema, if sent only after a wrong call
    #: Arguments of an ordinary call; models are told the policy's verdict on it.
    example: JsonObject = field(default_factory=dict[str, Any])
    version: str = ""  # hash of a server's description; consent to another version does not count
    ready: Callable[[], Awaitable[None]] | None = None  # awaited before a call is judged

    def parse_arguments(self, args: JsonObject) -> A:
        """Return the validated arguments; raises ToolFault that names each error."""
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
        """The description of the operation for prompts and native tool calls."""
        return OperationSpec(
            name=self.name,
            summary=f"{self.summary} {self.help}".strip(),
            parameters=self.parameters or plain_schema(self.arguments, _SCHEMA),
            effect=self.effect,
            weight=self.weight,
            needs=self.needs,
            listed=self.listed,
        )


#: An operation with any type of arguments.
AnyOperation = Operation[Any]

_CALLS: Final = "task|step|call|action"
#: A placeholder for a later value, which nothing would fill in (S3-18).
_PLACEHOLDER: Final = re.compile(
    r"\{\{[^{}\n]*\}\}"
    rf"|\$\{{(?:{_CALLS}|previous|last|result|output)[^{{}}\n]*\}}"
    rf"|<[^<>\n]*\bfrom (?:the )?(?:previous |last )?(?:{_CALLS})\b[^<>\n]*>"
    r"|<(?:previous_result|result_of_[\w.-]+)>"
    rf"|ref:\s*(?:previous_result|(?:{_CALLS})[\w.-]*)",
    re.IGNORECASE,
)
#: Names of arguments of any tool in which braces may be text.
_TEXTS: Final = frozenset({"content", "pattern", "regex", "query", "sql", "template"})

_MAX_PROBLEMS: Final = 5


def argument_problems(error: ValidationError) -> list[ModelText]:
    """Return the first five validation errors as texts for the model, each with its field, and the
    number of the others.
    """
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
    """Return the first five arguments whose whole value is a placeholder, such as ``{{…}}``, as
    ``name: text``. Names in ``content``, patterns and queries are not searched (C2).
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
    """Yield all strings in a JSON value, except those below the names in ``content``."""
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
    """Two operations have the same name."""


class Registry:
    """Operations by name, in the order of adding. Adding a name twice raises DuplicateOperation and
    changes nothing.
    """

    def __init__(self, operations: Iterable[AnyOperation] = ()) -> None:
        self._operations: dict[str, AnyOperation] = {}
        self._specs: tuple[OperationSpec, ...] | None = None
        self.add(*operations)

    def add(self, *operations: AnyOperation, instead_of: tuple[str, ...] = ()) -> None:
        """Add operations at the end, after removing all whose names begin with a prefix in
        ``instead_of``.
        """
        kept = {n: op for n, op in self._operations.items() if not n.startswith(instead_of)}
        for operation in operations:
            if operation.name in kept:
                raise DuplicateOperation(f"{operation.name} is in the registry already")
            kept[operation.name] = operation
        self._operations = kept
        self._specs = None

    def get(self, name: str) -> AnyOperation | None:
        """Return the operation of this exact name, or None."""
        return self._operations.get(name)

    def list_examples(self) -> dict[str, JsonObject]:
        """Return an ordinary call for each operation that has one, by name."""
        return {name: op.example for name, op in self._operations.items() if op.example}

    def has_effects(self, name: str) -> bool:
        """Whether the operation of this name may change anything outside the app's own state; False
        for an unknown name.
        """
        operation = self._operations.get(name)
        return operation is not None and operation.spec.has_side_effects

    def specs(self) -> tuple[OperationSpec, ...]:
        """Return the descriptions of all operations, in the order of adding. Cached."""
        if self._specs is None:
            self._specs = tuple(op.spec for op in self._operations.values())
        return self._specs

    def check_arguments(self, name: str, args: JsonObject) -> Arguments:
        """Return the validated arguments of a call; raises ToolFault for an unknown operation, for
        placeholders and for invalid arguments.
        """
        operation = self._operations.get(name)
        if operation is None:
            raise ToolFault("call.no_operation", Outcome.INVALID, operation=clip_value(name))
        if found := find_placeholders(args, operation.content):
            raise ToolFault("call.placeholders", Outcome.INVALID, found="; ".join(found))
        return operation.parse_arguments(args)


def default_registry() -> Registry:
    """Return a new registry with the file operations."""
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
