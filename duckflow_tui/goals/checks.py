"""Checks of requirements that need no judgement: a command, a file, a text in a file.

They come before the evaluator and overrule it (C15). A command goes the way of every call, through
the policy and its gate; a file is looked at where it lies and only inside the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeGuard

from duckflow_tui.safety.command_risk import assess_command
from duckflow_tui.safety.commands import read_command
from duckflow_tui.safety.paths import Place, WorkspaceError
from duckflow_tui.state.base import IdSource, brief, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, NoticeMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.goal import Evidence, RequirementItem
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome, Risk, Zone
from duckflow_tui.tools.operation import RUN

if TYPE_CHECKING:
    from duckflow_tui.safety.workspace import Workspace
    from duckflow_tui.state.store import Store

MAX_FILE: Final = 4 * 1024 * 1024  # bytes of a file that is searched

_EXCERPT: Final = 600  # characters, the last lines of an output

_EXCERPT_LINES: Final = 8

_NOT_THERE: Final = (126, 127)  # exit codes of a shell that found nothing to run

_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.STOPPED)

_EFFECTS: Final = frozenset(
    {Effect.WRITE, Effect.MOVE, Effect.DELETE, Effect.EXECUTE, Effect.REMOTE}
)

#: How notices begin that tell of a file changed by someone else, or of a change taken back.
_CHANGED: Final = ("files.", "undo.")


Verdict = Literal["met", "refuted", "unchecked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check showed; ``words`` tell it to a model. Of one that could not be run there is no
    evidence.
    """

    verdict: Verdict
    words: str
    evidence: Evidence | None = None


class CheckCaller(Protocol):
    """The router, as a check needs it."""

    async def call(self, action: Action, *, for_requirement: str = "") -> OperationMessage:
        """Judge, ask, run and record one call."""
        ...


class RequirementChecks:
    """One for a session."""

    def __init__(
        self,
        store: Store,
        ids: IdSource,
        caller: CheckCaller,
        workspace: Workspace,
        specs: Callable[[], Sequence[OperationSpec]],
    ) -> None:
        self._store = store
        self._ids = ids
        self._caller = caller
        self._workspace = workspace
        self._specs = specs

    async def look(self, item: RequirementItem) -> Finding | None:
        """What the requirement's check shows now; None for one that is left to judgement."""
        match item.check.kind:
            case "command":
                return await self._command(item)
            case "file_exists" | "file_contains":
                return await self._file(item)
            case _:
                return None

    def changed_something(self, log: Sequence[OperationMessage]) -> bool:
        """Whether any of these calls changed a file, or may have changed something else."""
        effects = {spec.name: spec.effect for spec in self._specs()}
        return any(self._may_have_changed(message, effects) for message in log)

    # --- commands ----------------------------------------------------------------------------

    async def _command(self, item: RequirementItem) -> Finding:
        command = item.check.value.strip()
        if not command:
            return Finding("unchecked", "the check names no command")
        message = self._known(command)
        if message is None:
            words = one_line(item.requirement, 200)
            message = await self._caller.call(
                Action(
                    call_id=self._ids("call"),
                    operation=RUN,
                    args={"command": command},
                    reasoning=words,
                    intent=words,
                ),
                for_requirement=item.requirement_id,
            )
        return _of_command(command, message)

    def _known(self, command: str) -> OperationMessage | None:
        """The newest run of the same command that still says how things are: nothing that may
        have changed a file came after it. What the user refused is not asked again until then.
        """
        state = self._store.state
        if state.changed_outside:
            return None
        effects = {spec.name: spec.effect for spec in self._specs()}
        for message in reversed(state.messages):
            if _is_run(message, command) and message.result.outcome not in (
                Outcome.INVALID,
                Outcome.SKIPPED,
                Outcome.STOPPED,
            ):
                return None if self._is_older_than_files(message) else message
            if self._may_have_changed(message, effects):
                return None
        return None

    def _may_have_changed(self, message: Message, effects: dict[str, Effect]) -> bool:
        if isinstance(message, NoticeMessage):
            return message.key.startswith(_CHANGED)
        if not isinstance(message, OperationMessage) or message.for_requirement:
            return False
        if message.result.changes:
            return True
        ran = message.result.outcome in _RAN
        if not ran or effects.get(message.operation, Effect.REMOTE) not in _EFFECTS:
            return False
        if message.operation == RUN:
            line = read_command(str(message.args.get("command", "")))
            root = self._workspace.root
            return assess_command(line, root, root).risk is not Risk.LOW
        return message.operation.startswith("mcp.")  # of a file, ``changes`` tells

    def _is_older_than_files(self, message: OperationMessage) -> bool:
        """Whether a file that was read or written in this session changed since the run began,
        whoever did it: the watcher may not have seen it yet.
        """
        begun = message.at - message.result.duration_s
        for path in self._store.state.files_read:
            try:
                place = self._workspace.locate(path)
                changed = os.stat(place.real).st_mtime > begun if place.exists else True
            except (WorkspaceError, OSError):
                changed = True
            if changed:
                return True
        return False

    # --- files -------------------------------------------------------------------------------

    async def _file(self, item: RequirementItem) -> Finding:
        path, text = item.check.value.strip(), ""
        if item.check.kind == "file_contains":
            path, _, text = (part.strip() for part in item.check.value.partition(":"))
            if not text:
                return Finding("unchecked", "the check names no text to look for")
        try:
            place = self._workspace.locate(path)
            if place.zone is not Zone.INSIDE or place.leads_out or place.secret:
                return Finding("unchecked", f"a check may not look at {place.said}")
            if not place.exists:
                return self._refuted(place, f"there is no {place.said}")
            if item.check.kind == "file_exists":
                size = "" if place.is_dir else f"{place.size:,} B"
                return self._met(place, f"{place.said} is there {size}".strip(), size)
            return await self._contains(place, text)
        except WorkspaceError as error:
            return Finding("unchecked", str(error))

    async def _contains(self, place: Place, text: str) -> Finding:
        if place.is_dir:
            return self._refuted(place, f"{place.said} is a folder")
        if place.size > MAX_FILE:
            return Finding("unchecked", f"{place.said} is too large to be searched")
        content = (await self._workspace.read_bytes(place)).decode("utf-8", "replace")
        at = content.find(text)
        if at < 0:
            return self._refuted(place, f"{place.said} does not hold {brief(text, 100)}")
        number = content.count("\n", 0, at) + 1
        line = f"{number}: {content.splitlines()[number - 1].strip()[:_EXCERPT]}"
        return self._met(place, f"{place.said} has in line {line}", line)

    def _met(self, place: Place, words: str, excerpt: str) -> Finding:
        return Finding("met", words, self._evidence(place, excerpt, supports=True))

    def _refuted(self, place: Place, words: str) -> Finding:
        return Finding("refuted", words, self._evidence(place, "", supports=False))

    def _evidence(self, place: Place, text: str, *, supports: bool) -> Evidence:
        now = self._store.clock.now()
        return Evidence(kind="file", text=text, source=place.shown, supports=supports, at=now)


def _is_run(message: Message, command: str) -> TypeGuard[OperationMessage]:
    """Whether it is a run of exactly this command in the workspace's own folder."""
    if not isinstance(message, OperationMessage) or message.operation != RUN:
        return False
    args = message.args
    return (
        str(args.get("command", "")).strip() == command
        and str(args.get("cwd") or ".") == "."
        and not args.get("background")
    )


def _of_command(command: str, message: OperationMessage) -> Finding:
    result = message.result
    code = result.exit_code
    if result.outcome is not Outcome.OK or code is None:
        why = one_line(result.text, 200)
        return Finding("unchecked", f"`{command}` did not run: {result.outcome.value}: {why}")
    evidence = Evidence(
        kind="command",
        text=_excerpt(result.text),
        source=command,
        supports=code == 0,
        exit_code=code,
        call_id=message.call_id,
        at=message.at,
    )
    words = f"`{command}` ended with exit code {code}: {evidence.text}".rstrip(": ")
    if code in _NOT_THERE:
        return Finding("unchecked", words, evidence)
    return Finding("met" if code == 0 else "refuted", words, evidence)


def _excerpt(text: str) -> str:
    """The end of an output, without the line that tells how the command ended."""
    lines = [line.rstrip() for line in text.splitlines()[1:] if line.strip()]
    return "\n".join(lines[-_EXCERPT_LINES:])[-_EXCERPT:]
